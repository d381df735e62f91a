#!/usr/bin/env python3
"""Writes bench/results/GPU/shapes.md from the rows there of parts `shapes` and `variants` of scripts/gpu_bench.sh.

python3 bench/shapes_report.py           # writes the pages
python3 bench/shapes_report.py --check   # fails when they are not what the rows say
"""

import json
import pathlib

import pages
from gpu_rows import by
from report import geometric_mean, table

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results"
GPUS = {"h100": "H100", "h200": "H200"}
HEAD = """# Head sizes, page sizes, fp8, sinks and soft caps on an {gpu}

Suites of [the GPU benchmark](../h200/README.md) at other head sizes and page sizes, and with fp8 K and V, sinks or a
soft cap. This page is written by `bench/shapes_report.py` from the rows that `scripts/gpu_bench.sh BUILD OUT shapes
variants` makes ([bench/README.md](../../README.md)). Outputs are checked first; times are medians of graph replays on
copies of K and V that have left the L2 cache. The floor is the plan's bound by the GPU's
[machine profile](../../../docs/guides/tuning.md#where-the-gpus-figures-come-from). "Consecutive" tokens lie one behind
another in the cache, as after a prefill; "shuffled" ones lie anywhere.
"""


VARIED = """
## fp8, sinks and soft caps

Commit {commits} ([rows](variants.jsonl)). 32/8, d 128, beside layers without them in the same run. The floor of K and V
of 8 bits is that of their bytes. The error is the largest of an output's elements against attention in fp64, of K and V
as they are stored.

"""

# What a row of `variants` compares, in words.
VARIANTS = {"fp8": "K and V of 8 bits, e4m3", "sinks": "sinks", "soft_cap": "soft cap of 50"}


def load(gpu: str, name: str) -> list[dict]:
    path = RESULTS / gpu / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def layout_of(row: dict) -> str:
    return f"page {row['page_size']}, {row['page_order']}"


def suites_by_shape(rows: list[dict]) -> str:
    lines = []
    groups = by(rows, lambda row: (row["suite"], row["heads"], row["head_dim"], row["dtype"], row["kernels"]))
    for (suite, heads, head_dim, dtype, kernels), chosen in groups.items():
        floors = [row["x_floor"] for row in chosen]
        worst = max(chosen, key=lambda row: row["x_floor"])
        lines.append(
            [suite, heads, str(head_dim), dtype, kernels, str(len(chosen)), f"{geometric_mean(floors):.2f}",
             f"{worst['x_floor']:.2f}: {worst['case']}"]
        )  # fmt: skip
    return table(["suite", "heads", "d", "type", "kernels", "cases", "x floor, geometric mean", "worst"], lines)


def page_sizes(rows: list[dict]) -> str:
    """Times of the same cases at page size 1 over those at their suite's page size."""
    base = {(row["suite"], row["case"]): row["us"] for row in rows if row["page_size"] != 1}
    lines = []
    groups = by([row for row in rows if row["page_size"] == 1], lambda row: (row["suite"], layout_of(row)))
    for (suite, layout), chosen in groups.items():
        paired = [(row["us"] / base[key], row) for row in chosen if (key := (suite, row["case"])) in base]
        if not paired:
            continue
        worst, of = max(paired, key=lambda pair: pair[0])
        lines.append(
            [suite, layout, str(len(paired)), f"{geometric_mean([ratio for ratio, _ in paired]):.3f}",
             f"{worst:.2f}: {of['case']}"]
        )  # fmt: skip
    return table(["suite", "tokens", "cases", "time over page 16's, geometric mean", "most"], lines)


def variants(rows: list[dict]) -> str:
    """Each kind of layer beside the same cases of plain layers, of the same run."""
    plain = {(row["suite"], row["case"], row["dtype"]): row["us"] for row in rows if row["compares"] == "none"}
    lines = []
    for (compares, suite, dtype), chosen in by(rows, lambda row: (row["compares"], row["suite"], row["dtype"])).items():
        if compares == "none":
            continue
        paired = [(row["us"] / plain[key], row) for row in chosen if (key := (suite, row["case"], dtype)) in plain]
        ratios = [ratio for ratio, _ in paired]
        most, of = max(paired, key=lambda pair: pair[0])
        lines.append(
            [VARIANTS[compares], suite, dtype, str(len(paired)), f"{geometric_mean(ratios):.3f}",
             f"{min(ratios):.2f}", f"{most:.2f}: {of['case']}",
             f"{geometric_mean([row['x_floor'] for _, row in paired]):.2f}",
             f"{max(row['max_err'] for _, row in paired):.1e}"]
        )  # fmt: skip
    header = ["layer", "suite", "type", "cases", "time over that without", "least", "most", "x floor", "error"]
    return table(header, lines)


def page(gpu: str, shape_rows: list[dict], variant_rows: list[dict]) -> str:
    # Cases of one shape at several page sizes are compared by page size, all others by shape.
    paged = [row for row in shape_rows if row.get("compares") == "pages"]
    shapes = [row for row in shape_rows if row.get("compares") != "pages"]
    parts = []
    if shape_rows:
        parts.append(f"\nCommit {commits_of(shape_rows)} ([rows](shapes.jsonl)).\n")
    if shapes:
        parts.append("\n" + suites_by_shape(shapes))
    if paged:
        parts.append("\nPages of one token beside pages of 16, 32/8, d 128:\n\n" + page_sizes(paged))
    if variant_rows:
        parts.append(VARIED.format(commits=commits_of(variant_rows)) + variants(variant_rows))
    return HEAD.format(gpu=GPUS[gpu]) + "".join(parts)


def commits_of(rows: list[dict]) -> str:
    return ", ".join(sorted({row["commit"] for row in rows}))


def main() -> None:
    for gpu in GPUS:
        shapes, varied = load(gpu, "shapes"), load(gpu, "variants")
        if shapes or varied:
            pages.write_or_check(RESULTS / gpu / "shapes.md", page(gpu, shapes, varied), "shapes_report.py")


if __name__ == "__main__":
    main()
