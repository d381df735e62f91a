#!/usr/bin/env python3
"""Prints which committed rows are older than the sources that they measured, file by file.

python3 bench/stale.py    # in a git checkout; rows that name no source hashes are listed with their commit alone
"""

import json
import pathlib
import subprocess
import sys

from source_trees import PYTHON_TREES, ROOT, Part, commits_since, trees_of

RESULTS = ROOT / "bench/results"


def changed(row: dict, present: dict[str, str], parts: dict[str, Part] = PYTHON_TREES) -> tuple[str, ...] | None:
    """Titles of parts that are not as the row's; None where the row names no hashes."""
    named = [name for name in parts if name in row]
    return tuple(parts[name].title for name in named if row[name] != present[name]) if named else None


def lines_of(path: pathlib.Path, present: dict[str, str]) -> list[str]:
    groups: dict[tuple, int] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        key = row.get("commit", row.get("version", "unknown"))[:12], row.get("kernels", ""), changed(row, present)
        groups[key] = groups.get(key, 0) + 1
    found = []
    for (commit, kernels, parts), count in groups.items():
        age = commits_since(commit)
        since = "no git commit" if age is None else f"{age} commits ago"
        state = "no hashes" if parts is None else f"changed: {', '.join(parts)}" if parts else "current"
        found.append(f"{path.relative_to(RESULTS)}: {count} rows{f', {kernels}' * bool(kernels)}, {since}; {state}")
    return found


def main() -> None:
    try:
        present = trees_of("HEAD", PYTHON_TREES)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("stale.py: no git checkout")
    for path in sorted(RESULTS.rglob("*.jsonl")):
        print("\n".join(lines_of(path, present)))


if __name__ == "__main__":
    main()
