"""A step's plan from an engine's tables: on a GPU by the device's planner, on the CPU by the host's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ... import DecodeAttention, DevicePlanReport
from .arrays import Arrays
from .tables import Int32Lists, Tables

# Prepared steps that are kept. One a number of rows is enough without drafts; with them, one for each number of query
# tokens, too. All are dropped when there are more, which costs each one check.
MAX_PREPARED = 4096


@dataclass(frozen=True)
class HostReport:
    """The fields of a DevicePlanReport that the layer reads, for plans of the host. Its planner keeps no plan, reports
    bad input by exceptions, and leaves no step unplanned."""

    planned: int = 0
    reused: int = 0
    kv_tokens_total: int = 0
    kv_tokens_read: int = 0
    fallbacks: int = 0
    unplanned: int = 0
    bad_lengths: int = 0
    bad_queries: int = 0


class GroupPlanner:
    """Plans steps of a group of layers. Each number of rows and query tokens is checked once, as long as tables and
    lists stay where they are.

    max_rows, max_queries: requests and query tokens of a step, padding included. null_page: never shared; on a GPU the
    DecodeAttention has it already. num_pages: of the cache; None for a host that is to look ids up.
    """

    def __init__(
        self,
        attention: DecodeAttention,
        arrays: Arrays,
        *,
        page_size: int,
        max_rows: int,
        max_queries: int,
        on_gpu: bool,
        null_page: int | None,
        num_pages: int | None,
    ) -> None:
        self._attention = attention
        self._arrays = arrays
        self._page_size = page_size
        self._on_gpu = on_gpu
        self._null_page = null_page
        self._num_pages = num_pages
        self._int32 = Int32Lists(arrays, max(max_rows + 1, max_queries))
        self._where: tuple[Any, ...] = ()
        self._query_lists = [0, 0]  # where query_start_loc and query_parents were when they were last given
        self._prepared: dict[tuple[Any, ...], list[Callable[[], None]]] = {}
        self._host_report = HostReport()

    def plan(self, tables: Tables, rows: int, query_start_loc: Any, query_parents: Any, tokens: int) -> None:
        """Plans the first rows. query_start_loc: None for a query token a row, else its prefix sums are on the device
        and sum up to `tokens`. query_parents: None for chains, else draft trees, on the device, too."""
        given = query_start_loc is not None, query_parents is not None
        for i, values in enumerate((query_start_loc, query_parents)):
            if values is not None:  # else those of steps with the list stay prepared
                self._query_lists[i] = self._arrays.address(values)
        where = (type(tables), *self._query_lists, *tables.where(self._arrays))
        if where != self._where or len(self._prepared) > MAX_PREPARED:
            self._prepared.clear()
            self._where = where
        key = rows, tokens, *given
        actions = self._prepared.get(key)
        if actions is None:
            actions = self._prepared[key] = self._prepare(tables, rows, query_start_loc, query_parents, tokens)
        for act in actions:
            act()
        if not self._on_gpu:
            found = self._attention.statistics
            self._host_report = HostReport(
                planned=self._host_report.planned + 1,
                kv_tokens_total=found.kv_tokens_total,
                kv_tokens_read=found.kv_tokens_read,
                fallbacks=found.fallbacks,
            )

    def report(self) -> DevicePlanReport | HostReport:
        """The plans so far, without waiting for a GPU; of its last steps some may be missing."""
        return self._attention.plan_report() if self._on_gpu else self._host_report

    def _prepare(
        self, tables: Tables, rows: int, query_start_loc: Any, query_parents: Any, tokens: int
    ) -> list[Callable[[], None]]:
        """The actions of each such step: 32-bit lists are written, then the plan is made."""
        attention = self._attention
        actions: list[Callable[[], None]] = []
        step: dict[str, Any] = {"num_pages": self._num_pages}
        if query_start_loc is not None:
            step["query_start_loc"] = self._int32.of("query_start_loc", query_start_loc[: rows + 1], actions)
        if query_parents is not None:
            step["query_parents"] = self._int32.of("query_parents", query_parents[:tokens], actions)
        first = self._int32.of_tables(tables.first(rows), actions)
        if not self._on_gpu:
            actions.append(lambda: first.plan(attention, step | {"null_page": self._null_page}))
            return actions
        if query_start_loc is not None:
            step["num_queries"] = tokens
        prepared = attention.prepare_tables(first.on_gpu(self._int32, self._page_size, actions), **step)
        actions.append(lambda: attention.plan_prepared(prepared))
        return actions
