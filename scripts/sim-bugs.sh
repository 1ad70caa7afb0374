#!/usr/bin/env bash
# Plants each bug of stress/sim/bugs in a copy of the sources, builds the simulator there, and demands
# that it finds the bug. What each bug does is in stress/sim/bugs/README.md.
#
#   scripts/sim-bugs.sh [SEEDS] [NAME…]     10,000 seeds at most; all patches
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=${1:-10000}
shift || true
work=build/sim-bugs
patches=(stress/sim/bugs/*.patch)
if [ $# -gt 0 ]; then patches=("${@/#/stress/sim/bugs/}") && patches=("${patches[@]/%/.patch}"); fi

# The sources get the time of the copy, so that nothing built before from a patched file stays.
rm -rf "$work/source"
mkdir -p "$work/source"
git ls-files -co --exclude-standard -z | tar --null --ignore-failed-read -T - -cf - 2>/dev/null |
  tar -xmf - -C "$work/source"
cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTINYLOOP_CUDA=OFF \
  -DTINYLOOP_BUILD_EXAMPLES=OFF -DTINYLOOP_BUILD_BENCH=OFF -DTINYLOOP_INSTALL=OFF >/dev/null
simulator="$work/build/stress/sim/tinyloop_sim"

build() { ninja -C "$work/build" -j "$(nproc)" tinyloop_sim >"$work/build.log" 2>&1 || { cat "$work/build.log" && exit 1; }; }

missed=()
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  file=$(sed -n 's|^+++ b/||p' "$patch")
  cp "$work/source/$file" "$work/kept"
  patch --quiet --directory "$work/source" --strip 1 --no-backup-if-mismatch <"$patch"
  build
  if output=$("$simulator" --seeds "$seeds" --first 1 2>&1); then
    echo "$name: NOT FOUND within $seeds seeds"
    missed+=("$name")
  else
    found=$(sed -n 's/^seed \([0-9]*\);.*/\1/p' <<<"$output")
    echo "$name: found after ${found:-?} seeds: $(sed -n 's/^VIOLATION: //p' <<<"$output")"
    [ -n "$found" ] || missed+=("$name")
  fi
  cp "$work/kept" "$work/source/$file"
done
[ ${#missed[@]} -eq 0 ] || { echo "not found: ${missed[*]}" && exit 1; }
