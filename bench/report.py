#!/usr/bin/env python3
"""Writes bench/results/cpu/README.md from the rows beside it: the tables, their summary, and where they come from.

python3 bench/report.py           # writes the page
python3 bench/report.py --check   # fails when it is not what the rows say
"""

import json
import math
import pathlib

import pages

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results/cpu"
PAGE = RESULTS / "README.md"
# The suites whose distance from the floor is the project's aim.
AIMED = ("reasoning", "pat_style", "unshared")


def load(suite: str) -> list[dict]:
    path = RESULTS / f"{suite}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def milliseconds(us: float) -> str:
    return f"{us / 1e3:.3g}"


def x_floor(row: dict) -> float:
    return row["us"] / row["floor_us"]


def case_rows(rows: list[dict]) -> list[list[str]]:
    return [
        [
            row["case"],
            row["heads"],
            str(row["requests"]),
            f"{row['kv_tokens_total']:,}",
            f"{row['kv_tokens_distinct']:,}",
            milliseconds(row["flat_us"]),
            milliseconds(row["us"]),
            row["chosen"],
            f"{row['flat_us'] / row['us']:.2f}",
            milliseconds(row["floor_us"]),
            f"{x_floor(row):.2f}",
            f"{row['max_err']:.0e}",
        ]
        for row in rows
    ]


CASE_HEADER = [
    "case", "heads", "requests", "tokens, one at a time", "distinct", "flat, ms", "auto, ms", "chose", "speed-up",
    "floor, ms", "x floor", "error",
]  # fmt: skip


def summary(suites: dict[str, list[dict]]) -> str:
    rows = []
    for name, results in suites.items():
        for heads in sorted({row["heads"] for row in results}, reverse=True):
            chosen = [row for row in results if row["heads"] == heads]
            ratios = [x_floor(row) for row in chosen]
            gains = [row["flat_us"] / row["us"] for row in chosen]
            rows.append(
                [
                    name,
                    heads,
                    str(len(chosen)),
                    f"{geometric_mean(ratios):.2f}",
                    f"{min(ratios):.2f} to {max(ratios):.2f}",
                    f"{geometric_mean(gains):.2f}",
                    f"{min(gains):.2f} to {max(gains):.2f}",
                ]
            )
    missing = [name for name in AIMED if name not in suites]
    if missing:
        raise SystemExit(f"bench/results/cpu has no rows of {', '.join(missing)}")
    aimed = [x_floor(row) for name in AIMED for row in suites.get(name, [])]
    rows.append(
        ["**" + ", ".join(AIMED) + "**", "all", str(len(aimed)), f"**{geometric_mean(aimed):.2f}**", "", "", ""]
    )
    header = ["suite", "heads", "cases", "x floor, geometric mean", "range", "flat / auto, geometric mean", "range"]
    return table(header, rows)


def policy_note(suites: dict[str, list[dict]]) -> str:
    """How `auto` does against `flat`: where nothing is shared, and where reading once promises a gain."""
    unshared = [row for rows in suites.values() for row in rows if row["kv_tokens_total"] == row["kv_tokens_distinct"]]
    shared = [row for rows in suites.values() for row in rows if row["kv_tokens_total"] > row["kv_tokens_distinct"]]
    ratios = [row["us"] / row["flat_us"] for row in unshared]
    promised = [row for row in shared if row["floor_us"] < 0.9 * row["flat_us"]]
    behind = [row for row in promised if row["us"] >= row["flat_us"]]
    text = (
        f"Where nothing is shared ({len(unshared)} cases) `auto` runs the very plan that `flat` does; the two times "
        f"differ by the noise of the machine: {geometric_mean(ratios):.3f}x in the geometric mean, {min(ratios):.2f}x "
        f"to {max(ratios):.2f}x. Where the floor is at least 10 % below `flat`'s time in a batch that shares "
        f"({len(promised)} cases), `auto` is faster in {len(promised) - len(behind)}"
    )
    if behind:
        text += "; not in " + ", ".join(
            f"{row['suite']} {row['case']} at {row['heads']} ({row['us'] / row['flat_us']:.2f}x)" for row in behind
        )
    return text + ".\n"


def planner_tables(rows: list[dict]) -> str:
    paged = [row for row in rows if row["page_size"] == 16]
    lines = []
    for group in sorted({row["input"] for row in paged}):
        of_group = [row for row in paged if row["input"] == group]
        slowest = max(of_group, key=lambda row: row["us"])
        lines.append(
            [
                group,
                str(len(of_group)),
                f"{max(row['requests'] for row in of_group)}",
                f"{sorted(row['us'] for row in of_group)[len(of_group) // 2]:.1f}",
                f"{slowest['us']:.1f}",
                f"{slowest['forest_us']:.1f}",
                f"{slowest['plan_us']:.1f}",
            ]
        )
    header = [
        "input, page 16", "cases", "most requests", "median case, us", "slowest case, us", "its forest", "its plan",
    ]  # fmt: skip
    largest = [row for row in paged if row["requests"] >= 1000]
    tokens = [row for row in rows if row["page_size"] == 1 and row["compared_ids"] > 100_000]
    nanoseconds = [1e3 * row["forest_us"] / row["compared_ids"] for row in tokens]
    return (
        table(header, lines)
        + f"\nAt 1,000 requests and more ({len(largest)} cases): {min(r['us'] for r in largest):.0f} to "
        f"{max(r['us'] for r in largest):.0f} us. At page size 1 every id of a shared run must be compared: "
        f"{geometric_mean(nanoseconds):.2f} ns an id (geometric mean of {len(tokens)} cases with more than 100,000 "
        f"compared ids, {min(nanoseconds):.2f} to {max(nanoseconds):.2f}), forest included.\n"
    )


