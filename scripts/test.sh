#!/usr/bin/env bash
# Builds everything and runs every test: the release build, then the parts where memory and threads
# matter under AddressSanitizer + UBSan and under ThreadSanitizer, the fuzzers for forty seconds, and the
# Python tools' tests. Installs what is missing.
# Where a CUDA toolkit is present the CUDA parts are built too; their tests (ctest -L cuda) are skipped
# where there is no CUDA device.
#
#   scripts/test.sh            all of it
#   scripts/test.sh release    one part: format, release, asan, tsan, fuzz, tools
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)

run_format() { scripts/check-format.sh; }

run_release() {
  local preset=cpu-release
  command -v nvcc >/dev/null && preset=cuda-release
  scripts/build.sh "$preset"
  ctest --test-dir "build/$preset" --output-on-failure -j "$jobs"
}

# The golden cases and the large bit-identity runs check numbers, not memory: they stay in release.
run_asan() {
  scripts/build.sh asan tinyloop_base_tests tinyloop_kernels_tests tinyloop_engine_tests \
    tinyloop_actors_tests tinyloop_sim tinyloop_soak
  ctest --test-dir build/asan --output-on-failure -j "$jobs" \
    -R '^(base|kernels|engine|actors)|stress\.(simulation|soak)' -E 'Identity|EveryRoute'
}

run_tsan() {
  scripts/build.sh tsan tinyloop_actors_tests tinyloop_kernels_tests tinyloop_soak
  TSAN_OPTIONS="suppressions=$PWD/stress/tsan.supp halt_on_error=1 ${TSAN_OPTIONS:-}" \
    ctest --test-dir build/tsan --output-on-failure -j "$jobs" -R '^actors\.|ThreadPool|stress\.soak' -E 'Identity'
}

# Forty seconds from a fixed seed; longer runs: scripts/fuzz.sh SECONDS.
run_fuzz() { scripts/fuzz.sh 40; }

run_tools() {
  local python
  python=$(scripts/python-env.sh)
  "$python" -m unittest discover -s tests/tools -p '*_test.py'
}

scripts/install-deps.sh
[ $# -gt 0 ] || set -- format release asan tsan fuzz tools
for part in "$@"; do
  started=$SECONDS
  echo "== $part"
  "run_$part"
  echo "== $part: $((SECONDS - started)) s"
done
