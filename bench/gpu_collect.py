#!/usr/bin/env python3
"""Files the rows of a GPU run under bench/results/h200, with the trees of the sources that made them.

Run it on the commit that the binary was built from:

    scripts/gpu_bench.sh BUILD OUT              # on the GPU machine
    python3 bench/gpu_collect.py OUT            # here
    python3 bench/gpu_report.py
"""

import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results/h200"
TREES = {"cuda_tree": "src/exec/cuda", "plan_tree": "src/plan", "machine_tree": "data/machines"}


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="folder of *.jsonl files and environment.json of a run")
    given = parser.parse_args()
    trees = {name: git("rev-parse", f"HEAD:{folder}") for name, folder in TREES.items()}
    environment = json.loads((given.out / "environment.json").read_text())
    RESULTS.mkdir(parents=True, exist_ok=True)
    for path in sorted(given.out.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        wrong = [row for row in rows if not row["passed"]]
        if wrong:
            raise SystemExit(f"{path.name}: wrong output in {wrong[0]['case']} at {wrong[0]['heads']}")
        head = git("rev-parse", "--short=12", "HEAD")
        if any(row["commit"] != head for row in rows):
            raise SystemExit(f"{path.name}: made by {rows[0]['commit']}, but HEAD is {head}")
        lines = [json.dumps({**row, **environment, **trees}) for row in rows]
        (RESULTS / path.name).write_text("\n".join(lines) + "\n")
        print(f"{RESULTS / path.name}: {len(rows)} rows")
    tests = (given.out / "tests.txt").read_text().splitlines()
    record = {**environment, **trees, "commit": git("rev-parse", "HEAD"), "output": tests}
    (RESULTS / "tests.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
