#!/usr/bin/env python3
"""Files the rows of a GPU run under bench/results, by the kind of GPU, with hashes of the sources that made them.

Run it where the commit that the binary was built from is known to git:

    scripts/gpu_bench.sh BUILD OUT              # on the GPU machine, whole or in parts
    python3 bench/gpu_collect.py OUT            # here
    python3 bench/gpu_report.py

Rows replace those of the same file and kernels; what was not run stays as it is.
"""

import argparse
import json
import pathlib
import re
import subprocess

from gpu_rows import RESULTS
from source_trees import ROOT, trees_of


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def results_of(gpu: str) -> pathlib.Path:
    """Where rows of a GPU are, by its name: h200 of NVIDIA H200, h100 of NVIDIA H100 80GB HBM3."""
    model = re.search(r"\b[A-Z]+\d+\w*\b", gpu)
    if model is None:
        raise SystemExit(f"environment.json: the GPU is {gpu!r}; a name with a model such as H200 in it is needed")
    return RESULTS.parent / model[0].lower()


def checked_rows(path: pathlib.Path) -> list[dict]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    commits = sorted({row["commit"] for row in rows})
    if len(commits) > 1:
        raise SystemExit(f"{path.name}: made by several commits, {', '.join(commits)}")
    if any(commit == "unknown" or commit.endswith("-dirty") for commit in commits):
        raise SystemExit(f"{path.name}: made by {commits[0]}; rows are kept of a commit only")
    # Counters are of runs that are not checked, of cases that the other suites check; plan_time prints what it checked.
    wrong = [row for row in rows if not row.get("passed", path.stem in ("counters", "plan_time"))]
    if wrong:
        raise SystemExit(f"{path.name}: wrong output in {wrong[0]['case']} at {wrong[0]['heads']}")
    return rows


def rows_of_other_kernels(path: pathlib.Path, rows: list[dict]) -> list[str]:
    """Lines of a filed suite that were run on kernels, or planned for a memory, that none of the new rows were."""
    if not path.exists():
        return []
    new = {kind_of(row) for row in rows}
    return [line for line in path.read_text().splitlines() if kind_of(json.loads(line)) not in new]


def kind_of(row: dict) -> tuple:
    return row.get("kernels"), row.get("memory_of")


def command_of_planning(row: dict) -> dict:
    options = "PROFILE >>" if "memory_of" in row else ">"
    return {"command": f"BUILD/bench/plan_time {options} OUT/plan_time.jsonl"}


def built_from(environment: dict) -> str:
    """The commit that the run's binaries name."""
    commit = environment["commit"]
    if commit == "unknown" or commit.endswith("-dirty"):
        raise SystemExit(f"tests.txt: binaries of {commit}; tests are filed of a commit only")
    return git("rev-parse", commit)


def without_folders(text: str) -> str:
    """A log without the folders of the machine that it was built and made on."""
    return re.sub(r"/tmp/tmp\.\w+", "TMP", re.sub(r"(?:\.\./|/)[\w./-]*?/?(tests/\w+/[\w.]+:)", r"\1", text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="folder of *.jsonl files and environment.json of a run")
    parser.add_argument("--remark", help="of tests: what is known of those that failed")
    given = parser.parse_args()
    environment = json.loads((given.out / "environment.json").read_text())
    found = {path: rows for path in sorted(given.out.glob("*.jsonl")) if (rows := checked_rows(path))}
    results = results_of(environment["gpu"])
    results.mkdir(parents=True, exist_ok=True)
    for path, rows in found.items():
        trees = trees_of(rows[0]["commit"])
        made_by = command_of_planning if path.stem == "plan_time" else lambda _: {}
        lines = [json.dumps({**environment, **made_by(row), **row, **trees}) for row in rows]
        kept = rows_of_other_kernels(results / path.name, rows)
        (results / path.name).write_text("\n".join(lines + kept) + "\n")
        print(f"{results / path.name}: {len(rows)} rows, and {len(kept)} kept of other kernels or memories")
    tests = given.out / "tests.txt"
    if tests.exists():
        commit = built_from(environment)
        record = {**environment, **trees_of(commit), "commit": commit}
        record |= {"remark": given.remark} if given.remark else {}
        record["output"] = without_folders(tests.read_text()).splitlines()
        (results / "tests.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
