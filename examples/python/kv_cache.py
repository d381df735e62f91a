"""The KV cache of all layers as a pool of pages, as engines have one. Branches have SequenceTree instead."""

import numpy as np
from trunkline.runtime.kv_cache import KVCache as Tensors


class KVCache(Tensors):
    """Pages with reference counts: several requests may use one."""

    def __init__(self, layers: int, pages: int, page_size: int, kv_heads: int, head_dim: int) -> None:
        shape = (pages, page_size, kv_heads, head_dim)
        super().__init__([(np.zeros(shape, np.float32), np.zeros(shape, np.float32)) for _ in range(layers)])
        self.pages, self.page_size = pages, page_size
        self.bytes_per_token = 2 * 4 * kv_heads * head_dim  # of one layer: keys and values of all KV heads
        self.users = np.zeros(pages, np.int32)

    @property
    def pages_in_use(self) -> int:
        return int((self.users > 0).sum())

    def take(self, count: int = 1) -> list[int]:
        """New pages, with one user."""
        free = np.flatnonzero(self.users == 0)[:count]
        if len(free) < count:
            raise MemoryError(f"{count} pages are wanted and {len(free)} are free")
        self.users[free] = 1
        return free.tolist()

    def share(self, pages: list[int]) -> list[int]:
        """The same pages, with a user more."""
        self.users[pages] += 1
        return list(pages)

    def own_copy(self, page: int) -> int:
        """Copy-on-write: a page of the same content for one user alone, who leaves the shared one."""
        (mine,) = self.take()
        self.copy(np.arange(self.page_size)[:, None] + np.array([page, mine]) * self.page_size)
        self.users[page] -= 1
        return mine

    def slots(self, pages: list[int], positions: range) -> list[int]:
        """Where a request with these pages keeps the tokens of these positions."""
        return [pages[at // self.page_size] * self.page_size + at % self.page_size for at in positions]


def page_table(rows: list[list[int]]) -> np.ndarray:
    """The rows' pages as one array [B, W], as vLLM has it; entries past a row's end are never read."""
    table = np.full((len(rows), max(map(len, rows))), -1, np.int32)
    for row, pages in enumerate(rows):
        table[row, : len(pages)] = pages
    return table
