"""The layout of a step's rows in both calls, with the prefixes that the host expects to be shared."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from .groups import Group


@dataclasses.dataclass(frozen=True)
class Layout:
    """Packed rows are the batch's in the order of the prefix call, whose sequences are runs of packed rows.

    order [rows]: the batch's row of each packed row, None where it is the same. sequence [rows]: of a packed row.
    starts [sequences + 1]: the first packed row of each sequence. leader [sequences]: the batch's row whose pages the
    others are compared with. pages [sequences]: of the expected prefix, 0 for rows without a group.
    """

    groups: tuple[Group, ...]
    rows: int
    order: np.ndarray | None
    sequence: np.ndarray
    starts: np.ndarray
    leader: np.ndarray
    pages: np.ndarray

    @functools.cached_property
    def max_queries(self) -> int:
        """The maximum of query tokens in a sequence of the prefix call: each row has one."""
        return int(np.diff(self.starts).max())

    @functools.cached_property
    def max_pages(self) -> int:
        return int(self.pages.max())

    @functools.cached_property
    def prefix_pages(self) -> np.ndarray:
        """[rows], in the batch's order."""
        found = np.empty(self.rows, dtype=np.int32)
        found[slice(None) if self.order is None else self.order] = self.pages[self.sequence]
        return found


def lay_out(groups: list[Group], rows: int) -> Layout:
    """groups: at least one, disjoint. The batch's order is kept where each group's rows are neighbours; rows between
    groups are sequences without pages then. Otherwise rows without a group are one such sequence, at the end."""
    ordered = sorted(groups, key=lambda group: group.rows[0])
    neighbours = all(group.rows[-1] - group.rows[0] + 1 == len(group.rows) for group in ordered)
    runs = _runs_in_place(ordered, rows) if neighbours else _runs_packed(ordered, rows)
    sizes = [len(run) for run, _ in runs]
    order = None if neighbours else np.asarray([row for run, _ in runs for row in run], dtype=np.int64)
    return Layout(
        groups=tuple(ordered),
        rows=rows,
        order=order,
        sequence=np.repeat(np.arange(len(runs), dtype=np.int32), sizes),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
        leader=np.asarray([run[0] for run, _ in runs], dtype=np.int32),
        pages=np.asarray([pages for _, pages in runs], dtype=np.int32),
    )


def _runs_in_place(groups: list[Group], rows: int) -> list[tuple[tuple[int, ...], int]]:
    runs, end = [], 0
    for group in groups:
        if group.rows[0] > end:
            runs.append((tuple(range(end, group.rows[0])), 0))
        runs.append((group.rows, group.pages))
        end = group.rows[-1] + 1
    if end < rows:
        runs.append((tuple(range(end, rows)), 0))
    return runs


def _runs_packed(groups: list[Group], rows: int) -> list[tuple[tuple[int, ...], int]]:
    grouped = {row for group in groups for row in group.rows}
    rest = tuple(row for row in range(rows) if row not in grouped)
    return [(group.rows, group.pages) for group in groups] + ([(rest, 0)] if rest else [])
