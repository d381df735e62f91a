"""Follows a batch from step to step, and says how the next step is laid out, without waiting for the GPU."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .groups import Group, find_groups, paying, shareable_pages
from .layout import Layout, lay_out
from .limits import Limits


class TableCopies(Protocol):
    """Copies of the page table to the host, one under way at a time."""

    def begin(self, table: Any, lengths: Any, rows: int, columns: int) -> None:
        """Begins to copy table [rows, columns] and lengths [rows]."""

    def take(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The copy that begin() asked for, once; None before it has come."""


class GroupTracker:
    """Follows the batches of one KV cache group. observe() is called once a step, whoever runs it.

    A batch whose lengths all grew by one token is taken for the same requests: nothing is copied, and groups stay.
    That is a guess, as the copy's groups are of a step before; the GPU compares each with the step's own table.
    """

    def __init__(self, copies: TableCopies, page_size: int, page_bytes: int, limits: Limits) -> None:
        self._copies, self._page_size, self._page_bytes, self._limits = copies, page_size, page_bytes, limits
        self._lengths: np.ndarray | None = None
        self._groups: list[Group] = []
        self._layout: Layout | None = None
        self._copied_rows: np.ndarray | None = None  # of the copy under way, the row of it that each row was
        self._changed = False  # since the last copy began

    def observe(self, table: Any, lengths: Any, known_lengths: np.ndarray) -> Layout | None:
        """Returns this step's layout, None where groups do not pay. table and lengths: of this step, on the device.
        known_lengths [rows]: the lengths as the host knows them, or bounds of them."""
        rows = len(known_lengths)
        moved = None if self._lengths is None else follow(self._lengths, known_lengths)
        if moved is None or len(moved) != len(self._lengths) or (moved != np.arange(rows)).any():
            self._move(np.full(rows, -1) if moved is None else moved)
        self._lengths = known_lengths.copy()
        if self._changed and self._copied_rows is None and rows >= self._limits.min_requests:
            columns = min(-(-int(known_lengths.max()) // self._page_size), int(table.shape[1]))
            self._copies.begin(table, lengths, rows, columns)
            self._copied_rows, self._changed = np.arange(rows), False
        if self._copied_rows is not None and (taken := self._copies.take()) is not None:
            self._regroup(*taken)
        return self._layout

    def forget(self) -> None:
        """Ends all groups: the host does not know the lengths of this step."""
        self._lengths, self._groups, self._layout, self._changed = None, [], None, True
        if self._copied_rows is not None:
            self._copied_rows = np.empty(0, dtype=np.int64)

    def _move(self, moved: np.ndarray) -> None:
        self._changed = True
        self._use(renumber(self._groups, moved), len(moved))
        if self._copied_rows is not None:
            padded = np.append(self._copied_rows, -1)  # so that a row that was not there, -1, stays so
            self._copied_rows = padded[moved]

    def _regroup(self, table: np.ndarray, lengths: np.ndarray) -> None:
        assert self._copied_rows is not None and self._lengths is not None
        pages = shareable_pages(table, lengths, self._page_size)
        found = find_groups(table, pages, self._limits.min_prefix_pages, self._limits.min_group_size)
        self._use(renumber(found, self._copied_rows), len(self._lengths))
        self._copied_rows = None

    def _use(self, groups: list[Group], rows: int) -> None:
        self._groups = groups
        pays = paying(groups, rows, self._page_bytes, self._limits)
        self._layout = lay_out(groups, rows) if pays else None


def follow(before: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Returns for each row of now the row of before that it continues by one token, or -1. Rows keep their order."""
    if len(before) == len(now) and (before + 1 == now).all():
        return np.arange(len(now))
    found, at, old = np.full(len(now), -1), 0, (before + 1).tolist()
    for row, length in enumerate(now.tolist()):
        try:
            found[row] = old.index(length, at)
        except ValueError:
            continue
        at = int(found[row]) + 1
    return found


def renumber(groups: list[Group], moved: np.ndarray) -> list[Group]:
    """groups by the new rows; moved: of each new row the row in groups, or -1. Groups of less than two rows end."""
    new_row = {int(old): row for row, old in enumerate(moved) if old >= 0}
    found = []
    for group in groups:
        rows = tuple(sorted(new_row[row] for row in group.rows if row in new_row))
        if len(rows) > 1:
            found.append(Group(rows, group.pages))
    return found
