#!/usr/bin/env python3
"""Writes bench/results/peers/README.md from the rows beside it.

python3 bench/peers_report.py           # writes the page
python3 bench/peers_report.py --check   # fails when it is not what the rows say
"""

import json
import pathlib
import textwrap

import pages
from report import geometric_mean, table

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results/peers"
PAGE = RESULTS / "README.md"
OURS = "trunkline"
METHODS = {
    OURS: "`DecodeAttention`, policy `auto`, planned on the host from page tables alone",
    "fa3": "FlashAttention 3 of vLLM's wheel, which chooses the number of splits for the batch",
    "fa3_splits32": "the same with at most 32 splits, as vLLM has it in steps that are captured whole",
    "flashinfer_decode": "FlashInfer's `BatchDecodeWithPagedKVCacheWrapper`",
    "flashinfer_decode_tc": "the same with `use_tensor_cores=True`",
    "flashinfer_cascade": "FlashInfer's `MultiLevelCascadeAttentionWrapper`, which is given the tree; up to two levels",
}
INTRODUCTION = """# Beside FlashAttention 3 and FlashInfer

One attention layer of a decode step, all methods in one process and by turns: Trunkline, FlashAttention 3 as vLLM's
wheel has it, and FlashInfer. This page is written by `bench/peers_report.py` from the rows beside it;
[bench/README.md](../../README.md#beside-other-kernels) has the commands. Cases are the trees of suites of [the GPU
benchmark](../h200/README.md).
"""
HOW = """
Every method reads the same tensors, K and V apart as [pages, P, Hkv, d] with consecutive pages, and was compared
with attention in fp32 first: on one copy of K and V while all others were NaN, and again after its replays. Times are
of replays of a captured graph between two events, medians, on copies of K and V that have left the L2 cache. Planning,
once a step on the host, is apart. FlashAttention and FlashInfer's decode wrapper read a shared prefix once for each
request; the cascade reads it once. The floor is the plan's bound by the
[machine profile](../../../docs/guides/tuning.md#where-the-gpus-figures-come-from): launch + max(distinct bytes / read
rate, FLOPs / matrix rate).
"""


def load() -> dict[str, list[dict]]:
    """Rows by the GPU's name in the file's."""
    files = sorted(RESULTS.glob("*.jsonl")) if RESULTS.exists() else []
    return {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in files}


def setting_of(row: dict) -> str:
    return f"{row['heads']}, d {row['head_dim']}, page {row['page_size']}, {row['dtype']}"


def case_of(row: dict) -> tuple:
    return row["suite"], row["case"], setting_of(row)


def timed_cases(rows: list[dict]) -> dict[tuple, dict[str, dict]]:
    """Rows that were timed by graph replay, by case and method, of cases where Trunkline was."""
    cases: dict[tuple, dict[str, dict]] = {}
    for row in rows:
        if "us" in row:
            cases.setdefault(case_of(row), {})[row["method"]] = row
    return {case: methods for case, methods in cases.items() if OURS in methods}


def ratios(cases: dict[tuple, dict[str, dict]], method: str) -> dict[tuple, float]:
    """The method's time over Trunkline's: below 1 where Trunkline loses."""
    return {case: of[method]["us"] / of[OURS]["us"] for case, of in cases.items() if method in of}


def summary(cases: dict[tuple, dict[str, dict]]) -> str:
    groups: dict[tuple, dict] = {}
    for case, of in cases.items():
        groups.setdefault((case[0], case[2]), {})[case] = of
    lines = []
    for (suite, setting), chosen in groups.items():
        floors = [of[OURS]["us"] / of[OURS]["floor_us"] for of in chosen.values()]
        for method in METHODS:
            found = list(ratios(chosen, method).values())
            if method == OURS or not found:
                continue
            lines.append([suite, setting, method, str(len(found)), f"{geometric_mean(found):.2f}", f"{min(found):.2f}"])
            lines[-1] += [f"{max(found):.2f}", str(sum(ratio < 1 for ratio in found)), f"{geometric_mean(floors):.2f}"]
    header = ["suite", "heads", "method", "cases", "its time over Trunkline's, geometric mean", "least", "most"]
    return table([*header, "Trunkline slower in", "Trunkline's time over the floor"], lines)


