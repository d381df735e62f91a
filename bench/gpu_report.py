#!/usr/bin/env python3
"""Writes docs/results_gpu.md from the rows in bench/results/h200.

python3 bench/gpu_report.py           # writes docs/results_gpu.md
python3 bench/gpu_report.py --check   # fails when docs/results_gpu.md is not what the rows say
"""

import json
import pathlib
import sys

from report import geometric_mean, table

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results/h200"
PAGE = BENCH.parent / "docs/results_gpu.md"
SUITES = {
    "pat": "PAT's 20 trees, page 32",
    "fasttree": "FastTree's 15 trees, pages of 16 or 8",
    "flat": "nothing shared, pages of 16 and 32",
    "batches": "two decode batches of each recorded file, page 16",
}


def load(name: str) -> list[dict]:
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def recorded(row: dict, kernel: str | None = None) -> float | None:
    """A published kernel's recorded time, or the least of all."""
    times = row.get("recorded_us", {})
    return times.get(kernel) if kernel else min(times.values(), default=None)


def span(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}" if values else ""


def ratio_cells(rows: list[dict], kernel: str | None) -> list[str]:
    values = [time / row["us"] for row in rows if (time := recorded(row, kernel)) is not None]
    return [f"{geometric_mean(values):.2f}", span(values)] if values else ["", ""]


def summary(suites: dict[str, list[dict]]) -> str:
    lines = []
    for name, rows in suites.items():
        for heads in dict.fromkeys(row["heads"] for row in rows):
            chosen = [row for row in rows if row["heads"] == heads]
            floors = [row["x_floor"] for row in chosen]
            peer = {"pat": "pat", "fasttree": "fasttree"}.get(name)
            cells = [name, heads, str(len(chosen)), f"{geometric_mean(floors):.2f}", span(floors)]
            cells += ratio_cells(chosen, peer) if peer else ["", ""]
            lines.append(cells + ratio_cells(chosen, None))
    header = [
        "suite", "heads", "cases", "x floor", "range", "faster than its paper's kernel", "range",
        "faster than the best recorded", "range",
    ]  # fmt: skip
    return table(header, lines)


def cases(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        best = recorded(row)
        kernel = min(row.get("recorded_us", {"": 0}), key=row.get("recorded_us", {"": 0}).get)
        lines.append(
            [
                row["case"],
                row["heads"],
                str(row["page_size"]),
                row["chosen"],
                str(row["items"]),
                f"{row['us']:.1f}",
                f"{row['us_p10']:.1f} to {row['us_p90']:.1f}",
                f"{row['floor_us']:.1f}",
                f"{row['x_floor']:.2f}",
                f"{row['predicted_us']:.0f}",
                f"{best:.1f} {kernel}" if best else "",
                f"{best / row['us']:.2f}" if best else "",
                f"{row['plan_us']:.0f}",
                f"{row['max_err']:.0e}",
            ]
        )
    header = [
        "case", "heads", "page", "chose", "items", "us", "10 to 90 %", "floor", "x floor", "predicted",
        "best recorded", "faster", "planning, us", "error",
    ]  # fmt: skip
    return table(header, lines)


def ablations(rows: list[dict], base: list[dict]) -> str:
    default = {row["case"]: row["us"] for row in base if row["heads"] == "32/8"}
    lines = []
    for key in dict.fromkeys((row["mode"], row["policy"], row["tile"]) for row in rows):
        chosen = [row for row in rows if (row["mode"], row["policy"], row["tile"]) == key]
        ratios = [row["us"] / default[row["case"]] for row in chosen if row["case"] in default]
        lines.append([*key, str(len(ratios)), f"{geometric_mean(ratios):.3f}", span(ratios)])
    return table(["mode", "policy", "tile", "cases", "time over the default's", "range"], lines)


def losses(suites: dict[str, list[dict]]) -> str:
    behind = [
        f"{name} {row['case']} at {row['heads']}, page {row['page_size']} ({best / row['us']:.2f})"
        for name, rows in suites.items()
        for row in rows
        if (best := recorded(row)) is not None and best < row["us"]
    ]
    total = sum(recorded(row) is not None for rows in suites.values() for row in rows)
    return f"Slower than the best recorded kernel in {len(behind)} of {total} cases: " + "; ".join(behind) + ".\n"


def page() -> str:
    suites = {name: load(name) for name in SUITES if load(name)}
    tests = json.loads((RESULTS / "tests.json").read_text())
    first = next(iter(suites.values()))[0]
    text = f"""# Results on an H200

{tests["gpu"]}, driver {tests["driver"]}, clocks as found ({tests["sm_clock"]}, {tests["memory_clock"]} when idle);
fp16, head size 128. Every case was checked against plain attention in fp64 first. Times are of one layer on the GPU,
forward and merge, by replays of a captured graph between two events, median of 25, with cold caches (512 MiB are
written before each); planning and resolve, once a step, are apart. The floor is 5.8 us + max(distinct K, V, Q and O
bytes / 4.67 TB/s, FLOPs / 790 TFLOP/s). [Recorded](../bench/recorded/h200.json) times are of published kernels on the
same kind of GPU by the same method on another day: ratios to them are good to some 3 %. Commit {first["commit"]},
`src/exec/cuda` at {first["cuda_tree"][:12]}; command `{tests["command"]}`, then `bench/gpu_collect.py`.

This page is written by `bench/gpu_report.py` from [bench/results/h200](../bench/results/h200). The kernels are the
portable ones (`mma.sync`, compute capability 8.0 and later); [gpu.md](gpu.md) explains them.

{summary(suites)}
{losses(suites)}
## PAT's ablations on its trees, 32/8
Time over the default's (persistent launch, `auto`, tiles by the selector) in the same run. PAT's own figures on an
A100: one tile for all +39 %, serial launches +4.8 %, one pack a node (naive) +10.4 %.

{ablations(load("ablation"), suites.get("pat", []))}"""
    for name, rows in suites.items():
        text += f"\n## Suite `{name}`: {SUITES[name]}\n{cases(rows)}"
    return text


def main() -> None:
    text = page()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != text:
            raise SystemExit("docs/results_gpu.md is not what the rows say; run python3 bench/gpu_report.py")
        return
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
