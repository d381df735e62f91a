"""One decode step on the host as the C interface has it: page tables of three forms, lengths, queries."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from . import _abi, errors
from ._arguments import INT32_MAX, INT64_MAX, int64, integer
from ._indices import Indices, Ints, host_ints
from ._library import NotCopied, c, check, new

if TYPE_CHECKING:
    from ._step_options import StepOptions


def _sized(values: Ints, name: str, count: int, form: str) -> int:
    if values.shape[0] != count:
        raise errors.InvalidArgumentError(f"{name} has shape [{values.shape[0]}]; expected: {form} = [{count}]")
    return values.address


def on_gpu(indices: Indices) -> bool:
    """Whether it is a torch tensor there."""
    return bool(getattr(indices, "is_cuda", False))


def on_host(indices: Indices) -> Indices:
    """The indices in host memory: of a torch tensor on a GPU a copy, which waits for the GPU."""
    return indices.cpu() if on_gpu(indices) else indices


class HostBatch(NotCopied):
    """A step's arrays on the host. They are kept, and read by runs on the CPU, until the next step."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.pages = new(_abi.PageTable, page_size=page_size)
        self._pages_at = ctypes.addressof(self.pages)
        self.batch = new(_abi.Batch, pages=self._pages_at)
        self.address = ctypes.addressof(self.batch)
        self.is_live = False
        self._keep: list[object] = []

    @property
    def rows(self) -> int:
        return self.batch.rows

    def dense(self, page_table: Indices, kv_lens: Indices) -> None:
        """page_table [B, W], kv_lens [B]."""
        ids = host_ints(page_table, "page_table", 2, int32=False)
        lengths = host_ints(kv_lens, "kv_lens")
        rows, width = ids.shape
        self._set(_abi.DENSE, ids, rows, width=width)
        self._lengths(lengths, rows)

    def csr(self, indptr: Indices, indices: Indices, last_page_len: Indices) -> None:
        """indptr [B + 1], indices [indptr[B]], last_page_len [B], as FlashInfer has them."""
        starts = host_ints(indptr, "indptr")
        ids = host_ints(indices, "indices", int32=False)
        last = host_ints(last_page_len, "last_page_len")
        rows = starts.shape[0] - 1
        if rows < 0:
            raise errors.InvalidArgumentError("indptr is empty; expected: [batch + 1], from 0")
        lengths = host_ints(np.empty(rows, np.int32), "kv_lens")
        check(
            c.trunkline_lengths_from_csr(
                starts.address,
                _sized(last, "last_page_len", rows, "[batch]"),
                rows,
                self.page_size,
                lengths.address,
            )
        )
        self._set(_abi.CSR, ids, rows, indptr=starts)
        self._lengths(lengths, rows)

    def token_level(self, req_to_token: Indices, req_pool_indices: Indices, kv_lens: Indices) -> None:
        """req_to_token [pool rows, W] of one id a token, req_pool_indices [B], kv_lens [B], as SGLang has them."""
        if self.page_size != 1:
            raise errors.InvalidArgumentError(f"page_size is {self.page_size}; expected: 1, as tables of tokens have")
        ids = host_ints(req_to_token, "req_to_token", 2, int32=False)
        rows_of = host_ints(req_pool_indices, "req_pool_indices")
        rows = rows_of.shape[0]
        self._set(_abi.TOKEN_LEVEL, ids, rows, width=ids.shape[1], row_map=rows_of)
        self._lengths(host_ints(kv_lens, "kv_lens"), rows)

    def live(self, live: int) -> None:
        """Takes a live batch's own tables, by its handle. They are good until its next event."""
        self.is_live = True
        check(c.trunkline_live_batch_view(live, self.address, self._pages_at))
        rows, starts = self.rows, self.batch.query_start
        self.queries = rows if not starts else (ctypes.c_int32 * (rows + 1)).from_address(starts)[rows]

    def _set(
        self, form: int, ids: Ints, rows: int, width: int = 0, indptr: Ints | None = None, row_map: Ints | None = None
    ) -> None:
        self.is_live = False
        pages = self.pages
        pages.form = form
        pages.id_dtype = ids.dtype
        pages.ids = ids.address
        count = 1
        for size in ids.shape:
            count *= size
        pages.id_count = count
        pages.width = width
        pages.indptr = None if indptr is None else indptr.address
        pages.row_map = None if row_map is None else row_map.address
        pages.rows = rows
        self.ids, self.indptr, self.row_map = ids, indptr, row_map

    def _lengths(self, lengths: Ints, rows: int) -> None:
        self.batch.kv_lens = _sized(lengths, "kv_lens", rows, "[batch]")
        self.batch.rows = rows
        self.kv_lens = lengths
        self._keep = [lengths.owner, self.ids.owner]

    def rest(self, options: StepOptions) -> None:
        """Reads what all forms of page tables have beside them; comes after dense(), csr() or token_level()."""
        query_start_loc, query_parents = options.query_start_loc, options.query_parents
        num_pages, null_page = options.num_pages, options.null_page
        slots, generations = options.slots, options.generations
        batch, rows = self.batch, self.rows
        starts = None if query_start_loc is None else host_ints(query_start_loc, "query_start_loc")
        batch.query_start = None if starts is None else _sized(starts, "query_start_loc", rows + 1, "[batch + 1]")
        # Read here because only an address goes on.
        self.queries = rows if starts is None else starts.last
        parents = None if query_parents is None else host_ints(query_parents, "query_parents")
        batch.query_parents = (
            None if parents is None else _sized(parents, "query_parents", self.queries, "[query tokens]")
        )
        places = None if slots is None else host_ints(slots, "slots")
        batch.slots = None if places is None else _sized(places, "slots", rows, "[batch]")
        ages = None if generations is None else host_ints(generations, "generations")
        if ages is not None and ages.numpy().min(initial=0) < 0:
            row = int(ages.numpy().argmin())
            raise errors.InvalidArgumentError(f"generations[{row}] is {ages.numpy()[row]}; expected: at least 0")
        batch.generations = None if ages is None else _sized(ages, "generations", rows, "[batch]")
        most = INT64_MAX if num_pages is not None else INT32_MAX - 1  # ids of a pool whose size is looked up
        batch.has_null_page = null_page is not None
        batch.null_page = 0 if null_page is None else integer(null_page, "null_page", 0, most)
        if num_pages is None:
            batch.num_pages = 0
            # The pool has the null page, too, whether a row uses it or not.
            num_pages = max(self._pages_used(), batch.null_page + batch.has_null_page)
        batch.num_pages = int64(num_pages, "num_pages")
        self._keep += [starts, parents, places, ages, self.indptr, self.row_map]

    def _pages_used(self) -> int:
        """One more than the largest id in use; ids below 0 are refused."""
        found = ctypes.c_int64()
        check(c.trunkline_pages_used(self.address, ctypes.byref(found)))
        return found.value
