"""A step's copy of page tables that the engine may overwrite while attention still runs."""

from __future__ import annotations

from typing import Any

from .arrays import Arrays
from .tables import CsrTables, DenseTables, Tables


class TableSnapshot:
    """Copies the rows of tables into a dense table, in memory that stays where it is. Tables are token-level
    (TokenTables, CsrTables with an id a token), or DenseTables of pages, as an engine's metadata has them.

    An engine whose scheduler works on the next step meanwhile (SGLang's overlap scheduling) may give a request's row
    away before this step's last layer. A shared prefix is read through one member's row, so that such a write would
    reach the other members, too. The copy runs in the order of the device's work, before the plan.

    Ids of tokens become ids of pages: with page_size P, the slots of a page are consecutive and begin at a multiple of
    P, as engines with paged allocators have them.

    memory: the table, of max_rows and as many pages as max_kv_len takes, and its lengths, where the engine has such
    memory for its own snapshots; DenseTables that lie there are taken as they are.
    """

    def __init__(
        self, arrays: Arrays, max_rows: int, max_kv_len: int, page_size: int, memory: DenseTables | None = None
    ) -> None:
        self._arrays = arrays
        self._page_size = page_size
        self._tables = memory or DenseTables(
            arrays.zeros((max_rows, -(-max_kv_len // page_size)), "int32"), arrays.zeros(max_rows, "int32")
        )
        self._page_begins = arrays.zeros(self._tables.page_table.shape[1], "int32")
        arrays.copy(self._page_begins, arrays.module.arange(self._page_begins.shape[0]) * page_size)

    @property
    def max_rows(self) -> int:
        """The most rows that `take` has room for."""
        return int(self._tables.kv_lens.shape[0])

    def take(self, tables: Tables, rows: int, max_kv_len: int | None = None) -> DenseTables:
        """The first rows, for DecodeSteps.plan; the same memory each time. max_kv_len: the longest of them, where the
        host knows it; else all of a row is copied, as a captured graph must. last_page_len of CsrTables is not read."""
        found, page_size = self._tables, self._page_size
        if isinstance(tables, DenseTables):
            return self._from_pages(tables, rows)
        width = found.page_table.shape[1]
        if max_kv_len is not None:
            width = min(-(-max_kv_len // page_size), width)
        by_row = self._from_csr if isinstance(tables, CsrTables) else self._from_pool
        first_slots, lengths = by_row(tables, rows, width)
        pages = found.page_table[:rows, : first_slots.shape[1]]
        self._arrays.copy(pages, first_slots)
        if page_size > 1:
            self._arrays.module.floor_divide(pages, page_size, out=pages)
        self._arrays.copy(found.kv_lens[:rows], lengths)
        return found

    def _from_pages(self, tables: DenseTables, rows: int) -> DenseTables:
        found, address = self._tables, self._arrays.address
        if address(tables.page_table) != address(found.page_table):
            width = min(tables.page_table.shape[1], found.page_table.shape[1])
            self._arrays.copy(found.page_table[:rows, :width], tables.page_table[:rows, :width])
        if address(tables.kv_lens) != address(found.kv_lens):
            self._arrays.copy(found.kv_lens[:rows], tables.kv_lens[:rows])
        return found

    def _from_pool(self, tables: Any, rows: int, width: int) -> tuple[Any, Any]:
        """The slot of each page's first token [rows, width or as many as the tables have], and lengths [rows]."""
        first_slots = tables.req_to_token[:, : width * self._page_size : self._page_size]
        return self._arrays.rows_of(first_slots, tables.req_pool_indices[:rows]), tables.kv_lens[:rows]

    def _from_csr(self, tables: Any, rows: int, width: int) -> tuple[Any, Any]:
        """As _from_pool. Entries past a row's end, which are never read, are another row's or the last id."""
        starts = tables.indptr[: rows + 1]
        at = self._arrays.module.clip(starts[:-1, None] + self._page_begins[:width], 0, tables.indices.shape[0] - 1)
        slots = self._arrays.rows_of(tables.indices, at.reshape(-1))
        return slots.reshape(rows, width), starts[1:] - starts[:-1]
