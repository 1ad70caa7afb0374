#!/usr/bin/env bash
# Installs what tools/peer_bench.py runs with, in the virtual environment build/peer-venv: the peer,
# llama.cpp, compiled for this machine from the source distribution of its Python bindings, and the
# packages that write the model files. Takes minutes of CPU the first time; does nothing when all of
# it is there already. CMAKE_BUILD_PARALLEL_LEVEL sets the number of compilers at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/peer-venv
peer=llama-cpp-python==0.3.36 # llama.cpp at commit 0c1e57098
# Everything else is llama.cpp's default for a build on the machine that runs it.
cmake_args="-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_OPENMP=ON -DGGML_BLAS=OFF -DLLAVA_BUILD=OFF"
packages=(diskcache==5.6.3 jinja2==3.1.6 MarkupSafe==3.0.3) # what the bindings import, and below
while read -r line; do packages+=("$line"); done < <(
  grep -E '^(gguf|numpy|typing_extensions)==' tools/requirements.txt)

# Whether STAMP says that exactly this was installed.
installed() { [ "$(cat "$venv/$1" 2>/dev/null)" = "$2" ]; }
pip() { "$venv/bin/pip" --quiet --disable-pip-version-check "$@"; }

if ! [ -x "$venv/bin/python" ]; then
  python3 -c 'import ensurepip, venv' 2>/dev/null || scripts/install-deps.sh --python
  python3 -m venv --clear "$venv"
fi
if ! installed packages.txt "${packages[*]}"; then
  pip install --constraint tools/requirements.txt "${packages[@]}"
  echo "${packages[*]}" >"$venv/packages.txt"
fi
if ! installed peer.txt "$peer $cmake_args"; then
  scripts/install-deps.sh # the compiler, CMake, Ninja
  echo "install-peer: building $peer"
  export CMAKE_ARGS=$cmake_args
  export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
  pip install --no-deps --force-reinstall --no-cache-dir --no-binary llama-cpp-python "$peer"
  "$venv/bin/python" -c 'import llama_cpp as l; print("install-peer:", l.llama_print_system_info().decode())'
  echo "$peer $cmake_args" >"$venv/peer.txt"
fi
