#!/usr/bin/env bash
# Installs a finished build into a fresh prefix, moves the prefix, and builds and runs
# examples/consumer against it: consumer.sh BUILD WORK
set -euo pipefail
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cmake=${CMAKE:-cmake} cxx=${CXX:-c++}

rm -rf "$work"
"$cmake" --install "$build" --prefix "$work/staging" >/dev/null
mv "$work/staging" "$work/prefix"

"$cmake" -S "$root/examples/consumer" -B "$work/build" -G "${GENERATOR:-Ninja}" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
"$cmake" --build "$work/build"
"$here/check_consumer.sh" "$work/build/consumer"

# Neither the headers nor the targets file may lead back into the source tree.
if grep -rn "$root/" "$work/prefix" --include='*.h' --include='*.cmake'; then
  echo "consumer: the installed tree names the source tree" >&2
  exit 1
fi

# What the public headers need, all the way down: the language, the system and Boost.
needed=$(echo '#include <tinyloop/tinyloop.h>' |
  "$cxx" -std=c++20 -M -I"$work/prefix/include" -x c++ -)
if grep -E '/(cuda|cublas|spdlog|fmt|hwy|unicode|nlohmann)[^ ]*\.(h|hpp)' <<<"${needed//"$work"/}"; then
  echo "consumer: a public header needs a library that callers need not have" >&2
  exit 1
fi
grep -q 'prefix/include/tinyloop/model.h' <<<"$needed"