def losses(cases: dict[tuple, dict[str, dict]]) -> str:
    lines = []
    for method in METHODS:
        found = ratios(cases, method)
        behind = sorted((ratio, case) for case, ratio in found.items() if ratio < 1)
        if method == OURS or not found:
            continue
        named = "; ".join(f"{suite} `{name}` at {setting} ({ratio:.2f})" for ratio, (suite, name, setting) in behind)
        said = f"Trunkline is slower than `{method}` in {len(behind)} of {len(found)} cases"
        lines.append(textwrap.fill(f"- {said}{': ' + named if named else ''}.", 118, subsequent_indent="  "))
    return "\n".join(lines) + "\n"


def left_out(rows: list[dict]) -> str:
    """Methods that refused a case, were wrong, or could not be captured."""
    kinds = {
        "refused": [row for row in rows if "refused" in row],
        "wrong, and not timed": [row for row in rows if row.get("passed") is False],
        "timed by eager calls alone": [row for row in rows if row.get("timed") == "eager calls"],
    }
    lines = []
    for kind, found in kinds.items():
        counted: dict[tuple, int] = {}
        for row in found:
            key = row["method"], setting_of(row), row.get("refused", "")
            counted[key] = counted.get(key, 0) + 1
        lines += [
            textwrap.fill(
                f"- `{method}`, {kind}: {count} cases at {setting}{': ' + words if words else ''}.",
                118,
                subsequent_indent="  ",
            )
            for (method, setting, words), count in counted.items()
        ]
    return "\n".join(["Left out:\n", *lines, ""]) if lines else ""


def each_case(cases: dict[tuple, dict[str, dict]]) -> str:
    methods = [method for method in METHODS if any(method in of for of in cases.values())]
    lines = []
    for (suite, name, setting), of in cases.items():
        first, best = of[OURS], min(row["us"] for row in of.values())
        times = [cell(of[method]["us"], best) if method in of else "" for method in methods]
        plans = [f"{of[method]['plan_us']:.0f}" if method in of else "-" for method in methods]
        lines.append([suite, name, setting, str(first["requests"]), f"{first['floor_us']:.1f}", *times])
        lines[-1].append(" / ".join(plans))
    header = ["suite", "case", "heads", "requests", "floor", *methods, "planning, in the order of the columns"]
    return table(header, lines)


def cell(us: float, best: float) -> str:
    return f"**{us:.1f}**" if us == best else f"{us:.1f}"


def section(rows: list[dict]) -> str:
    first, cases = rows[0], timed_cases(rows)
    versions = ", ".join(sorted({row["peer_version"] for row in rows if row["method"] != OURS}))
    commits = ", ".join(sorted({row["commit"][:12] for row in rows}))
    commands = ", ".join(sorted({f"`{row['command']}`" for row in rows}))
    facts = (
        f"Driver {first['driver']}, CUDA {first['cuda']}, torch {first['torch']}; {versions or 'no other package'}; "
        f"Trunkline {first['version']}, commit {commits}; {commands}."
    )
    text = f"\n## {first['device']}\n\n{textwrap.fill(facts, 118)}\n\n"
    if cases:
        text += f"{summary(cases)}\n{losses(cases)}\n"
    else:
        text += "No row has a time.\n\n"
    text += left_out(rows)
    if cases:
        text += f"\nMicroseconds a layer, the least in bold:\n\n{each_case(cases)}"
    return text


def page(files: dict[str, list[dict]]) -> str:
    listed = "".join(f"- `{method}`: {words}\n" for method, words in METHODS.items())
    text = f"{INTRODUCTION}\n{listed}{HOW}"
    if not files:
        return f"{text}\nNo rows yet: nothing of this was measured.\n"
    return text + "".join(section(rows) for rows in files.values())


def main() -> None:
    pages.write_or_check(PAGE, page(load()), "peers_report.py")


if __name__ == "__main__":
    main()
