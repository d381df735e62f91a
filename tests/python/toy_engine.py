"""Toy, a made-up serving engine on the CPU with numpy, for which docs/guides/engines.md writes an adapter.

It does not know Trunkline.

A scheduler with a prefix cache gives out pages. Decode rows come first in a batch, prefill rows behind them. A batch of
decode rows may be padded, with rows that have a query token and length 0. Page 0 is given to no request.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import oracle

VERSION = "1.2"
BACKENDS: dict[str, type[Backend]] = {}  # of plug-ins, by name


@dataclass(frozen=True)
class Config:
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    page_size: int = 16
    dtype: str = "float32"
    sliding_window: int | None = None
    layers: tuple[str, ...] = ("layers.0", "layers.1")
    max_rows: int = 16
    max_tokens: int = 256
    num_pages: int = 256
    max_kv_len: int = 4096


@dataclass
class Batch:
    """query_start_loc [B + 1], page_table [B, W], kv_lens [B]: this step's tokens included."""

    query_start_loc: np.ndarray
    page_table: np.ndarray
    kv_lens: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.kv_lens)

    @property
    def tokens(self) -> int:
        return int(self.query_start_loc[-1])

    def behind(self, rows: int) -> Batch:
        """The batch without its first rows. Query tokens stay where they are."""
        return Batch(self.query_start_loc[rows:], self.page_table[rows:], self.kv_lens[rows:])


class Backend:
    """Toy's own attention: reads each request's pages by itself. rows_run: requests in all its calls."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.rows_run = 0

    def begin_step(self, batch: Batch) -> None:
        """Once a step."""

    def forward(self, query: np.ndarray, k: np.ndarray, v: np.ndarray, batch: Batch, output: np.ndarray) -> None:
        """Once a layer. query, output [T, Hq, d]; k, v [pages, P, Hkv, d]."""
        self.rows_run += batch.rows
        first, starts = int(batch.query_start_loc[0]), batch.query_start_loc
        found, _ = oracle.attention(
            query[first : starts[-1]], k, v, batch.page_table, batch.kv_lens, query_start=starts - first
        )
        output[first : starts[-1]] = found


@dataclass
class Scheduler:
    """Requests that share a system prompt; `step` makes a batch and the tensors of its layers."""

    config: Config
    seed: int = 0
    requests: list[tuple[list[int], int]] = field(default_factory=list)  # pages and tokens
    free: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.free = self.random.permutation(np.arange(1, self.config.num_pages)).tolist()
        shape = self.config.num_pages, self.config.page_size, self.config.num_kv_heads, self.config.head_dim
        self.k, self.v = self.random.standard_normal((2, *shape)).astype(self.config.dtype)
        self.prompt = [self.free.pop() for _ in range(5)]

    def add(self, count: int, *, shared: bool) -> None:
        for _ in range(count):
            pages = [*(self.prompt if shared else []), self.free.pop(), self.free.pop()]
            inside = int(self.random.integers(1, self.config.page_size))
            self.requests.append((pages, (len(pages) - 1) * self.config.page_size + inside))

    def step(self, *, prefill: int = 0, padding: int = 0) -> tuple[Batch, np.ndarray]:
        """A query token for each request and each row of padding; the last request has `prefill` instead, if any."""
        rows = len(self.requests) + padding
        counts = [1] * rows
        if prefill:
            assert not padding
            counts[-1] = prefill
        table = np.zeros((rows, 1 + max(len(pages) for pages, _ in self.requests)), np.int32)
        lengths = np.zeros(rows, np.int32)
        for row, (pages, tokens) in enumerate(self.requests):
            table[row, : len(pages)] = pages
            lengths[row] = tokens
        starts = np.cumsum([0, *counts]).astype(np.int32)
        query = self.random.standard_normal((int(starts[-1]), self.config.num_heads, self.config.head_dim))
        return Batch(starts, table, lengths), query.astype(self.config.dtype)
