#!/usr/bin/env python3
"""Files the rows of a run under bench/results/vllm, with the trees of the sources that made them.

Run it where the commit that the wheel was built from is known to git:

    python3 bench/vllm/collect.py OUT/vllm.jsonl          # replaces bench/results/vllm/vllm.jsonl
    python3 bench/vllm_report.py
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import gpu_rows  # noqa: E402

RESULTS = HERE.parent / "results/vllm"
TREES = gpu_rows.TREES | {"python_tree": "python/trunkline"}


def trees_of(commit: str) -> dict[str, str]:
    names = [f"{commit}:{folder}" for folder in TREES.values()]
    done = subprocess.run(["git", "rev-parse", *names], cwd=gpu_rows.ROOT, check=True, capture_output=True, text=True)
    return dict(zip(TREES, done.stdout.split(), strict=True))


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
    if not checks and any(row["kind"] in ("steps", "sides", "serve") for row in rows):
        raise SystemExit(f"{path.name}: no row says that the engines agree")
    trees = trees_of(commits[0])
    return [row | trees for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for path in parser.parse_args().files:
        rows = filed(path)
        (RESULTS / path.name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(f"{RESULTS / path.name}: {len(rows)} rows")


if __name__ == "__main__":
    main()
