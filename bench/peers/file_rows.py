#!/usr/bin/env python3
"""Files the rows of compare_peers.py under bench/results/peers, by the kind of GPU, with hashes of the sources.

    python3 bench/peers/file_rows.py OUT/peers.jsonl     # where git knows the commit that the wheel was built from
    python3 bench/peers_report.py

Rows replace those of the same case and method; what was not run stays as it is.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import gpu_collect  # noqa: E402
import source_trees  # noqa: E402

RESULTS = source_trees.ROOT / "bench/results/peers"
KEY = ("suite", "case", "heads", "head_dim", "dtype", "page_size", "method")


def key_of(row: dict) -> tuple:
    return tuple(row[name] for name in KEY)


def checked_rows(path: pathlib.Path) -> list[dict]:
    """The rows of a run; SystemExit where they must not be kept."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for name in ("commit", "device"):
        if len(found := {row[name] for row in rows}) != 1:
            raise SystemExit(f"{path.name}: rows of {len(found)} values of {name}; rows are kept of one")
    commit = rows[0]["commit"]
    if commit == "unknown" or commit.endswith("-dirty"):
        raise SystemExit(f"{path.name}: made by {commit}; rows are kept of a commit only")
    ours = [row for row in rows if row["method"] == "trunkline" and not row.get("passed")]
    if ours:
        raise SystemExit(f"{path.name}: {ours[0]['case']} at {ours[0]['heads']}: Trunkline is wrong or refuses it")
    return rows


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    path = pathlib.Path(sys.argv[1])
    rows = checked_rows(path)
    trees = source_trees.trees_of(rows[0]["commit"], source_trees.PYTHON_TREES)
    filed = RESULTS / f"{gpu_collect.results_of(rows[0]['device']).name}.jsonl"
    before = [json.loads(line) for line in filed.read_text().splitlines()] if filed.exists() else []
    kept = {key_of(row): row for row in [*before, *(row | trees for row in rows)]}
    filed.parent.mkdir(parents=True, exist_ok=True)
    filed.write_text("".join(json.dumps(row) + "\n" for row in kept.values()))
    print(f"{filed}: {len(kept)} rows, {len(rows)} of this run")


if __name__ == "__main__":
    main()
