#!/usr/bin/env python3
"""Joins what Nsight Compute counted with the plans that ran; prints one JSON object a kernel.

gpu_counters.py ROWS CSV: the standard output of `gpu_bench --once` (and ncu's), and ncu's raw page of the same process.
"""

import csv
import json
import pathlib
import sys

SECTOR_BYTES = 32
PLAN = (
    "suite", "case", "heads", "dtype", "page_size", "method", "policy", "chosen", "kv_bytes_distinct", "kv_bytes_read",
    "qo_bytes", "partial_bytes", "device", "commit",
)  # fmt: skip


def number(text: str) -> int:
    return round(float(text.replace(",", "")))


def read_kernels(text: str) -> list[dict]:
    """Kernels in the order of their launch, from ncu's raw page: a line of units follows that of names."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    units, *rows = csv.DictReader(lines)
    for metric, unit in (("dram__bytes_read.sum", "byte"), ("lts__t_sectors_srcunit_tex.sum", "sector")):
        if units.get(metric) != unit:
            raise SystemExit(f"gpu_counters: {metric} is in {units.get(metric)!r}; {unit!r} is needed")
    return [
        {
            "kernel": row["Kernel Name"],
            "dram_read_bytes": number(row["dram__bytes_read.sum"]),
            "dram_write_bytes": number(row["dram__bytes_write.sum"]),
            "l2_bytes": number(row["lts__t_bytes.sum"]),
            "l2_sm_bytes": number(row["lts__t_sectors_srcunit_tex.sum"]) * SECTOR_BYTES,
        }
        for row in rows
    ]


def split_runs(kernels: list[dict]) -> list[list[dict]]:
    """In mode `persistent` a run is one forward kernel, and what merges after it."""
    runs = []
    for kernel in kernels:
        if "forward" in kernel["kernel"]:
            runs.append([])
        if not runs:
            raise SystemExit(f"gpu_counters: {kernel['kernel']} comes before any forward kernel")
        runs[-1].append(kernel)
    return runs


def ran_on(row: dict) -> dict:
    return {"kernels": row["kernels"]} if "kernels" in row else {}


def join(rows: list[dict], kernels: list[dict]) -> list[dict]:
    runs = split_runs(kernels)
    if len(runs) != len(rows):
        raise SystemExit(f"gpu_counters: {len(rows)} runs, but {len(runs)} forward kernels were counted")
    return [
        {**{name: row[name] for name in PLAN}, **ran_on(row), **kernel}
        for row, run in zip(rows, runs, strict=True)
        for kernel in run
    ]


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    output, counted = (pathlib.Path(path).read_text() for path in sys.argv[1:])
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    for row in join(rows, read_kernels(counted)):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
