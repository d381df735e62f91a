#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh virtual environment, and runs the tests of the Python package from there.
# Usage: scripts/python_tests.sh [pytest's arguments]
# TRUNKLINE_CUDA=ON|AUTO builds CUDA into the wheel too (minutes); the default here is OFF. PYTHON=python3.12 takes another.
# Builds are kept in build/python, and go through ccache where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
work="$PWD/build/python"
cuda="${TRUNKLINE_CUDA:-OFF}"
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
mkdir -p "$work"
rm -rf "$work/wheels" "$work/venv"
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" wheel . --quiet --disable-pip-version-check --no-deps --wheel-dir "$work/wheels" \
  -C build-dir="build/python/cuda-$cuda" -C cmake.define.TRUNKLINE_CUDA="$cuda"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements-python-tests.txt
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$work"/wheels/trunkline-*.whl
ls -sh "$work"/wheels/*.whl
# From another folder, so that the package is the installed one.
cd "$work"
"$work/venv/bin/python" -m pytest --quiet -p no:cacheprovider -c ../../pyproject.toml --rootdir ../.. ../../tests/python "$@"
