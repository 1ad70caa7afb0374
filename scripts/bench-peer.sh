#!/usr/bin/env bash
# Measures TinyLoop and llama.cpp's CPU build side by side, on the same weights: installs and builds
# what is missing, then runs tools/peer_bench.py with the arguments given (--help lists them). The
# report goes to stdout, progress to stderr. TINYLOOP_CLI names a `tinyloop` built elsewhere.
# docs/benchmarks.md explains the figures.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-peer.sh >&2
if [ -z "${TINYLOOP_CLI:-}" ]; then
  scripts/install-deps.sh >&2
  scripts/build.sh cpu-release tinyloop_cli >&2
fi
exec build/peer-venv/bin/python tools/peer_bench.py "$@"
