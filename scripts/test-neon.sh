#!/usr/bin/env bash
# Compiles the CPU ops for AArch64 (NEON) and runs their tests under QEMU, on a machine of another
# kind. Installs the cross compiler and QEMU; the libraries' arm64 packages are only unpacked, under
# build/neon, so that the machine's own packages stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$PWD/build/neon
root=$build/root  # cmake/aarch64.cmake looks for the libraries here
packages=(
  libboost1.81-dev nlohmann-json3-dev libgtest-dev
  libhwy-dev libhwy1 libicu-dev libicu72 libspdlog-dev libspdlog1.10 libfmt-dev libfmt9
)

# apt with the machine's sources, but for arm64, with lists and a cache of its own.
apt_arm64() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o Dir::State="$build/apt" -o Dir::State::status=/dev/null -o Dir::Cache="$build/apt/cache" \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

unpack_libraries() {
  [ "$(cat "$root/unpacked" 2>/dev/null)" = "${packages[*]}" ] && return
  rm -rf "$root" "$build/debs"
  mkdir -p "$root" "$build/debs" "$build/apt/lists/partial" "$build/apt/cache/archives/partial"
  apt_arm64 update
  (cd "$build/debs" && apt_arm64 download "${packages[@]}")
  local package
  for package in "$build"/debs/*.deb; do dpkg-deb -x "$package" "$root"; done
  rm -rf "$build/debs" "$build/apt"
  echo "${packages[*]}" >"$root/unpacked"
}

scripts/install-deps.sh
scripts/install-deps.sh --neon
unpack_libraries
scripts/build.sh neon tinyloop_kernels_tests
ctest --test-dir "$build" -R '^kernels\.' --output-on-failure --no-tests=error -j "$(nproc)"
