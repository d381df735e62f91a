"""Rows of the results: medians, intervals, ratios to `trunk`, and where they were measured."""

from __future__ import annotations

import math
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import torch
import transformers

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(BENCH), str(BENCH / "vllm"), str(BENCH / "python")]
import provenance  # noqa: E402
import source_trees  # noqa: E402
from pairing import ratio_of_pairs  # noqa: E402

OURS = "trunk"
#: What the rows of a CPU depend on.
TREES = {
    "cpu_tree": source_trees.Part("CPU executor", ("src/exec/cpu",)),
    "plan_tree": source_trees.TREES["plan_tree"],
    "runtime_tree": source_trees.Part("runtime", ("src/runtime", "src/kv", "src/live", "src/forest")),
    "python_tree": source_trees.Part("Python package", ("python/trunkline",)),
    "bench_tree": source_trees.Part("this harness", ("bench/runtime",)),
}
_PARTS = ("attention", "gather", "plan", "write")


def median_with_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and its 95 % interval of order statistics, which few values widen to their range."""
    ordered = sorted(values)
    count = len(ordered)
    below = 0.0
    low = 0
    while low < count // 2:
        below += math.comb(count, low) / 2.0**count
        if below > 0.025:
            break
        low += 1
    low = max(low - 1, 0)
    return statistics.median(ordered), ordered[low], ordered[count - 1 - low]


def where(model: Any, given: Any) -> dict:
    """Commit, hashes of sources, machine and versions."""
    device = torch.device(model.device)
    commit = _git("rev-parse", "HEAD")
    dirty = bool(_git("status", "--porcelain", "--untracked-files=no"))
    trees = source_trees.trees_of("HEAD", TREES) if commit else {}
    found = provenance.provenance(device, "bench/runtime/run.py")
    return {
        "model": given.model,
        "layers": model.num_layers,
        "heads": f"{model.num_qo_heads}/{model.num_kv_heads}",
        "head_dim": model.head_dim,
        "dtype": given.dtype,
        **found,
        "clock": "thread CPU time" if device.type == "cpu" and given.threads == 1 else found["clock"],
        "transformers": transformers.__version__,
        "threads": given.threads,
        "load": round(os.getloadavg()[0], 1),
        "commit": (commit or "unknown") + ("-dirty" if commit and dirty else ""),
        **trees,
    }


def step_rows(stepped: Any, samples: list[tuple[int, int, dict, dict]], fields: dict) -> list[dict]:
    """A row a method. samples: of each timed step, its index, rows, kv bytes by method, and milliseconds by method and
    part."""
    rows = []
    for method in stepped.methods:
        times = [sample[3][method.name] for sample in samples]
        row = dict(fields) | {"method": method.name, "steps_timed": len(times)}
        for part in ("whole", *_PARTS):
            values = [time.get(part, 0.0) for time in times]
            if any(values):
                middle, low, high = median_with_interval(values)
                row |= {f"{part}_ms": round(middle, 3), f"{part}_ms_lo": round(low, 3), f"{part}_ms_hi": round(high, 3)}
        row["whole_mean_ms"] = round(statistics.fmean(time["whole"] for time in times), 3)
        row["attention_mean_ms"] = round(statistics.fmean(time["attention"] for time in times), 3)
        row["attention_share"] = round(row["attention_mean_ms"] / row["whole_mean_ms"], 3)
        row["kv_bytes"] = max(sample[2][method.name] for sample in samples)
        row["max_err"] = stepped.errors[method.name]
        if method.name != OURS and any(other.name == OURS for other in stepped.methods):
            ours = [sample[3][OURS] for sample in samples]
            for part in ("attention", "whole"):
                ratio = ratio_of_pairs([time[part] for time in times], [time[part] for time in ours])
                row[f"{part}_over_trunk"] = {
                    name: round(value, 3) for name, value in ratio.items() if value is not None
                }
        row["by_step"] = [
            [sample[0], sample[1], round(time["attention"], 3), round(time["whole"], 3)]
            for sample, time in zip(samples, times)
        ]
        rows.append(row)
    return rows


def _git(*words: str) -> str:
    try:
        run = subprocess.run(["git", *words], cwd=source_trees.ROOT, check=True, capture_output=True, text=True)
        return run.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
