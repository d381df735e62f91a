"""One decode step as the C interface has it: page tables of three forms, lengths, queries; on the host and on a GPU."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi, errors
from ._library import c, check, new
from ._tensors import Indices, Ints, Tensor, host_ints, view


def _sized(values: Ints, name: str, count: int, form: str) -> int:
    if values.shape[0] != count:
        raise errors.InvalidArgumentError(f"{name} has shape [{values.shape[0]}]; expected: {form} = [{count}]")
    return values.address


class HostBatch:
    """A step's arrays on the host. They are kept, and read by runs on the CPU, until the next step."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.pages = new(_abi.PageTable, page_size=page_size)
        self.batch = new(_abi.Batch, pages=ctypes.addressof(self.pages))
        self.address = ctypes.addressof(self.batch)
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
        lengths = np.empty(rows, np.int32)
        check(
            c.trunkline_lengths_from_csr(
                starts.address,
                _sized(last, "last_page_len", rows, "[batch]"),
                rows,
                self.page_size,
                lengths.ctypes.data,
            )
        )
        self._set(_abi.CSR, ids, rows, indptr=starts)
        self._lengths(host_ints(lengths, "kv_lens"), rows)

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
        """Of a live batch's handle: its own tables, good until its next event."""
        check(c.trunkline_live_batch_view(live, self.address, ctypes.addressof(self.pages)))
        rows, starts = self.rows, self.batch.query_start
        self.queries = rows if not starts else (ctypes.c_int32 * (rows + 1)).from_address(starts)[rows]

    def _set(
        self, form: int, ids: Ints, rows: int, width: int = 0, indptr: Ints | None = None, row_map: Ints | None = None
    ) -> None:
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

    def rest(
        self,
        num_pages: int | None,
        query_start_loc: Indices | None,
        query_parents: Indices | None,
        null_page: int | None,
        slots: Indices | None,
        generations: Indices | None,
    ) -> None:
        """What all forms have; after one of them."""
        batch, rows = self.batch, self.rows
        starts = None if query_start_loc is None else host_ints(query_start_loc, "query_start_loc")
        batch.query_start = None if starts is None else _sized(starts, "query_start_loc", rows + 1, "[batch + 1]")
        # Read here because only an address goes on.
        self.queries = rows if starts is None else int(starts.numpy()[-1])
        parents = None if query_parents is None else host_ints(query_parents, "query_parents")
        batch.query_parents = (
            None if parents is None else _sized(parents, "query_parents", self.queries, "[query tokens]")
        )
        places = None if slots is None else host_ints(slots, "slots")
        batch.slots = None if places is None else _sized(places, "slots", rows, "[batch]")
        ages = None if generations is None else host_ints(generations, "generations")
        batch.generations = None if ages is None else _sized(ages, "generations", rows, "[batch]")
        batch.has_null_page = null_page is not None
        batch.null_page = 0 if null_page is None else null_page
        batch.num_pages = self._pages_used() if num_pages is None else num_pages
        self._keep += [starts, parents, places, ages, self.indptr, self.row_map]

    def _pages_used(self) -> int:
        """One more than the largest id in use; ids below 0 are refused."""
        batch, page_size = self.batch, self.page_size
        batch.num_pages = 2**31 - 1
        check(c.trunkline_check_batch(self.address, _abi.CHECK_ALL_IDS))
        ids = self.ids.numpy()
        if self.pages.form == _abi.CSR:
            assert self.indptr is not None
            used = ids[: int(self.indptr.numpy()[-1])]
        else:
            lengths = self.kv_lens.numpy()
            counts = (lengths.astype(np.int64) + page_size - 1) // page_size
            rows = ids if self.row_map is None else ids[self.row_map.numpy()]
            width = int(counts.max(initial=0))
            used = rows[:, :width][np.arange(width) < counts[:, None]]
        return int(used.max(initial=0)) + 1


@dataclass
class DeviceTables:
    """A step's page tables and lengths on the GPU, for runs, beside those on the host, for planning. One form of them:

    - page_table [B, W];
    - indptr [B + 1] (int32), indices [indptr[B]];
    - req_to_token [pool rows, W], req_pool_indices [B] (int32).

    kv_lens [B] (int32) with each; ids are int32 or int64. All are read in place, until the next plan.
    """

    kv_lens: Tensor
    page_table: Tensor = None
    indptr: Tensor = None
    indices: Tensor = None
    req_to_token: Tensor = None
    req_pool_indices: Tensor = None


