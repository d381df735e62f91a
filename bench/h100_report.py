#!/usr/bin/env python3
"""Writes bench/results/h100/README.md: tests, planning, isolation and comparisons of builds on an H100.

python3 bench/h100_report.py           # writes the page
python3 bench/h100_report.py --check   # fails when it is not what the rows say
"""

import json
import pathlib

import pages
from gpu_report import tests_line
from report import table

RESULTS = pathlib.Path(__file__).resolve().parent / "results/h100"
TURNS = {
    "isolation_turns": "With the test for NaN, over a commit without it",
    "planner_turns": "With the device planner in thread-group operations, over a commit before it",
    "shapes_turns": "With head size 256 and TMA for any page size, over a commit before them",
}
HEAD = """# Results on an H100

Written by `bench/h100_report.py` from the rows beside it. [Head sizes and page sizes](shapes.md) have a page of their
own; [results in vLLM](../vllm/README.md) have runs on an H100, too.
"""
PLAN_TIME = """## Planning on the device

Microseconds. A warm plan follows another one at once, so page tables and workspace are in the L2 cache; a cold one
follows a read of 128 MiB, more than L2 holds. All columns but the two cold ones are warm. "New plan" is made anew for
two batches by turns that share alike; "alternating" has two whose rows have other tables, too, so that comparing rows
with the last plan does not help. "Reused" is a step whose last plan still reads it; a resolve follows a plan in each
step. Cases are `rows/tokens` by level of the tree.
"""
TRIAL = """## A planner design that was not kept

64 bytes of page ids in flight a thread, and kernels launched ahead of each other's end. Both builds by turns.
"""
ISOLATION = """## One request with NaN

One layer, one of 64 requests with a NaN in a private token in every KV head; `isolation_bench`.
"""


def load(name: str) -> list[dict]:
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def times(row: dict, *names: str) -> list[str]:
    return [f"{row[name]:.1f}" if row.get(name) else "" for name in names]


def commits(rows: list[dict]) -> str:
    return "Commit " + ", ".join(dict.fromkeys(row["commit"][:12] for row in rows)) + ".\n"


def plan_times(rows: list[dict]) -> str:
    names = ("us", "cold_us", "moved_us", "reused_us", "reused_cold_us", "tokens_us", "tokens_reused_us", "resolve_us")
    lines = [[row["case"], *times(row, *names)] for row in rows if not row["rows_shuffled"]]
    header = ["case", "new plan", "new plan, cold", "alternating", "reused", "reused, cold", "page size 1"]
    return table([*header, "reused, page size 1", "resolve"], lines)


def trial(rows: list[dict]) -> str:
    names = ("us", "moved_us", "reused_us", "tokens_reused_us")
    sides = {side: {row["case"]: row for row in rows if row["side"] == side} for side in ("kept", "trial")}
    lines = []
    for case, row in sides["kept"].items():
        pairs = zip(times(row, *names), times(sides["trial"][case], *names), strict=True)
        lines.append([case, *(" / ".join(pair) for pair in pairs)])
    header = ["case", "new plan, kept / trial", "alternating", "reused", "reused, page size 1"]
    return table(header, lines)


def isolation(rows: list[dict]) -> str:
    lines = [[row["case"], row["heads"], row["kernels"], *times(row, "clean_us", "nan_us")] for row in rows]
    return table(["case", "heads", "kernels", "finite, us", "with NaN, us"], lines)


def turns(rows: list[dict]) -> str:
    lines = [
        [
            row["suite"],
            row.get("kernels", "auto"),
            row.get("dtype", "f16"),
            str(row["cases"]),
            f"{row['mean_ratio']:.3f}",
            *(
                f"{row[name]['ratio']:.3f}: {row[name]['case']} at {row[name]['heads']}"
                for name in ("fastest", "slowest")
            ),
            str(row["same_bits"]),
        ]
        for row in rows
    ]
    header = ["suite", "kernels", "type", "cases", "time, geometric mean", "min", "max", "outputs of the same bits"]
    return table(header, lines)


def page() -> str:
    parts = [HEAD, tests_line(RESULTS / "tests.json") + "\n"]
    for name, text, make in (
        ("plan_time", PLAN_TIME, plan_times),
        ("planner_trial", TRIAL, trial),
        ("isolation", ISOLATION, isolation),
    ):
        if rows := load(name):
            parts += [text, f"{commits(rows)}", make(rows)]
    parts.append(
        "## Builds by turns\n\nTime of the later commit over the earlier one's, both by turns in one run "
        "([gpu_turns.py](../../gpu_turns.py)). A suite has a fixed time, so its longest cases may be missing.\n"
    )
    for name, title in TURNS.items():
        if rows := load(name):
            pair = f"{rows[0]['commit'][:12]} over {rows[0]['old_commit'][:12]}"
            parts += [f"### {title}\n", f"{pair}; `{rows[0]['command']}`.\n", turns(rows)]
    return "\n".join(parts)


def main() -> None:
    pages.write_or_check(RESULTS / "README.md", page(), "h100_report.py")


if __name__ == "__main__":
    main()
