"""Plain attention, one request at a time, which knows nothing of sharing; and what sharing saved against it."""

from collections.abc import Sequence

import numpy as np


def plain_attention(q: np.ndarray, keys: np.ndarray, values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """One request in fp64. q [n, Hq, d]; keys, values [kv_len, Hkv, d]; seen [n, kv_len]: what a token sees."""
    count, _, head_dim = q.shape
    kv_heads, kv_len = keys.shape[1], len(keys)
    # A KV head's query heads and tokens are rows of one product.
    rows = q.astype(np.float64).reshape(count, kv_heads, -1, head_dim).transpose(1, 2, 0, 3)
    k, v = (x.astype(np.float64).transpose(1, 0, 2) for x in (keys, values))
    logits = rows.reshape(kv_heads, -1, head_dim) @ k.swapaxes(1, 2) / head_dim**0.5
    logits = np.where(seen, logits.reshape(kv_heads, -1, count, kv_len), -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    out = (weights.reshape(kv_heads, -1, kv_len) @ v).reshape(rows.shape)
    return out.transpose(2, 0, 1, 3).reshape(q.shape)


def causal(kv_len: int, queries: int, parents: Sequence[int] | None = None) -> np.ndarray:
    """[queries, kv_len]: each of the last tokens sees those before it and itself; of a token tree, its path."""
    if parents is None:
        return np.arange(kv_len) <= np.arange(kv_len - queries, kv_len)[:, None]
    tree = np.eye(queries, dtype=bool)
    for token, parent in enumerate(parents):
        if parent >= 0:
            tree[token] |= tree[parent]
    return np.hstack([np.ones((queries, kv_len - queries), bool), tree])


class Check:
    """Compares a layer's output with plain attention of each request, and remembers the largest difference."""

    def __init__(self, tolerance: float = 2e-5) -> None:
        self.tolerance = tolerance
        self.worst = 0.0

    def __call__(
        self,
        out: np.ndarray,
        q: np.ndarray,
        kv: tuple[np.ndarray, np.ndarray],
        rows: Sequence[Sequence[int]],
        kv_lens: Sequence[int],
        queries: Sequence[int] | None = None,
        parents: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """out, q [T, Hq, d]; rows: the requests' pages; queries: their query tokens, by default one; parents: of their
        token trees."""
        begin = 0
        for row, (pages, kv_len) in enumerate(zip(rows, kv_lens)):
            end = begin + (1 if queries is None else queries[row])
            keys, values = (cache[list(pages)].reshape(-1, *cache.shape[2:])[:kv_len] for cache in kv)
            seen = causal(kv_len, end - begin, None if parents is None else parents[row])
            right = plain_attention(q[begin:end], keys, values, seen)
            self.worst = max(self.worst, float(np.abs(out[begin:end] - right).max()))
            begin = end
        if not self.worst < self.tolerance:
            raise SystemExit(
                f"attention differs from plain attention by {self.worst:.1e}; allowed: {self.tolerance:.1e}"
            )


class Savings:
    """Bytes of KV cache read by Trunkline's plans, and by one request at a time."""

    def __init__(self, bytes_per_token: int, layers: int) -> None:
        self._bytes = bytes_per_token * layers
        self.steps = self.alone = self.read = self.distinct = 0

    def add(self, statistics, kv_tokens: int | None = None) -> None:
        """A step's plan (trunkline.Statistics). kv_tokens: the sum of lengths by now, where plans are kept while
        requests grow: a plan's figures are of the step it was made for, and what grew since is each request's own."""
        grown = 0 if kv_tokens is None else kv_tokens - statistics.kv_tokens_total
        self.steps += 1
        self.alone += statistics.kv_tokens_total + grown
        self.read += statistics.kv_tokens_read + grown
        self.distinct += statistics.kv_tokens_distinct + grown

    def __str__(self) -> str:
        alone, read, distinct = (tokens * self._bytes / 1e6 for tokens in (self.alone, self.read, self.distinct))
        return (
            f"KV read in {self.steps} steps: {alone:.1f} MB one request at a time, {read:.1f} MB with Trunkline: "
            f"{1 - read / alone:.0%} saved ({distinct:.1f} MB are distinct)"
        )
