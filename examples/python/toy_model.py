"""A transformer of random weights, attention only, in fp32: tokens that depend on all tokens before them."""

from collections.abc import Callable

import numpy as np


class ToyModel:
    """Grouped-query attention with residuals and RMS norms, no position encoding.

    The unembedding is not the embedding, so that the next token depends mostly on the last one and somewhat on all
    others: a draft that looks at the last token alone is often right.
    """

    def __init__(
        self, layers: int = 2, vocabulary: int = 512, q_heads: int = 8, kv_heads: int = 2, head_dim: int = 64
    ) -> None:
        random = np.random.default_rng(7)
        width = 256

        def weights(*shape: int) -> np.ndarray:
            return random.standard_normal(shape, np.float32) / np.float32(shape[-2] ** 0.5)

        self.layers, self.vocabulary = layers, vocabulary
        self.q_heads, self.kv_heads, self.head_dim = q_heads, kv_heads, head_dim
        self.embedding = random.standard_normal((vocabulary, width), np.float32)
        self.unembedding = weights(width, vocabulary)
        self.to_q = 2 * weights(layers, width, q_heads * head_dim)  # sharper than random: attention picks tokens
        self.to_k = weights(layers, width, kv_heads * head_dim)
        self.to_v = weights(layers, width, kv_heads * head_dim)
        self.back = weights(layers, q_heads * head_dim, width)

    def step(self, tokens: np.ndarray, slots: np.ndarray, cache: "KVCache", attend: Callable) -> np.ndarray:
        """One decode step. tokens [T]; slots [T]: the cache slots of their keys and values; attend(q, (k, v)) is called
        once a layer, when the step's keys and values are in the cache. Returns logits [T, vocabulary]."""
        hidden = self.embedding[tokens]
        for layer in range(self.layers):
            x = normalised(hidden)
            q = (x @ self.to_q[layer]).reshape(-1, self.q_heads, self.head_dim)
            k = (x @ self.to_k[layer]).reshape(-1, self.kv_heads, self.head_dim)
            v = (x @ self.to_v[layer]).reshape(-1, self.kv_heads, self.head_dim)
            cache.write(layer, slots, k, v)
            hidden = hidden + attend(q, cache.layer(layer)).reshape(len(tokens), -1) @ self.back[layer]
        return self.logits(hidden)

    def guess(self, tokens: np.ndarray) -> np.ndarray:
        """Logits of the next token by the last one alone, a draft model."""
        return self.logits(self.embedding[tokens])

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        return normalised(hidden) @ self.unembedding


def normalised(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6))


class KVCache:
    """A pool of pages for all layers, with reference counts, as engines have one."""

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
        return [pages[position // self.page_size] * self.page_size + position % self.page_size for position in positions]

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
