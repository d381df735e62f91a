#!/usr/bin/env python3
"""Files the rows of a run under bench/results/vllm, with hashes of the sources that made them.

Run it where the commit that the wheel was built from is known to git:

    python3 bench/vllm/collect.py OUT/vllm.jsonl          # replaces bench/results/vllm/vllm.jsonl
    python3 bench/vllm/collect.py OUT/vllm.jsonl --logs OUT/*.log    # and logs/vllm.txt there
    python3 bench/vllm_report.py
    python3 bench/vllm/collect.py --checks --commit COMMIT --device NAME --driver VERSION LOG ...   # of engine_check.py
"""

import argparse
import json
import pathlib
import sys

import run_logs

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import source_trees  # noqa: E402

RESULTS = HERE.parent / "results/vllm"


def trees_of(commit: str) -> dict[str, str]:
    return source_trees.trees_of(commit, source_trees.PYTHON_TREES)


def filed(path: pathlib.Path) -> list[dict]:
    """The rows of a run's file; SystemExit where they must not be kept."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    commits = sorted({row["commit"] for row in rows})
    if len(commits) != 1:
        raise SystemExit(f"{path.name}: rows of {len(commits)} commits; rows are kept of one")
    if commits[0] == "unknown" or commits[0].endswith("-dirty"):
        raise SystemExit(f"{path.name}: made by {commits[0]}; rows are kept of a commit only")
    checks = [row for row in rows if row["kind"] == "check" and row["subject"] == "trunkline"]
    differing = [row for row in checks if not row["passed"]]
    if differing:
        raise SystemExit(f"{path.name}: {differing[0]['subject']} and {differing[0]['baseline']} disagree")
    if not checks and any(row["kind"] in ("steps", "sides", "serve", "rollout") for row in rows):
        raise SystemExit(f"{path.name}: no row says that the engines agree")
    unlike = [row["workload"] for row in rows if row["kind"] == "shadow" and (row["beyond"] or not row["compared"])]
    if unlike:
        raise SystemExit(f"{path.name}: nothing compared, or vectors beyond the tolerance, in {', '.join(unlike)}")
    trees = trees_of(commits[0])
    return [row | trees for row in rows]


def check_row(log: pathlib.Path, given: argparse.Namespace) -> dict:
    """The row that engine_check.py printed; SystemExit where it found a fault."""
    printed = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"runner"')]
    if len(printed) != 1 or printed[0]["wrong"]:
        raise SystemExit(f"{log.name}: {printed[0]['wrong'] if printed else 'it did not end'}")
    if given.commit == "unknown":
        raise SystemExit("--commit is not given; checks are kept of a commit only")
    place = {"device": given.device, "driver": given.driver, "vllm": given.vllm, "commit": given.commit}
    row = {"suite": "vllm_check", "command": command_of(printed[0]), **place}
    return row | trees_of(given.commit) | printed[0]


def command_of(printed: dict) -> str:
    """With the options that were not left out, in their order."""
    words = ["tests/vllm/engine_check.py"]
    for name, value in printed.items():
        flag = f"--{name.replace('_', '-')}"
        if name in ("requests", "before_sleep"):  # where options end
            break
        if value is True:
            words.append(flag)
        elif value:
            words += [flag, *map(str, value if isinstance(value, list) else [value])]
    return " ".join(words)


def file_checks(given: argparse.Namespace) -> None:
    """Rows of other options stay as they are."""
    path = RESULTS / "checks/engine_check.jsonl"
    before = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    rows = {options_of(row): row for row in [*before, *(check_row(log, given) for log in given.files)]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))
    print(f"{path}: {len(rows)} rows")


def options_of(row: dict) -> str:
    names = (
        "runner",
        "compilation",
        "dtype",
        "heads",
        "head_dim",
        "tensor_parallel",
        "kv_cache_dtype",
        "speculative",
        "sleep",
        "override",
        "overflow",
        "vllm",
        "device",
    )
    usual = None, False, "", "auto"  # rows from before an option have none
    return json.dumps([None if row.get(name) in usual else row[name] for name in names])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("--logs", type=pathlib.Path, nargs="+", default=[], help="of the run that made the one file")
    parser.add_argument("--checks", action="store_true", help="files are logs of tests/vllm/engine_check.py")
    parser.add_argument("--commit", default="unknown", help="of --checks: that the wheel was built from")
    parser.add_argument("--device", default="unknown")
    parser.add_argument("--driver", default="unknown")
    parser.add_argument("--vllm", default="0.26.0")
    given = parser.parse_args()
    if given.logs and len(given.files) != 1:
        parser.error("--logs are of one file's run")
    RESULTS.mkdir(parents=True, exist_ok=True)
    if given.checks:
        file_checks(given)
        return
    for path in given.files:
        rows = filed(path)
        (RESULTS / path.name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(f"{RESULTS / path.name}: {len(rows)} rows")
        if given.logs:
            log = RESULTS / f"logs/{path.stem}.txt"
            log.parent.mkdir(exist_ok=True)
            log.write_text(run_logs.text_of(given.logs))


if __name__ == "__main__":
    main()
