#!/usr/bin/env bash
# The Python package on a machine with a GPU and torch, from a wheel that was built elsewhere with CUDA: its tests there,
# then the comparison with torch. No network; a C compiler only for flex attention, which is left out without one.
# Usage: scripts/gpu_python.sh WHEEL OUT [compare_cuda.py's arguments]    (PYTHON=python3.12 takes another)
set -uo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
wheel="$1"
out="$2"
mkdir -p "$out"
installed="$(mktemp -d)"
trap 'rm -rf "$installed"' EXIT
"$python" -m pip install --quiet --no-index --no-deps --target "$installed" "$wheel" || exit 1
export PYTHONPATH="$installed"
failed=0

echo "== tests ($SECONDS s)"
rm -f "$out/python_tests.txt"
for test in attention planning sharing fp8; do
  "$python" "tests/python/test_cuda_$test.py" 2>&1 | tee -a "$out/python_tests.txt" || failed=1
done

echo "== beside torch ($SECONDS s)"
"$python" bench/python/compare_cuda.py --out "$out/python.jsonl" "${@:3}" >/dev/null || failed=1
echo "== done ($SECONDS s)"
exit "$failed"
