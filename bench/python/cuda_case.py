"""One decode batch on a GPU, or for trying out on the CPU: the paged cache, what torch reads, the right outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import torch
import trunkline
from replay_timers import Work, rotated_copies
from shared_batches import Batch

HEAD_DIM, PAGE_SIZE = 128, 16
MOST_BYTES = 24 << 30  # of padded keys and values
attention_of = torch.nn.functional.scaled_dot_product_attention


class Case:
    """Tensors of a batch. Caches are copied as often as it takes for a call to find none of them in the L2 cache."""

    def __init__(
        self,
        batch: Batch,
        q_heads: int,
        kv_heads: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        head_dim: int = HEAD_DIM,
        page_size: int = PAGE_SIZE,
    ) -> None:
        torch.manual_seed(1)
        self.batch, self.dtype, self.device = batch, dtype, device
        self.q_heads, self.kv_heads, self.group = q_heads, kv_heads, q_heads // kv_heads
        self.head_dim, self.page_size = head_dim, page_size
        self.lens = batch.kv_lens.tolist()
        self.requests, self.longest = len(self.lens), max(self.lens)
        self.token_bytes = 2 * kv_heads * head_dim * dtype.itemsize
        self.q = torch.randn(self.requests, q_heads, head_dim, dtype=dtype, device=device)
        self.copies = self.copies_of(batch.num_pages * page_size * self.token_bytes)
        shape = (batch.num_pages, page_size, kv_heads, head_dim)
        # k and v, [copies * pages, page, KV heads, head size]
        self.kv = tuple(
            torch.empty(shape, dtype=dtype, device=device).normal_().repeat(self.copies, 1, 1, 1) for _ in range(2)
        )
        self.padded_bytes = self.requests * self.longest * self.token_bytes

    def copies_of(self, nbytes: int) -> int:
        return rotated_copies(nbytes) if self.device.type == "cuda" else 1

    def pages(self, row: int) -> torch.Tensor:
        return torch.tensor(self.batch.rows[row], device=self.device)

    @contextlib.contextmanager
    def only_copy(self, copy: int) -> Iterator[None]:
        """Fills all other copies of K and V with NaN meanwhile, so that a call that reads one of them shows."""
        pages = self.batch.num_pages
        for part in self.kv:
            part[: copy * pages] = torch.nan
            part[(copy + 1) * pages :] = torch.nan
        try:
            yield
        finally:
            for part in self.kv:
                for other in set(range(self.copies)) - {copy}:
                    part[other * pages : (other + 1) * pages] = part[copy * pages : (copy + 1) * pages]

    def by_kv_head(self, q: torch.Tensor) -> torch.Tensor:
        """[B, q_heads, d] as [B, kv_heads, group, d]: the query heads of a KV head are query tokens of one head."""
        return q.view(-1, self.kv_heads, self.group, self.head_dim)

    def right(self) -> torch.Tensor:
        """Attention in fp32, a request at a time, from the pages."""
        outputs = []
        for row, q in enumerate(self.by_kv_head(self.q).float()):
            k, v = (part[self.pages(row)].flatten(0, 1)[: self.lens[row]].transpose(0, 1).float() for part in self.kv)
            outputs.append(torch.softmax(q @ k.transpose(1, 2) / self.head_dim**0.5, dim=-1) @ v)
        return torch.stack(outputs).view(self.q.shape)


class Ours:
    """DecodeAttention of one policy, made for graphs; eager calls are of the same plan."""

    def __init__(self, case: Case, policy: str) -> None:
        self._case = case
        self._pages = case.batch.num_pages * case.copies
        self.out = torch.empty_like(case.q)
        self._cuda = case.device.type == "cuda"
        self.attention = trunkline.DecodeAttention(
            case.q_heads,
            case.kv_heads,
            case.head_dim,
            case.page_size,
            dtype=case.dtype,
            device=case.device,
            policy=policy,
            use_cuda_graph=self._cuda,
            max_queries=case.requests if self._cuda else 0,
        )
        self._table = torch.from_numpy(case.batch.table)
        self._lens = torch.from_numpy(case.batch.kv_lens)
        self._tables = None
        if self._cuda:
            self._first = self._table.to(case.device)
            self._ids = self._first.clone()
            self._tables = trunkline.DeviceTables(self._lens.to(case.device), page_table=self._ids)
        self.plan()

    def plan(self) -> None:
        self.attention.plan(self._table, self._lens, num_pages=self._pages, device_tables=self._tables)

    def run(self) -> torch.Tensor:
        return self.attention.run(self._case.q, self._case.kv, out=self.out)

    def move(self, copy: int) -> None:
        """To another copy of the cache, outside of what is timed."""
        torch.add(self._first, copy * self._case.batch.num_pages, out=self._ids)
        self.attention.resolve()

    def work(self, name: str) -> Work:
        return Work(name, [self.run], self.move if self._cuda else None, self._case.copies)


class Gathered:
    """Keys and values gathered from the pages beforehand: one request after another, or padded to the longest."""

    def __init__(self, case: Case, *, padded: bool) -> None:
        self._case = case
        width = -(-case.longest // case.page_size)
        rows = [row + row[:1] * (width - len(row)) for row in case.batch.rows] if padded else case.batch.rows
        ids = torch.tensor([page for row in rows for page in row], device=case.device)
        nbytes = len(ids) * case.page_size * case.token_bytes
        shape = (case.copies_of(nbytes), len(ids), case.page_size, case.kv_heads, case.head_dim)
        # Pages of a copy of the cache for each copy of what is gathered.
        self._ids = [ids + copy % case.copies * case.batch.num_pages for copy in range(shape[0])]
        self._parts = tuple(torch.empty(shape, dtype=case.dtype, device=case.device) for _ in range(2))
        for copy in range(shape[0]):
            self.gather(copy)
        self._calls: list[Callable[[], torch.Tensor]] = []
        for copy in range(shape[0]):
            tokens = [part[copy].flatten(0, 1) for part in self._parts]
            self._calls.append(self._padded_call(tokens, width) if padded else self._request_calls(tokens))

    def gather(self, copy: int = 0) -> torch.Tensor:
        for to, part in zip(self._parts, self._case.kv):
            torch.index_select(part, 0, self._ids[copy], out=to[copy])
        return self._parts[1][copy]

    def work(self, name: str) -> Work:
        return Work(name, self._calls)

    def gathering(self, name: str) -> Work:
        return Work(name, [partial(self.gather, copy) for copy in range(len(self._calls))])

    def _request_calls(self, tokens: list[torch.Tensor]) -> Callable[[], torch.Tensor]:
        case, pairs, begin = self._case, [], 0
        for pages, kv_len in zip(case.batch.rows, case.lens):
            pairs.append([part[begin : begin + kv_len].transpose(0, 1)[None] for part in tokens])
            begin += len(pages) * case.page_size
        q = case.by_kv_head(case.q)[:, None]

        def per_request() -> torch.Tensor:
            return torch.cat([attention_of(q[row], *pair) for row, pair in enumerate(pairs)])

        return per_request

    def _padded_call(self, tokens: list[torch.Tensor], width: int) -> Callable[[], torch.Tensor]:
        case = self._case
        shape = (case.requests, width * case.page_size, case.kv_heads, case.head_dim)
        pair = [part.view(shape).transpose(1, 2)[:, :, : case.longest] for part in tokens]
        mask = None
        if min(case.lens) < case.longest:
            at = torch.arange(case.longest, device=case.device)
            mask = (at < torch.tensor(case.lens, device=case.device)[:, None])[:, None, None]
        q = case.by_kv_head(case.q)

        def on_padded() -> torch.Tensor:
            return attention_of(q, *pair, attn_mask=mask)

        return on_padded
