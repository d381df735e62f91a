"""Two builds by turns on one GPU: whether suites keep their times, and outputs their bits.

    python3 bench/gpu_turns.py OLD_BUILD NEW_BUILD [--rounds 3] [--seconds 60] flat pat [-- gpu_bench's options]

Each round runs every suite with the old build and then the new one, in the same process order. A case's time is the
least of its rounds' medians: what else the machine does only adds to it. Prints one JSON object for each suite: the
geometric mean of new / old, the extremes with their cases, how many outputs have the same bits, and the device.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def rows_of(build: str, suite: str, seconds: float, options: list[str]) -> list[dict]:
    command = [
        f"{build}/bench/gpu_bench", "--data", str(ROOT / "data"), "--seconds", str(seconds), *options, suite,
    ]  # fmt: skip
    found = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if found.returncode:
        print(f"gpu_turns: {' '.join(command)} exits with {found.returncode}", file=sys.stderr)
    return [json.loads(line) for line in found.stdout.splitlines()]


def case_of(row: dict) -> tuple:
    return (
        row["case"], row["heads"], row.get("head_dim", 128), row["dtype"], row["page_size"], row["policy"],
        row.get("method"), row["page_order"],
    )  # fmt: skip


def merge_rounds(rounds: list[list[dict]]) -> dict[tuple, dict]:
    """For each case that passed in all rounds, the minimum time and the output's bits, None where rounds differ."""
    cases: dict[tuple, list[dict]] = {}
    for rows in rounds:
        for row in rows:
            if row.get("passed") and "us" in row:
                cases.setdefault(case_of(row), []).append(row)
    merged = {}
    for case, rows in cases.items():
        hashes = {row.get("output_hash") for row in rows}
        bits = hashes.pop() if len(hashes) == 1 else None
        merged[case] = {"us": min(row["us"] for row in rows), "hash": bits, "device": rows[0]["device"]}
    return merged


def compare(suite: str, old: dict[tuple, dict], new: dict[tuple, dict]) -> dict:
    both = sorted(old.keys() & new.keys(), key=str)
    if not both:
        return {"suite": suite, "cases": 0}
    ratios = {case: new[case]["us"] / old[case]["us"] for case in both}
    same = sum(old[case]["hash"] is not None and old[case]["hash"] == new[case]["hash"] for case in both)
    extremes = {}
    for name, pick in (("slowest", max), ("fastest", min)):
        case = pick(ratios, key=lambda each: ratios[each])
        extremes[name] = {"ratio": round(ratios[case], 4), "case": case[0], "heads": case[1], "us": new[case]["us"]}
    return {
        "suite": suite,
        "cases": len(both),
        "only_one": len(old.keys() ^ new.keys()),
        "mean_ratio": round(math.exp(sum(map(math.log, ratios.values())) / len(ratios)), 4),
        **extremes,
        "same_bits": same,
        "device": new[both[0]]["device"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60, help="of each suite, build and round")
    arguments = sys.argv[1:]
    options = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    given = parser.parse_args(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    found: dict[str, dict[str, list[list[dict]]]] = {suite: {"old": [], "new": []} for suite in given.suites}
    for _ in range(given.rounds):
        for suite in given.suites:
            for side, build in (("old", given.old), ("new", given.new)):
                found[suite][side].append(rows_of(build, suite, given.seconds, options))
    for suite in given.suites:
        print(json.dumps(compare(suite, *(merge_rounds(found[suite][side]) for side in ("old", "new")))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
