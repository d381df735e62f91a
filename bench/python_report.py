#!/usr/bin/env python3
"""Writes bench/results/python/README.md from the rows beside it.

python3 bench/python_report.py           # writes the page
python3 bench/python_report.py --check   # fails when it is not what the rows say
"""

import json
import pathlib

import pages
import python_gpu_tables
from report import geometric_mean, milliseconds, table

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results/python"
PAGE = RESULTS / "README.md"
OTHERS = {  # what is compared with auto's time
    "flat_us": "our `flat`",
    "sdpa_us": "SDPA a request",
    "sdpa_padded_us": "SDPA padded",
    "gather_us": "gathering alone",
}


def load(name: str) -> list[dict]:
    """Rows of a file; none where there is no such file."""
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def span(values: list) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def ratios(rows: list[dict], name: str) -> list[float]:
    return [row[name] / row["us"] for row in rows if name in row]


def summary(rows: list[dict]) -> str:
    lines = []
    for suite in dict.fromkeys(row["suite"] for row in rows):
        for dtype in dict.fromkeys(row["dtype"] for row in rows):
            of = [row for row in rows if (row["suite"], row["dtype"]) == (suite, dtype)]
            line = [suite, dtype, str(len(of))]
            for name in OTHERS:
                found = ratios(of, name)
                line.append(f"{geometric_mean(found):.2f} ({min(found):.2f} to {max(found):.2f})" if found else "-")
            lines.append(line)
    return table(["suite", "dtype", "cases", *(f"{name} / auto" for name in OTHERS.values())], lines)


def losses(rows: list[dict]) -> str:
    """Where one of torch's calls is faster than auto."""
    behind = []
    for row in rows:
        fastest = min(row[name] for name in ("sdpa_us", "sdpa_padded_us") if name in row)
        if fastest < row["us"]:
            behind.append(f"{row['case']} in {row['dtype']} ({fastest / row['us']:.2f}x)")
    if not behind:
        return (
            f"`auto` is faster than both forms of SDPA in all {len(rows)} rows, keys and values gathered beforehand.\n"
        )
    return f"SDPA is faster than `auto` in {len(behind)} of {len(rows)} rows: {', '.join(behind)}.\n"


def cases(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        lines.append(
            [
                row["case"],
                row["dtype"],
                str(row["requests"]),
                f"{row['kv_tokens_total']:,}",
                f"{row['kv_tokens_distinct']:,}",
                row["chosen"],
                milliseconds(row["us"]),
                *(milliseconds(row[name]) if name in row else "-" for name in OTHERS),
                f"{row['plan_us']:.0f}",
                f"{max(row['max_err'], 1e-9):.0e}",
                f"{max(row['sdpa_max_err'], 1e-9):.0e}",
            ]
        )
    header = ["case", "dtype", "requests", "tokens, one at a time", "distinct", "chose", "auto, ms"]
    header += [*(f"{name}, ms" for name in OTHERS.values()), "plan, us", "error", "SDPA's"]
    return table(header, lines)


def calls(rows: list[dict]) -> str:
    lines = [
        [
            row["case"],
            row["tensors"],
            str(row["requests"]),
            *(f"{row[name] / 1e3:.2f}" for name in ("c_ns", "ns", "added_ns")),
        ]
        for row in rows
    ]
    return table(["call", "tensors", "requests", "C, us", "Python, us", "added, us"], lines)


def versions(rows: list[dict]) -> str:
    return ", ".join(sorted({row["version"] for row in rows}))


def page() -> str:
    compared, called = load("sdpa"), load("calls")
    first = compared[0]
    threads, repeats, loads = (span([row[name] for row in compared]) for name in ("threads", "repeat", "load"))
    text = [
        "# Results from Python\n",
        f"{first['device']}, {first['cores']} cores shared with others (load {loads}), {threads} thread for all, "
        f"{first['isa']} kernels; medians. Times are CPU times of that thread, which leave out what others took; "
        f"memory and caches were shared. torch {first['torch']}. This page is written by `bench/python_report.py` from "
        "the rows beside it; [commands](../../README.md).\n",
        "## Against torch's scaled_dot_product_attention\n",
        f"Heads {first['heads']} of {first['head_dim']}, pages of {first['page_size']}, shuffled; methods in turn, "
        f"each after a sweep through 128 MB; medians of {repeats}; version {versions(compared)}. Outputs of four "
        "requests of each row were compared with attention in fp64. Ours read the paged cache. SDPA reads keys and "
        "values gathered from it beforehand, in one call a request, or in one call for the batch, padded to the "
        "longest request, with a mask; gathering, which a paged engine would pay in each layer of each step, has a "
        "column of its own. SDPA gets the query heads of a KV head as query tokens of one head, not by "
        "`enable_gqa=True`.\n",
        "Times as multiples of `auto`'s, geometric means, and their range:\n",
        summary(compared),
        losses(compared),
        "Where nothing is shared `auto` and `flat` run the same plan. `plan` is once a step, after a sweep too; all "
        "else is once a layer.\n",
        cases(compared),
        "## What Python adds to a call\n",
        "One KV head of 64, one page shared by all requests, one thread: `run` and `plan` beside C loops of the same "
        f"calls, in turn; medians; load {span([row['load'] for row in called])}; version {versions(called)}. The aims, "
        "with torch's tensors: `run` at most 4 us over the C call with outputs given, `plan` at most 10. The custom "
        "operator's row has torch's own dispatch.\n",
        calls(called),
        *python_gpu_tables.section(load("h200")),
    ]
    return "\n".join(text)


def main() -> None:
    pages.write_or_check(PAGE, page(), "python_report.py")


if __name__ == "__main__":
    main()
