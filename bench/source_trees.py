"""Hashes of the sources that a GPU result depends on, each part apart: a change of one does not age rows of others."""

import functools
import hashlib
import pathlib
import subprocess
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Part(NamedTuple):
    """Folders of the repository, less some of their own."""

    title: str
    folders: tuple[str, ...]
    without: tuple[str, ...] = ()


DEVICE_PLANNER = ("src/exec/cuda/device_planner", "src/plan/device")
TREES = {
    "kernels_tree": Part("kernels", ("src/exec/cuda",), DEVICE_PLANNER),
    "planner_tree": Part("device planner", DEVICE_PLANNER),
    "plan_tree": Part("host planner", ("src/plan",), DEVICE_PLANNER),
    "machine_tree": Part("machine profiles", ("data/machines",)),
}
# Of rows that were measured through the Python package.
PYTHON_TREES = TREES | {"python_tree": Part("Python package", ("python/trunkline",))}


def part_hash(commit: str, part: Part) -> str:
    """SHA-1 of `git ls-tree -r` over the part's files. Raises CalledProcessError where git does not know the commit."""
    words = ["git", "ls-tree", "-r", commit, "--", *part.folders]
    listed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = tuple(f"{folder}/" for folder in part.without)
    kept = [line for line in listed.splitlines() if not line.split("\t", 1)[1].startswith(names)]
    return hashlib.sha1("\n".join(kept).encode()).hexdigest()


def trees_of(commit: str, parts: dict[str, Part] = TREES) -> dict[str, str]:
    return {name: part_hash(commit, part) for name, part in parts.items()}


def present_trees() -> dict[str, str] | None:
    """The hashes of this checkout's HEAD; None outside git."""
    try:
        return trees_of("HEAD")
    except (OSError, subprocess.CalledProcessError):
        return None


@functools.cache
def commits_since(commit: str) -> int | None:
    """How many commits HEAD is ahead of this one; None where git does not know it."""
    words = ["git", "rev-list", "--count", f"{commit}..HEAD"]
    try:
        return int(subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    except (OSError, subprocess.CalledProcessError):
        return None


def changed_parts(rows: list[dict], present: dict[str, str]) -> list[str]:
    """Titles of the parts that are not as they were when the rows were measured."""
    return [part.title for name, part in TREES.items() if any(row[name] != present[name] for row in rows)]
