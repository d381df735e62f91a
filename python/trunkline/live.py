"""A batch edited by events between decode steps (docs/guides/live.md), and planners that keep a plan while it fits."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _abi, errors
from ._arguments import int32, int64, integer, wrong_type
from ._indices import Indices, Ints, host_ints
from ._library import Handle, NotCopied, c, check, new
from .plans import PlanOptions


class Request(NamedTuple):
    """A request's id: its slot while it lives, and a generation that grows when the slot is reused."""

    slot: int
    generation: int


class RequestInfo(NamedTuple):
    """Where a request is, how long, and its pages. shared_tokens: from the start, those that others have too."""

    row: int
    kv_len: int
    shared_tokens: int
    pages: list[int]


def _id(request: Request) -> _abi.Request:
    if not isinstance(request, (tuple, list)) or len(request) != 2:
        raise wrong_type("request", request, "what join() or fork() gave")
    slot, generation = request
    return _abi.Request(
        slot=int32(slot, "request.slot"), generation=integer(generation, "request.generation", 0, 2**32 - 1)
    )


def _query_count(queries: int, parents: Ints | None) -> int:
    count = int32(queries, "queries", 1)
    if parents is not None and parents.shape[0] != count:
        raise errors.InvalidArgumentError(f"query_parents has shape {list(parents.shape)}; expected: [{count}]")
    return count


def _listed(new_pages: dict[Any, Any], rows: int) -> tuple[list[int], list[Any]]:
    """Indptr and ids of {row: [page ids]}."""
    for row, pages in new_pages.items():
        if not 0 <= int64(row, "a row of new_pages") < rows:
            raise errors.InvalidArgumentError(f"new_pages has row {row!r}; expected: 0 to {rows - 1}")
        if not isinstance(pages, Iterable):
            raise wrong_type(f"new_pages[{row}]", pages, "page ids")
    starts, ids = [0], []
    for row in range(rows):
        ids += list(new_pages.get(row, ()))
        starts.append(len(ids))
    return starts, ids


class LiveBatch(NotCopied):
    """The host's mirror of page tables and lengths, and the forest of what it holds; events edit both.

    page_size: tokens of a page; num_pages: of the pool, page ids being in [0, num_pages); null_page: one of them, for
    "no page"; expected_requests, expected_pages: room that is taken at once, requests and pages of one.

    A refused event changes nothing. StaleError for a request that has left.

    >>> import trunkline
    >>> live = trunkline.LiveBatch(page_size=16, num_pages=100)
    >>> a = live.join(40, pages=[7, 8, 9])
    >>> branch = live.fork(a)
    >>> live.replace_page(branch, 2, 11)  # copy-on-write
    >>> live.advance([41, 41])
    >>> live.info(branch)
    RequestInfo(row=1, kv_len=41, shared_tokens=32, pages=[7, 8, 11])
    """

    def __init__(
        self,
        *,
        page_size: int,
        num_pages: int,
        null_page: int | None = None,
        expected_requests: int = 0,
        expected_pages: int = 0,
    ) -> None:
        options = new(
            _abi.LiveBatchOptions,
            page_size=int32(page_size, "page_size"),
            has_null_page=int(null_page is not None),
            null_page=0 if null_page is None else int64(null_page, "null_page", 0),
            num_pages=int64(num_pages, "num_pages"),
            expected_requests=int32(expected_requests, "expected_requests"),
            expected_pages=int32(expected_pages, "expected_pages"),
        )
        self.page_size = page_size
        self.num_pages = num_pages
        self._handle = Handle("live_batch", ctypes.byref(options))
        self._users: weakref.WeakSet[Any] = weakref.WeakSet()  # those that have planned for it

    def advance(self, kv_lens: Indices, new_pages: Any = None) -> None:
        """One step of the whole batch: the new length of each row, none shorter than before.

        new_pages: just the pages that growth takes; a dict {row: [page ids]}, or a pair (indptr [B + 1], ids);
        None when no row needs one.
        """
        lengths = host_ints(kv_lens, "kv_lens")
        rows = lengths.shape[0]
        if new_pages is None:
            check(c.trunkline_live_batch_advance(self._edited(), lengths.address, rows, None))
            return
        if isinstance(new_pages, dict):
            new_pages = _listed(new_pages, rows)
        if not isinstance(new_pages, (tuple, list)) or len(new_pages) != 2:
            raise wrong_type("new_pages", new_pages, "a dict {row: [page ids]}, or a pair (indptr, ids)")
        indptr = host_ints(new_pages[0], "new_pages[0]")
        pages = host_ints(new_pages[1], "new_pages[1]", int32=False)
        if indptr.shape[0] != rows + 1 or indptr.last > pages.shape[0]:
            raise errors.InvalidArgumentError(
                f"new_pages has {indptr.shape[0]} starts and {pages.shape[0]} ids; expected: {rows + 1} starts, "
                "the last being the number of ids"
            )
        given = new(_abi.NewPages, indptr=indptr.address, ids=pages.address, id_dtype=pages.dtype)
        check(c.trunkline_live_batch_advance(self._edited(), lengths.address, rows, ctypes.byref(given)))

    def join(self, kv_len: int, pages: Indices, *, queries: int = 1, query_parents: Indices | None = None) -> Request:
        """A request in the last row. kv_len: tokens in the cache, those of the next step's queries included; pages:
        exactly ceil(kv_len / page_size); queries: query tokens of each step; query_parents [queries]: a draft tree."""
        ids = host_ints(pages, "pages", int32=False)
        parents = None if query_parents is None else host_ints(query_parents, "query_parents")
        request = new(
            _abi.NewRequest,
            kv_len=int32(kv_len, "kv_len"),
            queries=_query_count(queries, parents),
            pages=ids.address,
            page_count=ids.shape[0],
            id_dtype=ids.dtype,
            query_parents=None if parents is None else parents.address,
        )
        found = _abi.Request()
        check(c.trunkline_live_batch_join(self._edited(), ctypes.byref(request), ctypes.byref(found)))
        return Request(found.slot, found.generation)

    def leave(self, request: Request) -> None:
        """Rows after it move up by one; slots stay."""
        leaver = _id(request)
        check(c.trunkline_live_batch_leave(self._edited(), leaver))

    def fork(self, parent: Request) -> Request:
        """A new request in the last row, with the parent's length, pages and queries."""
        forked, found = _id(parent), _abi.Request()
        check(c.trunkline_live_batch_fork(self._edited(), forked, ctypes.byref(found)))
        return Request(found.slot, found.generation)

    def replace_page(self, request: Request, index: int, page: int) -> None:
        """Another page takes the place of the index-th, with the same content: copy-on-write."""
        whose, where, by = _id(request), int32(index, "index"), int64(page, "page")
        check(c.trunkline_live_batch_replace_page(self._edited(), whose, where, by))

    def truncate(self, request: Request, kv_len: int) -> None:
        """Drops tokens from the end, down to what is shared, and pages that then hold none."""
        whose, length = _id(request), int32(kv_len, "kv_len")
        check(c.trunkline_live_batch_truncate(self._edited(), whose, length))

    def set_queries(self, request: Request, queries: int, query_parents: Indices | None = None) -> None:
        """From the next step on: so many query tokens a step, or a draft tree."""
        parents = None if query_parents is None else host_ints(query_parents, "query_parents")
        whose, count = _id(request), _query_count(queries, parents)
        at = None if parents is None else parents.address
        check(c.trunkline_live_batch_set_queries(self._edited(), whose, count, at))

    def reorder(self, order: Indices) -> None:
        """Row i becomes what row order[i] was."""
        rows = host_ints(order, "order")
        check(c.trunkline_live_batch_reorder(self._edited(), rows.address, rows.shape[0]))

    def __len__(self) -> int:
        rows = ctypes.c_int32()
        check(c.trunkline_live_batch_rows(self._handle.value, ctypes.byref(rows)))
        return rows.value

    def request_at(self, row: int) -> Request:
        """The request that is in a row now."""
        found = _abi.Request()
        check(c.trunkline_live_batch_request_at(self._handle.value, int32(row, "row"), ctypes.byref(found)))
        return Request(found.slot, found.generation)

    def info(self, request: Request) -> RequestInfo:
        """Where it is, how long, and its pages."""
        info = new(_abi.RequestInfo)
        check(c.trunkline_live_batch_get_request(self._handle.value, _id(request), ctypes.byref(info)))
        pages: list[int] = []
        if info.page_count and info.pages:
            pages += (ctypes.c_int32 * info.page_count).from_address(info.pages)
        return RequestInfo(info.row, info.kv_len, info.shared_tokens, pages)

    def _edited(self) -> int:
        """The handle, for an event: what was planned before must not run on tables that move."""
        for user in list(self._users):
            user._before_event()
        self._users.clear()
        return self._handle.value

    def _forest(self) -> int:
        forest = ctypes.c_void_p()
        check(c.trunkline_live_batch_forest(self._handle.value, ctypes.byref(forest)))
        return forest.value or 0

    def close(self) -> None:
        if not self._handle.closed:
            self._edited()
        self._handle.close()


