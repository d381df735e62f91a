"""A step's page tables and lengths on a GPU, and copies of the host's."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi, errors
from ._batches import HostBatch
from ._indices import Ints
from ._library import NotCopied, new
from ._tensors import Tensor, View, view


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


def device_array(tensor: Tensor, name: str, ndim: int, dtypes: tuple[int, ...], device_index: int) -> View:
    """The view of an array on a GPU. Refuses arrays elsewhere, and arrays of one dimension that have gaps."""
    if tensor is None:
        raise errors.InvalidArgumentError(f"{name} is missing")
    found = view(tensor, name)
    if found.device != _abi.CUDA or found.device_index != device_index:
        raise errors.InvalidArgumentError(f"{name} is on {found.place}; expected: cuda:{device_index}")
    if found.dtype not in dtypes:
        raise errors.ArgumentTypeError(
            f"{name} has dtype {found.dtype_name}; expected: {'int32' if len(dtypes) == 1 else 'int32 or int64'}"
        )
    if len(found.shape) != ndim:
        raise errors.InvalidArgumentError(f"{name} has shape {list(found.shape)}; expected: {ndim} dimension(s)")
    if ndim == 1 and not found.contiguous:
        raise errors.InvalidArgumentError(f"{name} has strides {list(found.strides)}; expected: [1]")
    return found


class DeviceBatch(NotCopied):
    """DeviceTables as the C interface has them.

    rows: of the batch that the host has; by default as many as kv_lens has. query_capacity: the query tokens where
    `queries` is 0. prefix: of the tables' names in errors.
    """

    def __init__(
        self,
        tables: DeviceTables,
        page_size: int,
        device_index: int,
        *,
        rows: int | None = None,
        num_pages: int = 0,
        query_start_loc: Tensor = None,
        queries: int = 0,
        query_parents: Tensor = None,
        query_capacity: int = 0,
        prefix: str = "device_tables.",
    ) -> None:
        self.tables = tables
        self._kept = query_start_loc, query_parents
        self._index = device_index
        self._prefix = prefix
        if rows is None:
            rows = self._found(tables.kv_lens, "kv_lens", 1, (_abi.I32,)).shape[0]
        self.rows = rows
        self.pages = new(_abi.PageTable, rows=rows, page_size=page_size)
        if tables.page_table is not None:
            found = self._table(_abi.DENSE, tables.page_table, "page_table")
            if found.shape[0] != rows:
                raise errors.InvalidArgumentError(
                    f"{prefix}page_table has {found.shape[0]} rows; expected: {rows}, as the batch has"
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
                f"{prefix.rstrip('.') or 'the step'} has no page table; expected: page_table, or indptr and "
                "indices, or req_to_token and req_pool_indices"
            )
        self.batch = new(
            _abi.CudaBatch,
            pages=ctypes.addressof(self.pages),
            kv_lens=self._ints(tables.kv_lens, "kv_lens", rows),
            num_pages=num_pages,
            queries=queries,
        )
        if query_start_loc is not None:
            self.batch.query_start = self._ints(query_start_loc, "query_start_loc", rows + 1)
        if query_parents is not None:
            if query_start_loc is None:
                raise errors.InvalidArgumentError(
                    "query_parents is given; expected without query_start_loc: none, as a request has one query token"
                )
            self.batch.query_parents = self._ints(query_parents, "query_parents", queries or query_capacity)
        self.address = ctypes.addressof(self.batch)

    @property
    def table_addresses(self) -> tuple[Any, ...]:
        """Addresses of the tables that runs read, on which a captured graph of runs depends."""
        pages = self.pages
        return pages.form, pages.ids, pages.indptr, pages.row_map

    @property
    def addresses(self) -> tuple[Any, ...]:
        """Addresses of all arrays, on which a captured graph of resolve() and runs depends."""
        return *self.table_addresses, self.batch.kv_lens

    def _found(self, tensor: Tensor, name: str, ndim: int, dtypes: tuple[int, ...]) -> View:
        return device_array(tensor, f"{self._prefix}{name}", ndim, dtypes, self._index)

    def _ids(self, tensor: Tensor, name: str, ndim: int) -> View:
        found = self._found(tensor, name, ndim, (_abi.I32, _abi.I64))
        self.pages.ids = found.address
        self.pages.id_dtype = found.dtype
        self.pages.id_count = found.nbytes * 8 // found.bits
        return found

    def _table(self, form: int, tensor: Tensor, name: str) -> View:
        found = self._ids(tensor, name, 2)
        rows, width = found.shape
        row_step = found.strides[0] if rows > 1 else width
        if (width > 1 and found.strides[1] != 1) or row_step < width:
            raise errors.InvalidArgumentError(
                f"{self._prefix}{name} has strides {list(found.strides)}; expected: rows without gaps inside"
            )
        self.pages.form = form
        self.pages.width = row_step  # a slice of a wider table keeps its rows apart
        self.pages.id_count = (rows - 1) * row_step + width if rows else 0
        return found

    def _ints(self, tensor: Tensor, name: str, count: int) -> int:
        found = self._found(tensor, name, 1, (_abi.I32,))
        if found.shape[0] < count:
            raise errors.InvalidArgumentError(f"{self._prefix}{name} has shape [{found.shape[0]}]; expected: [{count}]")
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
