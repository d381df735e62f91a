"""The rows of GPU runs, bench/results/h200: reading them, and whether their sources are still these."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results/h200"
TREES = {"cuda_tree": "src/exec/cuda", "plan_tree": "src/plan", "machine_tree": "data/machines"}
# Suites whose cases stand one by one on the page.
SUITES = {
    "pat": "PAT's 20 trees, page 32",
    "fasttree": "FastTree's 15 trees, pages of 16 or 8",
    "codec": "CoDec's five families, page 16",
    "trees": "token trees of t drafts on p tokens, b requests, page 16",
    "flat": "nothing shared, pages of 16 and 32",
    "batches": "two decode batches of each recorded file, page 16",
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
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def same_case(row: dict) -> tuple:
    """What is computed and by which kernels, whatever the method and the element type."""
    return row["case"], row["heads"], row["page_size"], kernels(row)


def what_ran(row: dict) -> str:
    """The plan's policy, or what ran instead: one request of one query token has a kernel that knows no plans."""
    return "lone query" if row.get("lone") else row["chosen"]


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


def present_trees() -> dict[str, str] | None:
    """Of this checkout; nothing outside git."""
    names = [f"HEAD:{folder}" for folder in TREES.values()]
    try:
        done = subprocess.run(["git", "rev-parse", *names], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return dict(zip(TREES, done.stdout.split(), strict=True))


def changed_sources(rows: list[dict], present: dict[str, str]) -> list[str]:
    """Folders that are not as they were when the rows were measured."""
    return [folder for tree, folder in TREES.items() if any(row[tree] != present[tree] for row in rows)]
