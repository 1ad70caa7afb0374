#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh PRESET [TARGET …]. Without a target: everything.
# CMake arguments may be given in TINYLOOP_CMAKE_ARGS.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
# shellcheck disable=SC2086
cmake --preset "$preset" "${launcher[@]}" ${TINYLOOP_CMAKE_ARGS:-} >/dev/null
targets=()
for target in "$@"; do targets+=(--target "$target"); done
cmake --build "build/$preset" -j "$(nproc)" "${targets[@]}"