class DeviceBatch:
    """DeviceTables as the C interface has them."""

    def __init__(self, tables: DeviceTables, host: HostBatch, device_index: int) -> None:
        self.tables = tables
        self._index = device_index
        rows = host.rows
        self.pages = new(_abi.PageTable, rows=rows, page_size=host.page_size)
        if tables.page_table is not None:
            self._table(_abi.DENSE, tables.page_table, "page_table")
            if view(tables.page_table, "page_table").shape[0] != rows:
                raise errors.InvalidArgumentError(
                    f"device_tables.page_table has {view(tables.page_table, 'page_table').shape[0]} rows; "
                    f"expected: {rows}, as on the host"
                )
        elif tables.indices is not None:
            self.pages.form = _abi.CSR
            self.pages.indptr = self._ints(tables.indptr, "indptr", rows + 1)
            self._ids(tables.indices, "indices", 1)
        elif tables.req_to_token is not None:
            self._table(_abi.TOKEN_LEVEL, tables.req_to_token, "req_to_token")
            self.pages.row_map = self._ints(tables.req_pool_indices, "req_pool_indices", rows)
        else:
            raise errors.InvalidArgumentError(
                "device_tables has no page table; expected: page_table, or indptr and indices, or req_to_token and "
                "req_pool_indices"
            )
        self.batch = new(
            _abi.CudaBatch,
            pages=ctypes.addressof(self.pages),
            kv_lens=self._ints(tables.kv_lens, "kv_lens", rows),
            num_pages=host.batch.num_pages,
        )
        self.address = ctypes.addressof(self.batch)

    @property
    def addresses(self) -> tuple[Any, ...]:
        """Of all arrays: what a captured graph depends on."""
        pages = self.pages
        return pages.form, pages.ids, pages.indptr, pages.row_map, self.batch.kv_lens

    def _found(self, tensor: Tensor, name: str, ndim: int, dtypes: tuple[int, ...]) -> Any:
        if tensor is None:
            raise errors.InvalidArgumentError(f"device_tables.{name} is missing")
        name = f"device_tables.{name}"
        found = view(tensor, name)
        if found.device != _abi.CUDA or found.device_index != self._index:
            raise errors.InvalidArgumentError(f"{name} is on {found.place}; expected: cuda:{self._index}")
        if found.dtype not in dtypes:
            raise errors.ArgumentTypeError(
                f"{name} has dtype {found.dtype_name}; expected: {'int32' if len(dtypes) == 1 else 'int32 or int64'}"
            )
        if len(found.shape) != ndim:
            raise errors.InvalidArgumentError(f"{name} has shape {list(found.shape)}; expected: {ndim} dimension(s)")
        if ndim == 1 and not found.contiguous:
            raise errors.InvalidArgumentError(f"{name} has strides {list(found.strides)}; expected: [1]")
        return found

    def _ids(self, tensor: Tensor, name: str, ndim: int) -> Any:
        found = self._found(tensor, name, ndim, (_abi.I32, _abi.I64))
        self.pages.ids = found.address
        self.pages.id_dtype = found.dtype
        self.pages.id_count = found.nbytes * 8 // found.bits
        return found

    def _table(self, form: int, tensor: Tensor, name: str) -> None:
        found = self._ids(tensor, name, 2)
        rows, width = found.shape
        row_step = found.strides[0] if rows > 1 else width
        if (width > 1 and found.strides[1] != 1) or row_step < width:
            raise errors.InvalidArgumentError(
                f"device_tables.{name} has strides {list(found.strides)}; expected: rows without gaps inside"
            )
        self.pages.form = form
        self.pages.width = row_step  # a slice of a wider table keeps its rows apart
        self.pages.id_count = (rows - 1) * row_step + width if rows else 0

    def _ints(self, tensor: Tensor, name: str, count: int) -> int:
        found = self._found(tensor, name, 1, (_abi.I32,))
        if found.shape[0] < count:
            raise errors.InvalidArgumentError(f"device_tables.{name} has shape [{found.shape[0]}]; expected: [{count}]")
        return int(found.address)


def copied_tables(host: HostBatch, device_index: int) -> DeviceTables:
    """The host's tables, copied by torch on its current stream."""
    import torch

    def on_device(values: Ints) -> Tensor:
        return torch.from_numpy(values.numpy()).to(f"cuda:{device_index}")

    lengths = on_device(host.kv_lens)
    if host.pages.form == _abi.CSR:
        assert host.indptr is not None
        return DeviceTables(lengths, indptr=on_device(host.indptr), indices=on_device(host.ids))
    if host.row_map is not None:
        return DeviceTables(lengths, req_to_token=on_device(host.ids), req_pool_indices=on_device(host.row_map))
    return DeviceTables(lengths, page_table=on_device(host.ids))


def live_tables(host: HostBatch, device_index: int) -> DeviceTables:
    """A live batch's tables, gathered to one row a request and copied by torch on its current stream."""
    import torch

    def ints(address: int | None, count: int) -> Any:
        if not address or not count:
            return np.zeros(count, np.int32)
        return np.ctypeslib.as_array((ctypes.c_int32 * count).from_address(address))

    pages = host.pages
    lengths = ints(host.batch.kv_lens, host.rows)
    pool = ints(pages.ids, pages.id_count)
    width = -(-int(lengths.max(initial=0)) // host.page_size)
    starts = ints(pages.row_map, host.rows).astype(np.int64) * pages.width
    # Entries past a row's end are never read, but must not lie outside the pool.
    places = np.minimum(starts[:, None] + np.arange(width), max(pool.size - 1, 0))
    device = f"cuda:{device_index}"
    table = torch.from_numpy(pool[places] if pool.size else np.zeros((host.rows, width), np.int32))
    return DeviceTables(torch.from_numpy(lengths.copy()).to(device), page_table=table.to(device))
