"""A step of a sequence tree as methods are given it, and which tokens each of its queries sees."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import trunkline


class Step(NamedTuple):
    """given: the tree's TreeStep. parents: of each row's drafts, as SequenceTree.draft has them; none: rows without."""

    tree: trunkline.SequenceTree
    given: Any
    cache: Any
    parents: dict[int, list[int]]

    @property
    def num_slots(self) -> int:
        return self.tree.num_pages * self.tree.page_size

    @property
    def token_bytes(self) -> int:
        """Bytes of K and V of a token in all layers."""
        return sum(part.shape[2] * part.shape[3] * part.element_size() for pair in self.cache.layers for part in pair)

    @property
    def paged_bytes(self) -> int:
        """Bytes of the pages in use."""
        return self.tree.pages_in_use * self.tree.page_size * self.token_bytes


def visible_slots(step: Step) -> list[np.ndarray]:
    """The slots that each query attends to, those of its own and its ancestors; [T], in the order of tokens."""
    found = []
    for row, node in enumerate(step.given.nodes):
        begin, end = step.given.query_start[row : row + 2]
        written = step.given.slot_mapping[begin:end]
        parents = step.parents.get(row, [])
        plain = len(written) - len(parents)  # query tokens before the drafts
        slots = step.tree.slots(node)
        known = slots[: step.tree.info(node).end]
        for query in range(plain):
            found.append(known[: len(known) - plain + query + 1])
        for draft in range(len(parents)):
            path = []
            above = draft
            while above >= 0:
                path.append(written[plain + above])
                above = parents[above]
            found.append(np.concatenate([known, np.array(path[::-1], np.int64)]))
    return found
