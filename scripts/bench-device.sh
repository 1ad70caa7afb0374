#!/usr/bin/env bash
# Measures the table of speeds on a CUDA device and compares it with the last one: builds tinyloop
# unless TINYLOOP_CLI names one, then runs tools/device_bench.py with the arguments given (--help lists
# them). PYTHON names an interpreter that has numpy, and PyTorch where that is to stand beside it;
# otherwise one with numpy alone is made. docs/benchmarks.md explains the figures.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${TINYLOOP_CLI:-}" ]; then
  scripts/install-deps.sh >&2
  scripts/build.sh cuda-release tinyloop_cli >&2
fi
exec "${PYTHON:-$(scripts/python-env.sh)}" tools/device_bench.py "$@"
