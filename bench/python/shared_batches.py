"""Decode batches of bench/suites.json as page tables: those of data/ and trees in the program's notation."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclass
class Batch:
    case: str
    rows: list[list[int]]  # each request's pages
    kv_lens: np.ndarray  # int32 [B]
    num_pages: int

    @property
    def table(self) -> np.ndarray:
        """int32 [B, W]"""
        table = np.zeros((len(self.rows), max(map(len, self.rows))), np.int32)
        for row, pages in enumerate(self.rows):
            table[row, : len(pages)] = pages
        return table


def pages_of(nodes: list[list[int]], requests: list[int], page_size: int, case: str, *, shuffled: bool = True) -> Batch:
    """nodes: [parent or -1, tokens]; requests: the node each ends in. A page is shared by requests that have the same
    tokens up to its end, so a page in which paths part has a copy for each of them. Ids are shuffled, or in the order
    of requests and their tokens."""
    ids: dict[tuple[int, int], int] = {}
    rows, kv_lens = [], []
    for end_node in requests:
        path, node = [], end_node
        while node >= 0:
            path.append(node)
            node = nodes[node][0]
        ends, kv_len = [], 0
        for node in reversed(path):
            kv_len += nodes[node][1]
            ends.append((kv_len, node))
        row, at = [], 0
        for index in range(-(-kv_len // page_size)):
            last = min((index + 1) * page_size, kv_len) - 1
            while ends[at][0] <= last:
                at += 1
            row.append(ids.setdefault((index, ends[at][1]), len(ids)))  # the path to a node is its prefix
        rows.append(row)
        kv_lens.append(kv_len)
    order = np.random.default_rng(1).permutation(len(ids)) if shuffled else np.arange(len(ids))
    return Batch(case, [order[row].tolist() for row in rows], np.array(kv_lens, np.int32), len(ids))


def tree_of(notation: str) -> tuple[list[list[int]], list[int]]:
    """`NODES/LENS` of `trunkline run --tree`: nodes of each level, and tokens of each of its nodes."""
    counts, lengths = ([int(word) for word in part.split(",")] for part in notation.split("/"))
    nodes, before = [], 0
    for level, (count, tokens) in enumerate(zip(counts, lengths)):
        above = counts[level - 1] if level else 0
        first = len(nodes)
        nodes += [[before + child * above // count if level else -1, tokens] for child in range(count)]
        before = first
    return nodes, list(range(before, len(nodes)))


def batches(suite: str, limit: int, page_size: int = 16, *, as_recorded: bool = False) -> Iterator[Batch]:
    """The batches of a suite: the suite's trees, and the first `limit` batches of each file; numbered from 1.

    as_recorded: as bench/recorded has them, node lengths rounded up to whole pages and pages consecutive."""
    given = json.loads((ROOT / "bench/suites.json").read_text())[suite]

    def paged(nodes: list[list[int]], requests: list[int], case: str) -> Batch:
        if as_recorded and case not in given.get("trees", []):
            nodes = [[parent, -(-tokens // page_size) * page_size] for parent, tokens in nodes]
        return pages_of(nodes, requests, page_size, case, shuffled=not as_recorded)

    for notation in given.get("trees", []):
        yield paged(*tree_of(notation), notation)
    for name in given.get("inputs", []):
        path = ROOT / name
        for number, line in enumerate(path.read_text().splitlines()[:limit], 1):
            batch = json.loads(line)
            yield paged(batch["nodes"], batch["requests"], f"{path.stem}:{number}")


def recorded_times(case: str, heads: str, dtype: str, page_size: int, kernels: str) -> dict[str, float]:
    """Microseconds of published kernels whose names begin with `kernels`, of bench/recorded, for a case of
    batches(.., as_recorded=True)."""
    if ":" in case:
        stem, number = case.split(":")
        of = ("batches", f"{stem}#{int(number) - 1}", heads, dtype, page_size)
    else:
        of = ("flat", case.replace("/", "x"), heads, dtype, page_size)
    rows = json.loads((ROOT / "bench/recorded/h200.json").read_text())["rows"]
    return {
        row["kernel"]: row["us"]
        for row in rows
        if (row["suite"], row["case"], row["heads"], row["dtype"], row["page_size"]) == of
        and row["kernel"].startswith(kernels)
    }
