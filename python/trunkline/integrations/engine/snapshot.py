"""A step's copy of page tables that the engine may overwrite while attention still runs."""

from __future__ import annotations

from .arrays import Arrays
from .tables import DenseTables, TokenTables


class TableSnapshot:
    """Copies the rows of token-level tables into a dense table, in memory that stays where it is.

    An engine whose scheduler works on the next step meanwhile (SGLang's overlap scheduling) may give a request's row
    away before this step's last layer. A shared prefix is read through one member's row, so that such a write would
    reach the other members, too. The copy runs in the order of the device's work, before the plan.

    Ids of tokens become ids of pages: with page_size P, the slots of a page are consecutive and begin at a multiple of
    P, as engines with paged allocators have them.
    """

    def __init__(self, arrays: Arrays, max_rows: int, max_kv_len: int, page_size: int) -> None:
        self._arrays = arrays
        self._page_size = page_size
        self._tables = DenseTables(
            arrays.zeros((max_rows, -(-max_kv_len // page_size)), "int32"), arrays.zeros(max_rows, "int32")
        )

    def take(self, tables: TokenTables, rows: int, max_kv_len: int | None = None) -> DenseTables:
        """The first rows, for DecodeSteps.plan; the same memory each time. max_kv_len: the longest of them, where the
        host knows it; else all of a row is copied, as a captured graph must."""
        found, page_size = self._tables, self._page_size
        longest = tables.req_to_token.shape[1] if max_kv_len is None else max_kv_len
        width = min(-(-longest // page_size), found.page_table.shape[1])
        first_slots = tables.req_to_token[:, : width * page_size : page_size]
        pages = found.page_table[:rows, :width]
        self._arrays.copy(pages, self._arrays.rows_of(first_slots, tables.req_pool_indices[:rows]))
        if page_size > 1:
            self._arrays.module.floor_divide(pages, page_size, out=pages)
        self._arrays.copy(found.kv_lens[:rows], tables.kv_lens[:rows])
        return found
