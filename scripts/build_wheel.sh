#!/usr/bin/env bash
# Builds a wheel that installs without a compiler, checks it, and leaves it in dist/.
# Usage: scripts/build_wheel.sh [PYTHON...]    Pythons, from 3.10 on, to install and try it in; by default the one it is
#                                              built with
# TRUNKLINE_CUDA=ON builds CUDA in: kernels for compute capability 8.0 and 9.0a, PTX for later ones. OFF is the default.
# PYTHON=python3.12 builds with another Python than the distribution's: one wheel is for all from 3.10 on (abi3).
# The manylinux tag follows from the newest symbols of the C library that the code is linked with. Built on Debian 12 it
# is manylinux_2_34: Debian 12, Ubuntu 22.04, RHEL 9 and later.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-$(command -v /usr/bin/python3 || command -v python3)}"
cuda="${TRUNKLINE_CUDA:-OFF}"
max_bytes=$((60 * 1000 * 1000)) # half of what an index takes by default, with room for more kernels
work="$PWD/build/wheel"
raw="$work/raw-cuda-$cuda"
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi
rm -rf "$raw" "$work/out"
mkdir -p "$raw" "$work/out" dist
"$python" -m venv "$work/venv"
pip() { "$work/venv/bin/pip" "$@" --quiet --disable-pip-version-check; }
pip install -r scripts/requirements-release.txt

# The folder that scripts/python_tests.sh builds in, too.
pip wheel . --no-deps --wheel-dir "$raw" \
  --config-settings=build-dir="build/python/cuda-$cuda" --config-settings=cmake.define.TRUNKLINE_CUDA="$cuda" \
  ${TRUNKLINE_WERROR:+--config-settings=cmake.define.TRUNKLINE_WERROR="$TRUNKLINE_WERROR"}
PATH="$work/venv/bin:$PATH" auditwheel repair --strip --wheel-dir "$work/out" "$raw"/trunkline-*.whl
wheels=("$work"/out/trunkline-*.whl)
wheel="${wheels[0]}"
case "$wheel" in
  *-cp310-abi3-manylinux_*) ;;
  *) echo "build_wheel: $(basename "$wheel") has no manylinux tag" >&2; exit 1 ;;
esac
bytes="$(stat -c %s "$wheel")"
if [ "$bytes" -gt "$max_bytes" ]; then
  echo "build_wheel: $(basename "$wheel") has $bytes bytes, more than $max_bytes" >&2
  exit 1
fi
"$work/venv/bin/twine" check --strict "$wheel"

# In environments with nothing but numpy.
[ "$#" -gt 0 ] || set -- "$python"
for each in "$@"; do
  rm -rf "$work/clean"
  "$each" -m venv "$work/clean"
  "$work/clean/bin/pip" install --quiet --disable-pip-version-check "$wheel"
  (cd "$work" && "$work/clean/bin/python" ../../scripts/try_wheel.py "$cuda" && "$work/clean/bin/trunkline" --version)
done
cp "$wheel" dist/
echo "build_wheel: dist/$(basename "$wheel"), $bytes bytes, tried in $*"
