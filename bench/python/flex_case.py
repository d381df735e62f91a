"""torch's flex attention on a case: one compiled call over the pages, whose mask says which request sees which.

Needs what torch.compile needs: Triton, and a C compiler."""

from __future__ import annotations

from collections.abc import Callable

import torch
from cuda_case import HEAD_DIM, PAGE_SIZE, Case
from replay_timers import Work
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

MOST_ROWS = 127  # flex attention divides KV among the GPU's cores only below 128 query tokens
BLOCK = 128


class Flex:
    """Keys and values are the cache's pages in their order, [1, kv_heads, tokens, d], gathered beforehand.

    The query heads of a KV head are query tokens of one head. Requests, which are in the order of the tree, go in
    groups of at most 127 such tokens, a batch entry each: that is what lets flex attention split KV.
    """

    def __init__(self, case: Case, *, compiled: bool = True) -> None:
        groups = -(-case.requests * case.group // MOST_ROWS)
        self._case = case
        self._per_group = -(-case.requests // groups)
        self._groups = -(-case.requests // self._per_group)
        tokens = -(-case.batch.num_pages * PAGE_SIZE // BLOCK) * BLOCK
        # The pages of each copy of the cache, padded to a whole block with zeros, which are masked.
        self._kv = [[self._packed(part, copy, tokens) for part in case.kv] for copy in range(case.copies)]
        self._q = self._grouped(case.q)
        self._mask = create_block_mask(self._sees(tokens), self._groups, None, self._q.shape[2], tokens, case.device)
        torch.compiler.reset()  # cases are compiled one by one, and only so many of a function are kept
        self._attention = torch.compile(flex_attention, dynamic=False) if compiled else flex_attention

    def run(self, copy: int = 0) -> torch.Tensor:
        out = self._attention(self._q, *self._kv[copy], block_mask=self._mask)
        by_request = out.unflatten(2, (self._per_group, self._case.group)).transpose(1, 2).flatten(0, 1)
        return by_request[: self._case.requests]

    def work(self, name: str) -> Work:
        def call(copy: int) -> Callable[[], torch.Tensor]:
            return lambda: self._attention(self._q, *self._kv[copy], block_mask=self._mask)

        return Work(name, [call(copy) for copy in range(self._case.copies)])

    def _packed(self, part: torch.Tensor, copy: int, tokens: int) -> torch.Tensor:
        pages = self._case.batch.num_pages
        packed = part.new_zeros(1, self._case.kv_heads, tokens, HEAD_DIM)
        packed[0, :, : pages * PAGE_SIZE] = part[copy * pages : (copy + 1) * pages].flatten(0, 1).transpose(0, 1)
        return packed

    def _grouped(self, q: torch.Tensor) -> torch.Tensor:
        """[B, q_heads, d] as [groups, kv_heads, requests of a group * query heads of a KV head, d]"""
        case = self._case
        padded = q.new_zeros(self._groups * self._per_group, case.kv_heads, case.group, HEAD_DIM)
        padded[: case.requests] = case.by_kv_head(q)
        return padded.unflatten(0, (self._groups, self._per_group)).transpose(1, 2).flatten(2, 3).contiguous()

    def _sees(self, tokens: int) -> Callable[..., torch.Tensor]:
        """Whether a query token sees a token of the cache: the request has its page, and reaches so far into it."""
        case, per_group, group = self._case, self._per_group, self._case.group
        # Rows beyond the requests, as kernels ask the mask for whole tiles of query tokens.
        seen = torch.zeros(self._groups * per_group + BLOCK, tokens // PAGE_SIZE, dtype=torch.int32)
        for row, pages in enumerate(case.batch.rows):
            seen[row, pages] = PAGE_SIZE
            seen[row, pages[-1]] = (case.lens[row] - 1) % PAGE_SIZE + 1
        seen = seen.to(case.device)

        def mask(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
            return kv % PAGE_SIZE < seen[b * per_group + q // group, kv // PAGE_SIZE]

        return mask
