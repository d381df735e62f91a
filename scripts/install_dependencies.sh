#!/usr/bin/env bash
# Installs what is missing, by package name, on Debian 12 and 13 and Ubuntu 24.04.
# Usage: scripts/install_dependencies.sh build|test|python|ci ...
# Says what it installs. Does nothing, and needs neither network nor rights, when all is there.
set -euo pipefail

# package and what shows that it is there: a command, a file, or "-" to ask dpkg
build=("make make" "g++ g++" "cmake cmake" "ninja-build ninja" "python3 python3"
  "libcli11-dev /usr/include/CLI/CLI.hpp" "nlohmann-json3-dev /usr/include/nlohmann/json.hpp")
test=("libgtest-dev /usr/include/gtest/gtest.h" "libgmock-dev /usr/include/gmock/gmock.h")
python=("python3-venv -" "python3-dev -")
ci=("clang-14 clang-14" "libclang-rt-14-dev -" "python3-venv -" "git git" "chromium chromium"
  "pkg-config pkg-config" "ccache ccache")

present() {
  case "$2" in
    -) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$' ;;
    /*) [ -e "$2" ] ;;
    *) command -v "$2" >/dev/null ;;
  esac
}

# The distribution's Python unless told otherwise, as in the scripts that need it.
python_command="${PYTHON:-/usr/bin/python3}"
has_headers='import os, sysconfig; os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))'
missing=()
for group in "$@"; do
  case "$group" in
    build | test | python | ci) ;;
    *) echo "install_dependencies: unknown group \"$group\"; known: build, test, python, ci" >&2; exit 2 ;;
  esac
  declare -n entries="$group"
  for entry in "${entries[@]}"; do
    read -r package probe <<<"$entry"
    # A Python that can make environments, or has its headers, needs no package for it.
    [ "$package" = python3-venv ] && "$python_command" -c 'import ensurepip' 2>/dev/null && continue
    [ "$package" = python3-dev ] && "$python_command" -c "$has_headers" 2>/dev/null && continue
    present "$package" "$probe" || missing+=("$package")
  done
done
[ "${#missing[@]}" -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "install_dependencies: missing: ${missing[*]}; apt-get is not here to install them (names are Debian's)" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_dependencies: missing: ${missing[*]}; run as root, or with sudo: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing missing packages: ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