def rows_table(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        queries = row["requests"] // 16
        group = int(row["heads"].split("/")[0]) // int(row["heads"].split("/")[1])
        lines.append([str(queries * group), row["heads"], milliseconds(row["us"]), f"{x_floor(row):.2f}"])
    return table(["rows that share a token", "heads", "auto, ms", "x floor"], lines)


def policies_table(rows: list[dict]) -> str:
    """Every policy's time as a multiple of the fastest one's, and what `auto` misses by its pick."""
    names = list(rows[0]["us_by"])
    lines = []
    for row in rows:
        fastest = min(row["us_by"].values())
        times = [f"{row['us_by'][name] / fastest:.2f}" for name in names]
        lines.append([row["case"], row["heads"], milliseconds(fastest), *times, row["chosen"], f"{row['regret']:.3f}"])
    means = [geometric_mean([row["us_by"][name] / min(row["us_by"].values()) for row in rows]) for name in names]
    regret = geometric_mean([row["regret"] for row in rows])
    lines.append(["**geometric mean**", "", "", *(f"{mean:.2f}" for mean in means), "", f"**{regret:.3f}**"])
    return table(["case", "heads", "fastest, ms", *names, "auto", "regret"], lines)


def variant_name(row: dict) -> str:
    """What distinguishes a row from plain attention over a cache of Q's type; empty: nothing."""
    names = [row["kv_dtype"]] if row["kv_dtype"] != row["dtype"] else []
    names += ["sinks"] if row["sinks"] else []
    names += [f"soft cap {row['soft_cap']:g}"] if row["soft_cap"] else []
    names += [f"window {row['window_left'] + 1:,}"] if row["window_left"] >= 0 else []
    return ", ".join(names)


def variants_section(about: str, rows: list[dict]) -> list[str]:
    """Times of variants over that of plain attention, on the machine of these rows."""
    first = rows[0]
    names = list(dict.fromkeys(variant_name(row) for row in rows))
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        of_case = {variant_name(row): row for row in rows if row["case"] == case}
        plain = of_case[""]["us"]
        lines.append([case, milliseconds(plain), *(f"{of_case[name]['us'] / plain:.2f}" for name in names if name)])
    return [
        "## Variants of attention\n",
        f"{about[0].upper()}{about[1:]}: multiples of the time without. {first['device']}, {first['threads']} threads, "
        f"{first['isa']} kernels, heads {first['heads']}, `auto`; variants by turns, the fastest of them. Commit "
        f"{', '.join(sorted({row['commit'] for row in rows}))}.\n",
        table(["case", "without, ms", *(name for name in names if name)], lines),
    ]


def page() -> str:
    suites = {name: load(name) for name in ("reasoning", "pat_style", "unshared", "faithful", "papers")}
    suites = {name: rows for name, rows in suites.items() if rows}
    about = {name: suite["about"] for name, suite in json.loads((BENCH / "suites.json").read_text()).items()}
    first = next(iter(suites.values()))[0]
    commits = sorted({row["commit"] for rows in suites.values() for row in rows})
    bandwidth = [row["read_bytes_per_us"] / 1e3 for rows in suites.values() for row in rows]
    flops = [row["flops_per_us"] / 1e3 for rows in suites.values() for row in rows]
    text = [
        "# Results on a CPU\n",
        f"{first['device']}, {first['threads']} threads, {first['isa']} kernels; f16, d {first['head_dim']}, pages of "
        f"{first['page_size']}, shuffled; caches cold before each run; median of {first['repeat']}, `flat` and `auto` "
        "in turn. Measured in the same runs: "
        f"{min(bandwidth):.0f} to {max(bandwidth):.0f} GB/s read, {min(flops):.0f} to {max(flops):.0f} GFLOP/s fp32. "
        f"Commit {', '.join(commits)}. Every output was checked against plain attention in fp64 first.\n",
        "The floor is max(distinct KV bytes / read bandwidth, FLOPs / FMA rate). This page is written by "
        "`bench/report.py` from the rows beside it; `python3 bench/run.py` and "
        "`planner_bench` make those. The [glossary](../../../docs/concepts/glossary.md#words-of-the-measurements) "
        "has the words.\n",
        "## Summary\n",
        summary(suites),
        policy_note(suites),
    ]
    for name, rows in suites.items():
        text += [f"## {name}\n", about[name][0].upper() + about[name][1:] + ".\n", table(CASE_HEADER, case_rows(rows))]
    if load("rows"):
        text += ["## Cost by rows\n", about["rows"][0].upper() + about["rows"][1:] + ".\n", rows_table(load("rows"))]
    if load("policies"):
        text += [
            "## Policies\n",
            about["policies"][0].upper() + about["policies"][1:] + ". Times are multiples of the fastest policy's.\n",
            policies_table(load("policies")),
        ]
    if load("variants"):
        text += variants_section(about["variants"], load("variants"))
    if load("planner"):
        method = "One core, `auto`, heads 32/8, medians, warm.\n"
        text += ["## Forest and plan\n", method, planner_tables(load("planner"))]
    return "\n".join(text)


def main() -> None:
    pages.write_or_check(PAGE, page(), "report.py")


if __name__ == "__main__":
    main()
