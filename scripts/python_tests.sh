#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh virtual environment, and runs the tests of the Python package from there.
# Usage: scripts/python_tests.sh [pytest's arguments]
# TRUNKLINE_CUDA=ON|AUTO builds CUDA into the wheel too (minutes); the default here is OFF.
# PYTHON=python3.12 takes another Python than the distribution's.
# TRUNKLINE_TORCH=1 installs torch too, without which its tests are skipped. It is gigabytes, so that environment is kept.
# Builds are kept in build/python, and go through ccache where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-$(command -v /usr/bin/python3 || command -v python3)}"
work="$PWD/build/python"
cuda="${TRUNKLINE_CUDA:-OFF}"
requirements=(-r scripts/requirements-python-tests.txt)
venv="$work/venv"
if [ "${TRUNKLINE_TORCH:-0}" = 1 ]; then
  requirements+=(-r scripts/requirements-torch-tests.txt)
  venv="$work/venv-torch"
else
  rm -rf "$venv"
fi
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
mkdir -p "$work"
rm -rf "$work/wheels"
"$python" -m venv "$venv"
pip() { "$venv/bin/pip" "$@" --quiet --disable-pip-version-check; }
pip wheel . --no-deps --wheel-dir "$work/wheels" \
  --config-settings=build-dir="build/python/cuda-$cuda" --config-settings=cmake.define.TRUNKLINE_CUDA="$cuda" \
  ${TRUNKLINE_WERROR:+--config-settings=cmake.define.TRUNKLINE_WERROR="$TRUNKLINE_WERROR"}
pip install "${requirements[@]}"
pip install --force-reinstall --no-deps "$work"/wheels/trunkline-*.whl
ls -sh "$work"/wheels/*.whl
# From another folder, so that the package is the installed one.
cd "$work"
"$venv/bin/python" -m pytest --quiet -p no:cacheprovider -c ../../pyproject.toml --rootdir ../.. ../../tests/python "$@"
