#!/usr/bin/env python3
"""Writes bench/results/sglang/README.md from the rows beside it.

python3 bench/sglang_report.py           # writes the page
python3 bench/sglang_report.py --check   # fails when it is not what the rows say
"""

import json
import pathlib

import pages
import vllm_report
import vllm_tables
from report import table
from vllm_tables import number, ratio

RESULTS = pathlib.Path(__file__).resolve().parent / "results/sglang"
PAGE = RESULTS / "README.md"
INTRODUCTION = """# Results in SGLang

The plug-in against SGLang's fa3 backend (`default`) inside one engine: same process, weights, cache and requests, both
sides in turns. A ratio is fa3's time over ours, above 1 where we are faster, with its 95 % interval over pairs of
turns. "Against itself" is how far two captures of one side differ, which the comparison cannot tell apart. `floor` is
the time of reading each distinct key and value once. Weights are drawn.
[Workloads and commands](../../README.md#in-sglang). `bench/sglang_report.py` writes this page from the rows beside it.
"""


def load(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def whole(rows: list[dict]) -> str:
    lines = [
        [
            row["workload"],
            str(row["requests"]),
            *(number(row["seconds"][row[side]]) for side in ("baseline", "subject")),
        ]
        + [ratio(row), str(row["pairs"])]
        for row in rows
    ]
    return table(["workload", "requests", "fa3, s", "trunkline, s", "ratio (95 %)", "rounds"], lines)


def run_section(rows: list[dict]) -> list[str]:
    """Of the rows of one GPU, model and page size."""
    last = rows[-1]
    commands = ", ".join(f"`{command}`" for command in dict.fromkeys(row["command"] for row in rows))
    text = [
        f"## {last['device']}, {last['model']}, pages of {last['page_size']}\n",
        f"SGLang {last['sglang']}, torch {last['torch']}, driver {last['driver']}; {last['layers']} layers, "
        f"{last['dtype']}; commit {', '.join(dict.fromkeys(row['commit'][:12] for row in rows))}; {commands}.\n",
        vllm_report.agreement(rows),
    ]
    stepped, run_whole = vllm_report.of_kind(rows, "sides"), vllm_report.of_kind(rows, "whole")
    if stepped:
        text += ["### Decode steps\n", vllm_tables.sides(stepped), vllm_report.equal_where_nothing_is_shared(stepped)]
    if run_whole:
        text += ["### From prompts to the last answer\n", whole(run_whole)]
    return [*text, vllm_report.losses([*stepped, *run_whole]), vllm_report.short_steps(stepped)]


def checks(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        found = [group for rank in row["statistics"] for group in rank.values()]
        shadows = [group["shadow"] for group in found]
        compared, beyond = (f"{sum(shadow[name] for shadow in shadows):,.0f}" for name in ("compared", "beyond"))
        most = max(shadow["most"] for shadow in shadows)
        lines.append(
            [row["command"].partition(".py ")[2], row["device"], row["commit"][:12], f"{row['finished']:,}"]
            + [f"{row['aborted']:,}", compared, beyond, f"{most:.4f}"]
        )
    header = ["`engine_check.py`", "GPU", "commit", "requests", "aborted", "vectors compared", "beyond", "most"]
    return (
        "## Shadow mode\n\n"
        "`tests/sglang/engine_check.py` serves requests that come, go and are aborted, with a cache too small for all; "
        "each decode step is computed by both kernels. A vector is a head's of a query token; it is beyond the "
        f"tolerance where it differs by more than {shadows[0]['tolerance']:.4f} of its largest value.\n\n"
        + table(header, lines)
    )


def page(runs: dict[str, list[dict]], checked: list[dict]) -> str:
    text = [INTRODUCTION]
    for rows in runs.values():
        for key in dict.fromkeys((row["model"], row["page_size"]) for row in rows):
            text += run_section([row for row in rows if (row["model"], row["page_size"]) == key])
    if checked:
        text.append(checks(checked))
    return "\n".join(part for part in text if part)


def main() -> None:
    files = sorted(RESULTS.glob("*.jsonl"))
    found = {path.stem: load(path) for path in files}
    checked = found.pop("checks", [])
    pages.write_or_check(PAGE, page(found, checked), "sglang_report.py")


if __name__ == "__main__":
    main()
