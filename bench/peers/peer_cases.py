"""Cases of the comparison: the trees of some of bench/gpu's suites, at shapes that models have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from shared_batches import ROOT, Batch, pages_of, tree_of

TREES = {
    "flat": "unshared_batches",
    "pat": "pat_kernel_trees",
    "fasttree": "fasttree_kernel_trees",
    "small": "small_batches",
    "rows": "row_counts",
}
# The suites that run at all settings unless others are named.
USUAL = ("flat", "pat", "fasttree")
# Cases that `--check` takes: nothing shared, one shared node, two levels of them in pages of 8.
CHECKED = ("8x4096", "1,10/4096,416", "1,2,64/8,256,32")


class Setting(NamedTuple):
    q_heads: int
    kv_heads: int
    head_dim: int
    page_size: int

    @property
    def heads(self) -> str:
        return f"{self.q_heads}/{self.kv_heads}"


# The first is what most rows of the project have; a run that ends early leaves out the last.
SETTINGS = (
    Setting(32, 8, 128, 16),
    Setting(64, 8, 128, 16),
    Setting(16, 2, 256, 16),
    Setting(32, 8, 64, 16),
    Setting(24, 4, 128, 16),
    Setting(32, 8, 128, 1),
)


class Level(NamedTuple):
    """A cascade's level. Query i's part of it is begins[i] to begins[i + 1]: of a run of queries that share pages."""

    query_begins: list[int]
    page_begins: list[int]
    pages: list[int]
    last_page_tokens: list[int]


@dataclass(frozen=True)
class PeerCase:
    """A tree at a setting. Pages are no longer than the tree's shortest node, as in bench/gpu."""

    suite: str
    name: str
    notation: str
    setting: Setting

    @property
    def level_tokens(self) -> list[int]:
        return [int(tokens) for tokens in self.notation.split("/")[1].split(",")]

    @property
    def page_size(self) -> int:
        return min(self.setting.page_size, *self.level_tokens)

    def batch(self) -> Batch:
        return pages_of(*tree_of(self.notation), self.page_size, self.name, shuffled=False)

    def levels(self, batch: Batch) -> list[Level] | None:
        """None where a level begins inside a page, which a cascade of page tables cannot express."""
        nodes, requests = tree_of(self.notation)
        paths = [path_to(nodes, node) for node in requests]
        found, begin = [], 0
        for depth, tokens in enumerate(self.level_tokens):
            if begin % self.page_size:
                return None
            found.append(level_of([path[depth] for path in paths], batch, begin, tokens, self.page_size))
            begin += tokens
        return found


def path_to(nodes: list[list[int]], node: int) -> list[int]:
    path = [node]
    while nodes[path[-1]][0] >= 0:
        path.append(nodes[path[-1]][0])
    return path[::-1]


def level_of(nodes: list[int], batch: Batch, begin: int, tokens: int, page_size: int) -> Level:
    """nodes: each request's, equal ones side by side."""
    first, end = begin // page_size, -(-(begin + tokens) // page_size)
    level = Level([0], [0], [], [])
    for row, node in enumerate(nodes):
        if row == 0 or nodes[row - 1] != node:
            level.pages.extend(batch.rows[row][first:end])
            level.page_begins.append(len(level.pages))
            level.last_page_tokens.append((tokens - 1) % page_size + 1)
            level.query_begins.append(row)
        level.query_begins[-1] = row + 1
    return level


def trees(suite: str) -> list[tuple[str, str]]:
    """Names, as bench/gpu has them, and notations."""
    listed = json.loads((ROOT / f"data/synthetic/{TREES[suite]}.json").read_text())["trees"]
    notations = ["/".join(",".join(map(str, tree[part])) for part in ("nodes", "lens")) for tree in listed]
    return [(notation.replace("/", "x") if suite == "flat" else notation, notation) for notation in notations]


def peer_cases(suites: Iterable[str], settings: Iterable[Setting], names: Iterable[str] = ()) -> Iterator[PeerCase]:
    """names: all cases where there are none."""
    wanted = set(names)
    for setting in settings:
        for suite in suites:
            for name, notation in trees(suite):
                if not wanted or name in wanted:
                    yield PeerCase(suite, name, notation, setting)
