"""FlashInfer's wrappers for decode steps and for cascades, in the form that a captured graph needs."""

from __future__ import annotations

import functools
from functools import partial

import flashinfer
import numpy as np
import torch
from cuda_case import Case
from peer_cases import PeerCase
from replay_timers import Work

# Several times the 128 MB that the documentation recommends: partial results of 1,024 requests need more.
WORKSPACE_BYTES = 768 << 20
MAX_LEVELS = 2


@functools.cache
def workspace(device: torch.device) -> torch.Tensor:
    """One for all wrappers, which run one after another."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)


def on_host(values: object) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int32))


class Pages:
    """Page ids that a wrapper's graph reads, in a buffer that moves between copies of the cache."""

    def __init__(self, case: Case, ids: object) -> None:
        self._step = case.batch.num_pages
        self.first = on_host(ids).to(case.device)
        self.buffer = self.first.clone()

    def move(self, copy: int) -> None:
        torch.add(self.first, copy * self._step, out=self.buffer)


class Decode:
    """BatchDecodeWithPagedKVCacheWrapper: one request at a time."""

    def __init__(self, case: Case, _: PeerCase, *, tensor_cores: bool) -> None:
        self._case = case
        counts = [len(row) for row in case.batch.rows]
        self._begins = on_host(np.cumsum([0, *counts]))
        self._last = on_host([(tokens - 1) % case.page_size + 1 for tokens in case.lens])
        self._pages = Pages(case, np.concatenate(case.batch.rows))
        self._wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            workspace(case.device),
            "NHD",
            use_cuda_graph=True,
            use_tensor_cores=tensor_cores,
            paged_kv_indptr_buffer=self._begins.to(case.device),
            paged_kv_indices_buffer=self._pages.buffer,
            paged_kv_last_page_len_buffer=self._last.to(case.device),
        )
        self.out = torch.empty_like(case.q)
        self.plan()

    def plan(self) -> None:
        case = self._case
        heads = case.q_heads, case.kv_heads, case.head_dim, case.page_size
        types = {"q_data_type": case.dtype, "kv_data_type": case.dtype}
        self._wrapper.plan(self._begins, self._pages.first, self._last, *heads, **types)

    def run(self) -> torch.Tensor:
        return self._wrapper.run(self._case.q, self._case.kv, out=self.out)

    def move(self, copy: int) -> None:
        self._pages.move(copy)

    def work(self, name: str) -> Work:
        return Work(name, [self.run], self.move, self._case.copies)


class Cascade:
    """MultiLevelCascadeAttentionWrapper: a call for each level of the tree, which it must be given, and merges."""

    def __init__(self, case: Case, levels: list) -> None:
        self._case = case
        self._pages = [Pages(case, level.pages) for level in levels]
        self._queries = [on_host(level.query_begins) for level in levels]
        self._begins = [on_host(level.page_begins) for level in levels]
        self._last = [on_host(level.last_page_tokens) for level in levels]
        self._wrapper = flashinfer.MultiLevelCascadeAttentionWrapper(
            len(levels),
            workspace(case.device),
            "NHD",
            use_cuda_graph=True,
            qo_indptr_buf_arr=[values.to(case.device) for values in self._queries],
            paged_kv_indptr_buf_arr=[values.to(case.device) for values in self._begins],
            paged_kv_indices_buf_arr=[pages.buffer for pages in self._pages],
            paged_kv_last_page_len_buf_arr=[values.to(case.device) for values in self._last],
        )
        self.out = torch.empty(0)
        self.plan()

    def plan(self) -> None:
        case = self._case
        ids = [pages.first for pages in self._pages]
        heads = case.q_heads, case.kv_heads, case.head_dim, case.page_size
        types = {"q_data_type": case.dtype, "kv_data_type": case.dtype}
        self._wrapper.plan(self._queries, self._begins, ids, self._last, *heads, **types)

    def run(self) -> torch.Tensor:
        self.out = self._wrapper.run(self._case.q, self._case.kv)  # it takes no output
        return self.out

    def move(self, copy: int) -> None:
        for pages in self._pages:
            pages.move(copy)

    def work(self, name: str) -> Work:
        return Work(name, [self.run], self.move, self._case.copies)


def cascade(case: Case, chosen: PeerCase) -> Cascade | None:
    """Of trees with at most two levels: its own documentation warns of more."""
    levels = chosen.levels(case.batch)
    return Cascade(case, levels) if levels is not None and len(levels) <= MAX_LEVELS else None


def version() -> str:
    return f"FlashInfer {flashinfer.__version__}"


METHODS = {
    "flashinfer_decode": partial(Decode, tensor_cores=False),
    "flashinfer_decode_tc": partial(Decode, tensor_cores=True),
    "flashinfer_cascade": cascade,
}