_SOURCES = ("reused", "membership", "truncated", "growth", "edited", "flat")


class LivePlans(NotCopied):
    """Plans of one live batch for layers of one shape; with a thread of its own where asynchronous."""

    def __init__(
        self, profile: int, shape: _abi.Shape, options: PlanOptions, *, asynchronous: bool, edit_share: float
    ) -> None:
        plan_options = options._struct()
        live_options = new(_abi.LivePlanOptions, plan=ctypes.addressof(plan_options), edit_share=edit_share)
        self._name = "async_planner" if asynchronous else "live_planner"
        self._handle = Handle(self._name, profile, ctypes.byref(shape), ctypes.byref(live_options))
        self._take = c.trunkline_async_planner_take if asynchronous else c.trunkline_live_planner_plan
        # Results are written here. Objects made for each call would take 1 us of a step.
        self._plan = ctypes.c_void_p()
        self._source = ctypes.c_int32()
        self._plan_at = ctypes.addressof(self._plan)
        self._source_at = ctypes.addressof(self._source)
        self.source = ""

    def submit(self, live: LiveBatch) -> bool:
        submitted = ctypes.c_int32()
        check(c.trunkline_async_planner_submit(self._handle.value, live._handle.value, ctypes.byref(submitted)))
        return bool(submitted.value)

    def ready(self) -> bool:
        done = ctypes.c_int32()
        check(c.trunkline_async_planner_poll(self._handle.value, ctypes.byref(done)))
        return bool(done.value)

    def take(self, live: LiveBatch) -> int:
        check(self._take(self._handle.value, live._handle.value, self._plan_at, self._source_at))
        self.source = _SOURCES[self._source.value]
        return self._plan.value or 0

    @property
    def counts(self) -> dict[str, int]:
        counts = new(_abi.PlanCounts)
        check(getattr(c, f"trunkline_{self._name}_counts")(self._handle.value, ctypes.byref(counts)))
        return {name: getattr(counts, name) for name in ("steps", *_SOURCES)}

    def close(self) -> None:
        self._handle.close()
