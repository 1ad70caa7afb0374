#!/usr/bin/env bash
# Configures a project that has TinyLoop as a subdirectory, and compiles a program against the target
# in it. parent.sh WORK
set -euo pipefail
work=$1
here=$(cd "$(dirname "$0")" && pwd)
cmake=${CMAKE:-cmake}

rm -rf "$work"
"$cmake" -S "$here/parent" -B "$work" -G "${GENERATOR:-Ninja}" \
  -DCMAKE_CXX_COMPILER="${CXX:-c++}" -DTINYLOOP_ROOT="$here/../.." -DTINYLOOP_CUDA=OFF
"$cmake" --build "$work" --target parent
