"""A batch edited by events between decode steps (docs/live.md), and planners that keep a plan while it is good."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, NamedTuple

from . import _abi, errors
from ._library import Handle, c, check, new
from ._tensors import Indices, host_ints
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
    try:
        slot, generation = request
        return _abi.Request(slot=slot, generation=generation)
    except (TypeError, ValueError):
        raise errors.ArgumentTypeError(f"request is {request!r}; expected: what join() or fork() gave") from None


class LiveBatch:
    """The host's mirror of page tables and lengths, and the forest of what it holds; events edit both.

    page_size: tokens of a page; num_pages: of the pool, page ids being in [0, num_pages); null_page: an id for "no
    page";
    expected_requests, expected_pages: room that is taken at once, requests and pages of one.

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
            page_size=page_size,
            has_null_page=int(null_page is not None),
            null_page=null_page or 0,
            num_pages=num_pages,
            expected_requests=expected_requests,
            expected_pages=expected_pages,
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
            strange = [row for row in new_pages if not isinstance(row, int) or not 0 <= row < rows]
            if strange:
                raise errors.InvalidArgumentError(f"new_pages has row {strange[0]!r}; expected: 0 to {rows - 1}")
            starts, ids = [0], []
            for row in range(rows):
                ids += list(new_pages.get(row, ()))
                starts.append(len(ids))
            new_pages = starts, ids
        indptr = host_ints(new_pages[0], "new_pages[0]")
        pages = host_ints(new_pages[1], "new_pages[1]", int32=False)
        if indptr.shape[0] != rows + 1 or int(indptr.numpy()[-1]) > pages.shape[0]:
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
        if parents is not None and parents.shape[0] != queries:
            raise errors.InvalidArgumentError(f"query_parents has shape {list(parents.shape)}; expected: [{queries}]")
        request = new(
            _abi.NewRequest,
            kv_len=kv_len,
            queries=queries,
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
        check(c.trunkline_live_batch_leave(self._edited(), _id(request)))

    def fork(self, parent: Request) -> Request:
        """A new request in the last row, with the parent's length, pages and queries."""
        found = _abi.Request()
        check(c.trunkline_live_batch_fork(self._edited(), _id(parent), ctypes.byref(found)))
        return Request(found.slot, found.generation)

    def replace_page(self, request: Request, index: int, page: int) -> None:
        """Another page takes the place of the index-th, with the same content: copy-on-write."""
        check(c.trunkline_live_batch_replace_page(self._edited(), _id(request), index, page))

    def truncate(self, request: Request, kv_len: int) -> None:
        """Drops tokens from the end, down to what is shared, and pages that then hold none."""
        check(c.trunkline_live_batch_truncate(self._edited(), _id(request), kv_len))

    def set_queries(self, request: Request, queries: int, query_parents: Indices | None = None) -> None:
        """From the next step on: so many query tokens a step, or a draft tree."""
        parents = None if query_parents is None else host_ints(query_parents, "query_parents")
        if parents is not None and parents.shape[0] != queries:
            raise errors.InvalidArgumentError(f"query_parents has shape {list(parents.shape)}; expected: [{queries}]")
        at = None if parents is None else parents.address
        check(c.trunkline_live_batch_set_queries(self._edited(), _id(request), queries, at))

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
        check(c.trunkline_live_batch_request_at(self._handle.value, row, ctypes.byref(found)))
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


class LivePlans:
    """Plans of one live batch for layers of one shape; with a thread of its own where asynchronous."""

    def __init__(
        self, profile: int, shape: _abi.Shape, options: PlanOptions, *, asynchronous: bool, edit_share: float
    ) -> None:
        plan_options = options._struct()
        live_options = new(_abi.LivePlanOptions, plan=ctypes.addressof(plan_options), edit_share=edit_share)
        self._name = "async_planner" if asynchronous else "live_planner"
        self._handle = Handle(self._name, profile, ctypes.byref(shape), ctypes.byref(live_options))
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
        plan = ctypes.c_void_p()
        source = ctypes.c_int32()
        function = c.trunkline_async_planner_take if self._name == "async_planner" else c.trunkline_live_planner_plan
        check(function(self._handle.value, live._handle.value, ctypes.byref(plan), ctypes.byref(source)))
        self.source = _SOURCES[source.value]
        return plan.value or 0

    @property
    def counts(self) -> dict[str, int]:
        counts = new(_abi.PlanCounts)
        check(getattr(c, f"trunkline_{self._name}_counts")(self._handle.value, ctypes.byref(counts)))
        return {name: getattr(counts, name) for name in ("steps", *_SOURCES)}

    def close(self) -> None:
        self._handle.close()
