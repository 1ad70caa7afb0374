#!/usr/bin/env bash
# The main job: 32 callers on one replica of the shipped model, each streaming a tale at its own
# depth, live on the terminal; then a table of what it cost. Installs and builds what is missing.
# Arguments go to the demo program: scripts/demo.sh --help
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh
scripts/build.sh cpu-release tinyloop_demo
exec build/cpu-release/examples/demo/tinyloop_demo \
  --model models/tinyloop-tales-16m-q4_1.gguf "$@"
