#!/usr/bin/env python3
"""Cuts data/demo.jsonl from data/decode_batches: a few real batches that fit a small machine's memory.

Usage: scripts/make_demo_data.py [--check]

With --check nothing is written; the exit code says whether data/demo.jsonl is what the script makes.
"""

import json
import pathlib
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"

# (file, line counted from 1, requests to keep or None for all). At 32/8 heads of 128 in f16 a token takes 4 KiB, so
# 200,000 distinct tokens are 0.8 GB.
CHOICE = [
    ("reasoning_sorting128", 6, None),
    ("reasoning_docmerge", 4, None),
    ("reasoning_keyword", 2, None),
    ("reasoning_set128", 4, None),
    ("toolagent_pat_style", 1, None),
    ("toolagent_pat_style", 8, None),
    ("mooncake_conversation", 6, 16),
    ("mooncake_toolagent_window", 1, 20),
]


def keep_requests(batch, count):
    """The first `count` requests and the nodes on their paths, renumbered in the same order."""
    requests = batch["requests"][:count]
    used = set()
    for node in requests:
        while node >= 0 and node not in used:
            used.add(node)
            node = batch["nodes"][node][0]
    number = {old: new for new, old in enumerate(sorted(used))}
    number[-1] = -1
    nodes = [[number[batch["nodes"][old][0]], batch["nodes"][old][1]] for old in sorted(used)]
    return {**batch, "nodes": nodes, "requests": [number[node] for node in requests]}


def demo_line(name, line, count):
    batch = json.loads((DATA / "decode_batches" / f"{name}.jsonl").read_text().splitlines()[line - 1])
    batch["source"] += ", PAT style" if batch.get("style") == "pat_artifact" else ""
    if count is not None:
        batch = keep_requests(batch, count)
        batch["source"] += f", cut to {count} requests"
    return json.dumps(batch, separators=(",", ":"))


def main():
    text = "".join(demo_line(*choice) + "\n" for choice in CHOICE)
    path = DATA / "demo.jsonl"
    if "--check" in sys.argv[1:]:
        sys.exit(0 if path.read_text() == text else f"{path} is not what {sys.argv[0]} makes")
    path.write_text(text)


if __name__ == "__main__":
    main()
