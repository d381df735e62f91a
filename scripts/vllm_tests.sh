#!/usr/bin/env bash
# The vLLM plug-in in a real vLLM, without a GPU: registration, and that what it stands on is there.
# Usage: scripts/vllm_tests.sh [VERSION]    (0.33.0 by default; PYTHON=python3.12 takes another Python)
# vLLM with torch is some 3 GB to download and 8 GB on disk; its environment is kept in build/python/venv-vllm-VERSION.
# PIP_ARGS goes to pip, for an index that lacks what a release asks for.
set -euo pipefail
cd "$(dirname "$0")/.."
version="${1:-0.33.0}"
work="$PWD/build/python"
venv="$work/venv-vllm-$version"
mkdir -p "$work"
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
"${PYTHON:-$(command -v /usr/bin/python3 || command -v python3)}" -m venv "$venv"
pip() { "$venv/bin/pip" "$@" --quiet --disable-pip-version-check; }
# shellcheck disable=SC2086  # several arguments
pip install "vllm==$version" ${PIP_ARGS:-}
rm -rf "$work/wheels"
pip wheel . --no-deps --wheel-dir "$work/wheels" \
  --config-settings=build-dir=build/python/cuda-OFF --config-settings=cmake.define.TRUNKLINE_CUDA=OFF
pip install --force-reinstall --no-deps "$work"/wheels/trunkline-*.whl
# What the plug-in builds on in this release; tests/python compares with the committed files.
"$venv/bin/python" scripts/vllm_signatures.py "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" "$version"
# From another folder, so that the package is the installed one.
cd "$work"
"$venv/bin/python" ../../tests/vllm/test_with_vllm.py
