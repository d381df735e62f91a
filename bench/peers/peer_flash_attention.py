"""FlashAttention 3 as vLLM's wheel has it: one call for the batch, whose schedule is made once a step."""

from __future__ import annotations

import dataclasses
from functools import partial

import torch
import vllm
from cuda_case import Case
from forest_cascade.cascade import Call
from forest_cascade.flash import Heads, attention, flash_attention, scheduled
from peer_cases import PeerCase
from replay_timers import Work


class FlashAttention:
    """splits: 0, and FlashAttention chooses for this batch; or a bound, as vLLM sets for steps that it captures whole,
    whose batch may change."""

    def __init__(self, case: Case, _: PeerCase, *, splits: int) -> None:
        if flash_attention() != 3:
            raise RuntimeError(f"vLLM takes FlashAttention {flash_attention()} on this GPU; 3 is compared")
        self._case = case
        self._heads = Heads(case.q_heads, case.kv_heads, case.head_dim, case.dtype, case.page_size)
        self._first = torch.from_numpy(case.batch.table).to(case.device)
        starts = torch.arange(case.requests + 1, dtype=torch.int32, device=case.device)
        lens = torch.from_numpy(case.batch.kv_lens).to(case.device)
        self._call = Call(starts, lens, self._first.clone(), 1, case.longest, True, splits, None)
        self.out = torch.empty_like(case.q)
        self.plan()

    def plan(self) -> None:
        self._call = dataclasses.replace(self._call, schedule=scheduled(self._call, self._heads))

    def run(self) -> torch.Tensor:
        scale = self._case.head_dim**-0.5
        attention(self._case.q, *self._case.kv, self._call, scale=scale, version=3, out=self.out)
        return self.out

    def move(self, copy: int) -> None:
        torch.add(self._first, copy * self._case.batch.num_pages, out=self._call.table)

    def work(self, name: str) -> Work:
        return Work(name, [self.run], self.move, self._case.copies)


def version() -> str:
    return f"vLLM {vllm.__version__}"


METHODS = {"fa3": partial(FlashAttention, splits=0), "fa3_splits32": partial(FlashAttention, splits=32)}
