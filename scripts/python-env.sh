#!/usr/bin/env bash
# Makes build/python, a virtual environment with exactly the packages of tools/requirements.txt, and
# prints its interpreter. Does nothing where it is there and up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=tools/requirements.txt
env=build/python stamp=build/python/requirements.sha256
wanted=$(sha256sum <"$requirements")
if [ ! -x "$env/bin/python" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  {
    python3 -c 'import ensurepip, venv' 2>/dev/null || scripts/install-deps.sh --python
    python3 -m venv --clear "$env"
    "$env/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
    echo "$wanted" >"$stamp"
  } >&2
fi
echo "$PWD/$env/bin/python"
