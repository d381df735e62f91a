#!/usr/bin/env python3
"""Files rows of sides.py, and of tests/sglang/engine_check.py, under bench/results/sglang, with hashes of the sources.

    python3 bench/sglang/file_rows.py OUT/sglang.jsonl       # where git knows the commit that the wheel was built from
    python3 bench/sglang/file_rows.py --checks --commit COMMIT --device NAME --driver VERSION LOG ...
    python3 bench/sglang_report.py

A run's rows replace those of the same GPU, model, page size and workloads; a check's row that of the same options.
"""

import argparse
import json
import pathlib
import sys

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
import gpu_collect  # noqa: E402
import source_trees  # noqa: E402

RESULTS = BENCH / "results/sglang"
CHECKS = RESULTS / "checks.jsonl"
KEY = ("model", "layers", "page_size", "kind", "workload")
OPTIONS = ("page_size", "eager", "no_overlap", "dtype", "heads", "head_dim", "tensor_parallel", "ngram", "beams")
OPTIONS += ("override", "kv_cache_dtype", "sglang", "device")

LEFT_OUT = (None, False, "auto")  # values of options that a command need not name


def run_rows(path: pathlib.Path) -> list[dict]:
    """The rows of a run; SystemExit where they must not be kept."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    commits = sorted({row["commit"] for row in rows})
    if len(commits) != 1 or commits[0] == "unknown" or commits[0].endswith("-dirty"):
        raise SystemExit(f"{path.name}: made by {', '.join(commits)}; rows are kept of one commit")
    checks = [row for row in rows if row["kind"] == "check"]
    if not checks or not all(row["passed"] for row in checks):
        raise SystemExit(f"{path.name}: no row says that the kernels agree")
    failed = [row["workload"] for row in rows if row["kind"] == "error"]
    if failed:
        raise SystemExit(f"{path.name}: {', '.join(failed)} failed")
    trees = source_trees.trees_of(commits[0], source_trees.PYTHON_TREES)
    return [row | trees for row in rows]


def check_row(log: pathlib.Path, given: argparse.Namespace) -> dict:
    """The row that engine_check.py printed; SystemExit where it found a fault."""
    printed = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"page_size"')]
    if len(printed) != 1 or printed[0]["wrong"]:
        raise SystemExit(f"{log.name}: {printed[0]['wrong'] if printed else 'it did not end'}")
    place = {"device": given.device, "driver": given.driver, "commit": given.commit}
    row = {"suite": "sglang_check", "command": command_of(printed[0]), **place}
    return row | source_trees.trees_of(given.commit, source_trees.PYTHON_TREES) | printed[0]


def command_of(printed: dict) -> str:
    words = ["tests/sglang/engine_check.py"]
    for name in OPTIONS:
        value = printed.get(name)
        if name in ("sglang", "device") or value in LEFT_OUT:
            continue
        words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    return " ".join(words).replace(" True", "")


def key_of(row: dict, names: tuple[str, ...]) -> str:
    values = (row.get(name) for name in names)
    return json.dumps([None if value in LEFT_OUT else value for value in values])


def write(path: pathlib.Path, key: tuple[str, ...], rows: list[dict]) -> None:
    before = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    kept = {key_of(row, key): row for row in [*before, *rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in kept.values()))
    print(f"{path}: {len(kept)} rows, {len(rows)} of this run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("--checks", action="store_true", help="files are what tests/sglang/engine_check.py printed")
    parser.add_argument("--commit", help="of --checks: that the wheel was built from")
    parser.add_argument("--device", help="of --checks: the GPU's name")
    parser.add_argument("--driver", help="of --checks: its driver's version")
    given = parser.parse_args()
    if given.checks:
        if not (given.commit and given.device and given.driver):
            parser.error("--checks needs --commit, --device and --driver")
        write(CHECKS, OPTIONS, [check_row(log, given) for log in given.files])
        return
    for path in given.files:
        rows = run_rows(path)
        write(RESULTS / f"{gpu_collect.results_of(rows[0]['device']).name}.jsonl", KEY, rows)


if __name__ == "__main__":
    main()
