#!/usr/bin/env bash
# Fails, with the differences, if a C++ file is not formatted as .clang-format says. With --fix:
# formats instead. The version is pinned because its output is not the same from one to the next.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files -co --exclude-standard '*.cc' '*.h' '*.cu' '*.cuh' | xargs clang-format-14 "${mode[@]}"
