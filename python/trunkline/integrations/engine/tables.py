"""Page tables as engines have them, in three forms; arrays of numpy or torch, read in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ... import DecodeAttention, DeviceTables
from ..._device_planner import csr_lengths
from .arrays import Arrays, dtype_name

Writes = list[Callable[[], None]]  # run once a step, in order, before the plan


@dataclass(frozen=True)
class DenseTables:
    """page_table [B, W]: row r's token t is in page page_table[r, t // P]. kv_lens [B]: 0 is padding."""

    page_table: Any
    kv_lens: Any
    int32_lists: ClassVar[tuple[str, ...]] = ("kv_lens",)

    def where(self, arrays: Arrays) -> tuple[int, ...]:
        """Equal for tables that are the same memory in the same shape."""
        return arrays.address(self.page_table), self.page_table.shape[1], arrays.address(self.kv_lens)

    def first(self, rows: int) -> DenseTables:
        """Views of the first rows."""
        return DenseTables(self.page_table[:rows], self.kv_lens[:rows])

    def plan(self, attention: DecodeAttention, step: dict[str, Any]) -> None:
        """Plans a step of all rows. step: the other arguments of DecodeAttention.plan."""
        attention.plan(self.page_table, self.kv_lens, **step)

    def on_gpu(self, lists: Int32Lists, page_size: int, writes: Writes) -> DeviceTables:
        """The tables for a step that is prepared once, in lists of 32 bits. `writes` gets the actions of each step."""
        return DeviceTables(self.kv_lens, page_table=self.page_table)

    def mark_live(self, module: Any, out: Any) -> None:
        """Writes into out [B] which rows have tokens."""
        module.greater(self.kv_lens, 0, out=out)


@dataclass(frozen=True)
class CsrTables:
    """indptr [B + 1], indices [indptr[B] and more]: row r's pages are indices[indptr[r]:indptr[r + 1]]; the last of
    them holds last_page_len[r] tokens. A row without pages is padding."""

    indptr: Any
    indices: Any
    last_page_len: Any
    int32_lists: ClassVar[tuple[str, ...]] = ("indptr", "last_page_len")

    def where(self, arrays: Arrays) -> tuple[int, ...]:
        """Equal for tables that are the same memory in the same shape."""
        address = arrays.address
        return address(self.indptr), address(self.indices), self.indices.shape[0], address(self.last_page_len)

    def first(self, rows: int) -> CsrTables:
        """Views of the first rows."""
        return CsrTables(self.indptr[: rows + 1], self.indices, self.last_page_len[:rows])

    def plan(self, attention: DecodeAttention, step: dict[str, Any]) -> None:
        """Plans a step of all rows. step: the other arguments of DecodeAttention.plan_csr."""
        attention.plan_csr(self.indptr, self.indices, self.last_page_len, **step)

    def on_gpu(self, lists: Int32Lists, page_size: int, writes: Writes) -> DeviceTables:
        """As DenseTables.on_gpu. A write computes lengths, which this form does not have."""
        lengths = lists.memory("kv_lens", self.last_page_len.shape[0])
        writes.append(lambda: lists.write(lengths, csr_lengths(self.indptr, self.last_page_len, page_size)))
        return DeviceTables(lengths, indptr=self.indptr, indices=self.indices)

    def mark_live(self, module: Any, out: Any) -> None:
        """Writes into out [B] which rows have pages."""
        module.greater(self.indptr[1:], self.indptr[:-1], out=out)


@dataclass(frozen=True)
class TokenTables:
    """req_to_token [pool rows, W] with an id a token, page size 1: row r's token t is in place
    req_to_token[req_pool_indices[r], t]. kv_lens [B]: 0 is padding."""

    req_to_token: Any
    req_pool_indices: Any
    kv_lens: Any
    int32_lists: ClassVar[tuple[str, ...]] = ("req_pool_indices", "kv_lens")

    def where(self, arrays: Arrays) -> tuple[int, ...]:
        """Equal for tables that are the same memory in the same shape."""
        address = arrays.address
        return (
            address(self.req_to_token),
            *self.req_to_token.shape,
            *map(address, (self.req_pool_indices, self.kv_lens)),
        )

    def first(self, rows: int) -> TokenTables:
        """Views of the first rows."""
        return TokenTables(self.req_to_token, self.req_pool_indices[:rows], self.kv_lens[:rows])

    def plan(self, attention: DecodeAttention, step: dict[str, Any]) -> None:
        """Plans a step of all rows. step: the other arguments of DecodeAttention.plan_token_level."""
        attention.plan_token_level(self.req_to_token, self.req_pool_indices, self.kv_lens, **step)

    def on_gpu(self, lists: Int32Lists, page_size: int, writes: Writes) -> DeviceTables:
        """As DenseTables.on_gpu."""
        return DeviceTables(self.kv_lens, req_to_token=self.req_to_token, req_pool_indices=self.req_pool_indices)

    def mark_live(self, module: Any, out: Any) -> None:
        """Writes into out [B] which rows have tokens."""
        module.greater(self.kv_lens, 0, out=out)


Tables = DenseTables | CsrTables | TokenTables


class Int32Lists:
    """Memory that stays where it is for an engine's 64-bit lists: planners and graphs read 32-bit lists at fixed
    addresses. Page ids keep their type, which may be either. size: of the longest list."""

    def __init__(self, arrays: Arrays, size: int) -> None:
        self._arrays, self._size = arrays, size
        self._memory: dict[str, Any] = {}

    def memory(self, name: str, count: int) -> Any:
        """The first values of the list of this name."""
        if name not in self._memory:
            self._memory[name] = self._arrays.zeros(self._size, "int32")
        return self._memory[name][:count]

    def write(self, memory: Any, values: Any) -> None:
        """Copies values of any integer type."""
        self._arrays.copy(memory, values)

    def of(self, name: str, values: Any, writes: Writes) -> Any:
        """The list itself where it is of 32 bits; else memory, and `writes` gets the copy, to be run once a step."""
        if dtype_name(values) == "int32":
            return values
        into = self.memory(name, values.shape[0])
        writes.append(lambda: self.write(into, values))
        return into

    def of_tables(self, tables: Tables, writes: Writes) -> Tables:
        """The tables with lists of 32 bits."""
        return replace(tables, **{name: self.of(name, getattr(tables, name), writes) for name in tables.int32_lists})
