#!/usr/bin/env python3
"""Runs the benchmark suites of bench/suites.json and writes their rows to bench/results/.

One row is one JSON object, as `trunkline run --json` prints it, with the suite's name; a row whose outputs were
not checked and right is not written. Speeds are ratios within one run: compare `us` with `flat_us` and `floor_us`
of the same row, never across files.

    python3 bench/run.py --program build/release/tools/cli/trunkline [SUITE ...]
"""

import argparse
import json
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent


def tree_notation(tree: dict) -> str:
    """A tree of data/synthetic in the program's notation."""
    return ",".join(map(str, tree["nodes"])) + "/" + ",".join(map(str, tree["lens"]))


def arguments(suite: dict, heads: str, variant: list[str]) -> list[str]:
    """The command line of `trunkline run` for one suite, head set and variant of attention."""
    words = list(suite.get("inputs", []))
    trees = list(suite.get("trees", []))
    if "tree_list" in suite:
        listed = json.loads((ROOT / suite["tree_list"]).read_text())
        trees += [tree_notation(tree) for tree in listed["trees"]]
    for tree in trees:
        words += ["--tree", tree]
    if "limit" in suite:
        words += ["--limit", str(suite["limit"])]
    if "policy" in suite:
        words += ["--policy", suite["policy"]]
    return words + ["--heads", heads, *variant]


def run(program: str, name: str, suite: dict, heads: str, variant: list[str], options: list[str]) -> list[dict]:
    """Rows of one suite, head set and variant; stops when an output was wrong."""
    command = [program, "run", *arguments(suite, heads, variant), "--json", "--check", *options]
    print(" ".join(command), file=sys.stderr)
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    rows = []
    for line in lines:
        row = json.loads(line)
        if not row["passed"]:
            raise SystemExit(f"{name} {row['case']} {heads}: wrong output, max_err {row['max_err']}")
        row["case"] = row["case"] if row["suite"] == "tree" else f"{row['suite']}:{row['case']}"
        row["suite"] = name
        rows.append(row)
    return rows


def run_variants(program: str, name: str, suite: dict, heads: str, options: list[str], turns: int) -> list[dict]:
    """Rows of all variants of one suite and head set. Variants are compared with each other, so they take turns, and
    of each row the fastest turn counts."""
    variants = suite.get("variants", [""])
    rounds = [
        [row for variant in variants for row in run(program, name, suite, heads, variant.split(), options)]
        for _ in range(turns if len(variants) > 1 else 1)
    ]
    return [min(rows, key=lambda row: row["us"]) for rows in zip(*rounds)]


def main() -> None:
    suites = json.loads((BENCH / "suites.json").read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(suites)}; all by default")
    parser.add_argument("--program", default=str(ROOT / "build/release/tools/cli/trunkline"))
    parser.add_argument("--out", type=pathlib.Path, default=BENCH / "results/cpu")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="0: every core")
    parser.add_argument("--turns", type=int, default=5, help="of suites with variants; the fastest counts")
    given = parser.parse_args()
    unknown = set(given.suites) - set(suites)
    if unknown:
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; known: {', '.join(suites)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.suites or suites:
        options = ["--repeat", str(given.repeat)]
        if given.threads > 0:
            options += ["--threads", str(given.threads)]
        suite = suites[name]
        rows = [
            row
            for heads in suite["heads"]
            for row in run_variants(given.program, name, suite, heads, options, given.turns)
        ]
        path = given.out / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(f"{path}: {len(rows)} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
