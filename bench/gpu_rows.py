"""The rows of GPU runs, bench/results/h200, and how they are grouped."""

import json

from gpu_floors import with_profile_floor
from source_trees import ROOT

RESULTS = ROOT / "bench/results/h200"
# Suites whose cases stand one by one on the page.
SUITES = {
    "pat": "PAT's 20 trees, page 32",
    "fasttree": "FastTree's 15 trees, pages of 16 or 8",
    "codec": "CoDec's five families, page 16",
    "trees": "token trees of t drafts on p tokens, b requests, page 16",
    "flat": "nothing shared, pages of 16 and 32",
    "batches": "two decode batches of each recorded file, page 16",
    "small": "2 to 8 requests of 16 to 2,064 tokens, page 16",
    "rows": "96 to 288 rows on trunks of 4K to 128K tokens, page 16",
}
# Files whose rows are compared with each other.
COMPARISONS = (
    "ragged", "growth", "policies", "ablation", "merge", "equivalence", "pages", "bf16", "counters",
)  # fmt: skip


# Rows that name no kernels are of the portable ones.
KERNELS = {
    "portable": "the portable kernels (`mma.sync`, compute capability 8.0 and later)",
    "hopper": "Hopper's kernels (`wgmma`, compute capability 9.0)",
}


def load(name: str) -> list[dict]:
    path = RESULTS / f"{name}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [with_profile_floor(json.loads(line)) for line in lines]


def same_case(row: dict) -> tuple:
    """The key of a case and the kernels that compute it, whatever the method and the element type."""
    return row["case"], row["heads"], row["page_size"], kernels(row)


def ran_single_query(row: dict) -> bool:
    """Whether the kernel of a single query ran, which has no plan. Rows of before named it otherwise."""
    return bool(row.get("single_query") or row.get("lone"))


def what_ran(row: dict) -> str:
    """The plan's policy, or what ran instead: one request of one query token has a kernel that knows no plans."""
    return "single query" if ran_single_query(row) else row["chosen"]


def kernels(row: dict) -> str:
    return row.get("kernels", "portable")


def by(rows: list[dict], key) -> dict:
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def method(row: dict) -> str:
    return row.get("method") or f"{row['mode']}, {row['policy']}, tile {row['tile']}"


def recorded(row: dict, kernel: str | None = None) -> float | None:
    """A published kernel's recorded time, or the least of all."""
    times = row.get("recorded_us", {})
    return times.get(kernel) if kernel else min(times.values(), default=None)
