#!/usr/bin/env bash
# Formats the tree (--fix), or checks format, Python and include directions.
set -euo pipefail
cd "$(dirname "$0")/.."

python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check -r scripts/requirements-lint.txt

# Through a variable, because a failure inside <( ) would be overlooked.
list="$(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.c' '*.h')"
if [ -z "$list" ]; then
  echo "lint: git lists no C++ files; run this in a git checkout" >&2
  exit 1
fi
mapfile -t sources <<<"$list"
if [ "${1:-}" = --fix ]; then
  .venv/bin/clang-format -i "${sources[@]}"
  .venv/bin/ruff format --quiet .
  .venv/bin/ruff check --quiet --fix .
  exit 0
fi
.venv/bin/clang-format --dry-run --Werror "${sources[@]}"
.venv/bin/ruff format --check .
.venv/bin/ruff check .
.venv/bin/mypy --cache-dir build/mypy
python3 scripts/check_docs.py
python3 scripts/check_includes.py
python3 scripts/check_policies.py
python3 scripts/check_sources.py
python3 scripts/check_words.py
python3 scripts/make_python_abi.py --check
.venv/bin/python scripts/make_python_reference.py --check
python3 scripts/make_demo_data.py --check
python3 scripts/make_model_table.py --check
python3 scripts/draw_figures.py --check
for report in report gpu_report h100_report shapes_report peers_report python_report vllm_report sglang_report \
  traffic_report replay_report runtime_report routing; do
  python3 "bench/$report.py" --check
done
echo "lint: ${#sources[@]} C++ files are formatted, includes point one way, Python is clean"
