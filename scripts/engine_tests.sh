#!/usr/bin/env bash
# A plug-in in its real engine, without a GPU: registration, and that what it stands on is there; in SGLang also requests,
# whose attention is computed on the CPU.
# Usage: scripts/engine_tests.sh vllm|sglang [VERSION]    (PYTHON=python3.12 takes another Python)
# An engine with torch is some 3 GB to download and 8 GB on disk; its environment is build/python/venv-ENGINE-VERSION.
# PIP_ARGS goes to pip, for an index that lacks what a release asks for.
set -euo pipefail
cd "$(dirname "$0")/.."
engine="${1:?vllm or sglang}"
case "$engine" in
  vllm) default=0.33.0 ;;
  sglang) default=0.5.23 ;;
  *) echo "engine is '$engine'; expected: vllm or sglang" >&2; exit 2 ;;
esac
version="${2:-$default}"
work="$PWD/build/python"
venv="$work/venv-$engine-$version"
mkdir -p "$work"
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
"${PYTHON:-$(command -v /usr/bin/python3 || command -v python3)}" -m venv "$venv"
pip() { "$venv/bin/pip" "$@" --quiet --disable-pip-version-check; }
# shellcheck disable=SC2086  # several arguments
pip install "$engine==$version" ${PIP_ARGS:-}
rm -rf "$work/wheels"
pip wheel . --no-deps --wheel-dir "$work/wheels" \
  --config-settings=build-dir=build/python/cuda-OFF --config-settings=cmake.define.TRUNKLINE_CUDA=OFF
pip install --force-reinstall --no-deps "$work"/wheels/trunkline-*.whl
# What the plug-in builds on in this release; tests/python compares with the committed files.
packages="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
"$venv/bin/python" "scripts/${engine}_signatures.py" "$packages" "$version"
# From another folder, so that the package is the installed one.
cd "$work"
if [ "$engine" = vllm ]; then
  "$venv/bin/python" ../../tests/vllm/test_with_vllm.py
else
  for options in "--page-size 1" "--page-size 16" "--page-size 16 --kv-cache-dtype fp8_e4m3"; do
    # shellcheck disable=SC2086  # several arguments
    "$venv/bin/python" ../../tests/sglang/on_cpu.py $options --requests 20 --samples 9 --scale 0.1 --kv-tokens 4096
  done
fi
