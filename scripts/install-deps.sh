#!/usr/bin/env bash
# Installs what TinyLoop builds with on Debian 12. Does nothing, and needs no rights, where all of it
# is there already.
#
#   scripts/install-deps.sh            the library, its tests and benchmarks
#   scripts/install-deps.sh --fuzz     the fuzzers' compiler
#   scripts/install-deps.sh --neon     what scripts/test-neon.sh cross-compiles and runs with
#   scripts/install-deps.sh --python   what scripts/python-env.sh needs
set -euo pipefail

base=(
  g++ cmake ninja-build ccache
  libboost1.81-dev        # Asio, Lockfree, System
  libspdlog-dev           # default log sink
  libhwy-dev              # CPU SIMD with run-time dispatch
  libicu-dev              # Unicode classes and NFC for the tokenizer
  nlohmann-json3-dev      # plan dumps, reports, command line
  libcli11-dev            # command line
  libgtest-dev            # tests
  libbenchmark-dev        # benchmarks
  clang-format-14         # the pinned formatter
)
fuzz=(
  clang-19                # the default clang, 14, cannot compile this C++20
  libclang-rt-19-dev      # libFuzzer and the sanitizers' run time
)
neon=(
  g++-12-aarch64-linux-gnu
  qemu-user               # runs AArch64 programs
)
python=(python3 python3-venv)

case ${1:-} in
  '') packages=("${base[@]}") ;;
  --fuzz) packages=("${fuzz[@]}") ;;
  --neon) packages=("${neon[@]}") ;;
  --python) packages=("${python[@]}") ;;
  *) echo "install-deps: unknown option '$1'" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "install-deps: installing ${missing[*]}"
run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install-deps: root or sudo is needed" >&2; exit 1; }
  run=(sudo)
fi
"${run[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
