"""The KV cache of all layers as a pool of pages, as engines have one."""

import numpy as np


class KVCache:
    """Pages with reference counts: several requests may use one."""

    def __init__(self, layers: int, pages: int, page_size: int, kv_heads: int, head_dim: int) -> None:
        self.page_size = page_size
        self.k = np.zeros((layers, pages, page_size, kv_heads, head_dim), np.float32)
        self.v = np.zeros_like(self.k)
        self.users = np.zeros(pages, np.int32)
        self._free = list(range(pages))[::-1]

    @property
    def pages(self) -> int:
        return len(self.users)

    @property
    def pages_in_use(self) -> int:
        return int((self.users > 0).sum())

    @property
    def bytes_per_token(self) -> int:
        """Of one layer: keys and values of all KV heads."""
        return 2 * self.k[0, 0, 0].nbytes

    def take(self, count: int = 1) -> list[int]:
        """New pages, with one user."""
        if count > len(self._free):
            raise MemoryError(f"{count} pages are wanted and {len(self._free)} are free")
        pages = [self._free.pop() for _ in range(count)]
        self.users[pages] = 1
        return pages

    def share(self, pages: list[int]) -> list[int]:
        """The same pages, with a user more."""
        self.users[pages] += 1
        return list(pages)

    def release(self, pages: list[int]) -> None:
        self.users[pages] -= 1
        self._free += [page for page in pages if self.users[page] == 0]

    def own_copy(self, page: int) -> int:
        """Copy-on-write: a page of the same content for one user alone, who leaves the shared one."""
        (mine,) = self.take()
        self.k[:, mine], self.v[:, mine] = self.k[:, page], self.v[:, page]
        self.release([page])
        return mine

    def slots(self, pages: list[int], positions: range) -> list[int]:
        """Where a request with these pages keeps the tokens of these positions."""
        return [
            pages[position // self.page_size] * self.page_size + position % self.page_size for position in positions
        ]

    def write(self, layer: int, slots: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
        for cache, new in ((self.k, k), (self.v, v)):
            cache[layer].reshape(-1, *new.shape[1:])[slots] = new

    def layer(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        return self.k[layer], self.v[layer]


def page_table(rows: list[list[int]]) -> np.ndarray:
    """The rows' pages as one array [B, W], as vLLM has it; entries past a row's end are never read."""
    table = np.full((len(rows), max(map(len, rows))), -1, np.int32)
    for row, pages in enumerate(rows):
        table[row, : len(pages)] = pages
    return table
