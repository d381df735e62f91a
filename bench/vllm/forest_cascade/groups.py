"""One level of groups of requests that share a prefix of pages, found in a page table on the host."""

from __future__ import annotations

import dataclasses

import numpy as np

from .limits import Limits


@dataclasses.dataclass(frozen=True)
class Group:
    """Rows of a batch, in ascending order, which have the same first `pages` pages."""

    rows: tuple[int, ...]
    pages: int

    def saved_pages(self) -> int:
        return (len(self.rows) - 1) * self.pages


@dataclasses.dataclass
class _Node:
    """The rows that share `depth` pages, and no page more. rows: those below no deeper node, which are children."""

    depth: int
    rows: list[int] = dataclasses.field(default_factory=list)
    children: list[_Node] = dataclasses.field(default_factory=list)
    values: np.ndarray | None = None  # by the depth of an enclosing group: of the ancestors, this node's last


def shareable_pages(table: np.ndarray, lengths: np.ndarray, page_size: int) -> np.ndarray:
    """Counts the first pages of each row that may be in a prefix: full ones before the last token, which stays in the
    suffix, and before page 0, which vLLM allocates to nobody. table [rows, columns], lengths [rows]: tokens."""
    columns = table.shape[1]
    full = np.clip((lengths.astype(np.int64) - 1) // page_size, 0, columns)
    empty = table == 0
    first_empty = np.where(empty.any(axis=1), empty.argmax(axis=1), columns) if columns else full
    return np.minimum(full, first_empty)


def find_groups(
    table: np.ndarray, pages: np.ndarray, min_prefix_pages: int = 1, min_group_size: int = 2
) -> list[Group]:
    """Finds the groups that save the maximum of pages, each row being in one group or in none, by their first rows.

    table [rows, columns] int32; pages [rows]: how many columns of a row count. A group saves its pages once for each
    row but one.
    """
    rows = len(table)
    if rows < 2:
        return []
    order = sorted(range(rows), key=lambda row: table[row, : pages[row]].tobytes())
    root = _tree(order, _common_pages(table, pages, order))
    found: list[Group] = []
    _evaluate(root)
    _collect(root, found)
    kept = [g for g in found if g.pages >= max(min_prefix_pages, 1) and len(g.rows) >= max(min_group_size, 2)]
    return sorted(kept, key=lambda group: group.rows[0])


def paying(groups: list[Group], rows: int, page_bytes: int, limits: Limits) -> bool:
    """Whether a step of so many rows is run in these groups. page_bytes: keys and values of a page in a layer."""
    grouped = sum(len(group.rows) for group in groups)
    saved = sum(group.saved_pages() for group in groups) * page_bytes
    return (
        rows >= limits.min_requests
        and 0 < len(groups) <= limits.max_groups
        and grouped >= limits.min_grouped_fraction * rows
        and saved >= limits.min_saved_bytes
    )


def _common_pages(table: np.ndarray, pages: np.ndarray, order: list[int]) -> list[int]:
    """Counts the pages that each row in order, but the first, shares with the row before."""
    columns = int(pages.max(initial=0))
    ordered = table[order, :columns]
    differ = ordered[1:] != ordered[:-1]
    first = np.where(differ.any(axis=1), differ.argmax(axis=1), columns) if columns else np.zeros(len(order) - 1, int)
    counted = pages[order]
    return np.minimum(first, np.minimum(counted[1:], counted[:-1])).tolist()


def _tree(order: list[int], common: list[int]) -> _Node:
    """The prefix tree of ordered rows. common: of each row but the first, the pages shared with the row before."""
    root = _Node(0)
    path = [root]
    before = [0, *common]
    behind = [*common, 0]
    for i, row in enumerate(order):
        # The path's last node has the depth that this row shares with the row before.
        depth = max(before[i], behind[i])
        if depth > path[-1].depth:
            node = _Node(depth)
            path[-1].children.append(node)
            path.append(node)
        path[-1].rows.append(row)
        closed: _Node | None = None
        while path[-1].depth > behind[i]:
            closed = path.pop()
        if closed is not None and path[-1].depth < behind[i]:
            node = _Node(behind[i], [], [closed])  # between them, for the rows to come
            path[-1].children[-1] = node
            path.append(node)
    return root


def _postorder(root: _Node) -> list[tuple[_Node, list[int]]]:
    """Nodes behind their children, each with the depths of its ancestors and its own."""
    found, open_nodes = [], [(root, [0])]
    while open_nodes:
        node, depths = open_nodes.pop()
        found.append((node, depths))
        open_nodes += [(child, [*depths, child.depth]) for child in node.children]
    return found[::-1]


def _evaluate(root: _Node) -> None:
    """Fills in values: the pages that the rows below a node save, by the depth of the group around them. A row in a
    group saves the group's pages, and a group costs its pages once. A node's rows join the group around them, or the
    node has a group of its own; one that is deeper is better for each row in it, so that no row passes over one."""
    for node, depths in _postorder(root):
        values = len(node.rows) * np.asarray(depths, dtype=np.int64)
        for child in node.children:
            values += _best(child)
        node.values = values


def _best(node: _Node) -> np.ndarray:
    """Returns the better of both, joining the group around the node or a group at the node, by the former's depth."""
    assert node.values is not None
    return np.maximum(node.values[:-1], node.values[-1] - node.depth)


def _collect(root: _Node, found: list[Group]) -> None:
    """Walks down, with the index of the depth of the group around a node and that group's rows."""
    waiting: list[tuple[_Node, int, list[int]]] = [(root, 0, [])]
    members: list[tuple[int, list[int]]] = []
    while waiting:
        node, around, rows = waiting.pop()
        assert node.values is not None
        index = len(node.values) - 1
        if node.depth > 0 and node.values[index] - node.depth > node.values[around]:
            around, rows = index, []
            members.append((node.depth, rows))
        rows += node.rows
        waiting += [(child, around, rows) for child in node.children]
    found += [Group(tuple(sorted(rows)), depth) for depth, rows in members if rows]
