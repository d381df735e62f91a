"""Decode steps of one group of layers, as Trunkline runs them: planned on the GPU once a step, run once a layer."""

from __future__ import annotations

from typing import Any

import torch

from ... import DecodeAttention, DevicePlanning, PreparedStep, Profile
from .beside_prefill import BesidePrefill
from .capability import GroupFacts
from .counters import SAMPLED, CounterLog, Counters, add_group
from .metrics import Metrics
from .settings import settings
from .shadow import Shadow

NULL_PAGE = 0  # vLLM's block 0: of padding, and of no request


class DecodeSteps:
    """Made before graphs are captured: its memory stays where it is. Launches only; nothing waits for the GPU."""

    def __init__(self, facts: GroupFacts, layers: list[str], max_rows: int, most_tokens: int, device: Any) -> None:
        shape = facts.num_qo_heads, facts.num_kv_heads, facts.head_dim, facts.page_size
        profile = Profile.cuda(*shape, dtype=facts.dtype, device=device)
        self.attention = DecodeAttention(
            *shape,
            dtype=facts.dtype,
            device=device,
            kv_layout="HND",
            profile=profile,
            use_cuda_graph=True,
            device_planning=DevicePlanning(max_rows, max_rows * facts.longest_query, null_page=NULL_PAGE),
        )
        nbytes = self.attention.workspace_bytes()
        self.attention.set_workspace(torch.empty(nbytes + 256, dtype=torch.uint8, device=device))
        bytes_per_token = 2 * facts.num_kv_heads * facts.head_dim * 2
        self.counters = Counters(len(layers), bytes_per_token * len(layers))
        self._beside_prefill = BesidePrefill(bytes_per_token, profile.info["read_bytes_per_us"])
        self._log = CounterLog(self.counters, f"{len(layers)} layers from {layers[0]}")
        self._metrics = Metrics(layers[0])
        self.shadow = Shadow(facts, most_tokens, device) if settings().shadow else None
        self.several = facts.longest_query > 1
        self._prepared: dict[int, PreparedStep] = {}
        self._where = 0, 0, 0
        self._looked_at = 0
        add_group(layers[0], self)

    def plan(
        self, block_table: Any, seq_lens: Any, rows: int, query_start_loc: Any, tokens: int, *, counted: bool
    ) -> None:
        """Of the first rows of page tables and lengths, on the GPU, for runs of [tokens, Hq, d]. query_start_loc: None
        for a query token a row. counted: requests of somebody, not of a capture."""
        if query_start_loc is None:
            self.attention.plan_prepared(self._prepare(block_table, seq_lens, rows))
        else:
            self.attention.plan(
                block_table[:rows], seq_lens[:rows], query_start_loc=query_start_loc[: rows + 1], num_queries=tokens
            )
        if self.shadow is not None:
            starts = None if query_start_loc is None else query_start_loc[: rows + 1]
            self.shadow.live(seq_lens[:rows], starts, tokens)
        if counted:
            self._count(rows)

    def _count(self, rows: int) -> None:
        counters = self.counters
        counters.decode_steps += 1
        counters.decode_rows += rows
        if counters.decode_steps - self._looked_at >= SAMPLED:
            self.look()
            self._log.tick()
            self._metrics.tell(counters)

    def _prepare(self, block_table: Any, seq_lens: Any, rows: int) -> PreparedStep:
        """vLLM's arrays stay where they are, so that each number of rows is checked once."""
        where = block_table.data_ptr(), block_table.shape[1], seq_lens.data_ptr()
        if where != self._where:
            self._prepared.clear()
            self._where = where
        step = self._prepared.get(rows)
        if step is None:
            step = self._prepared[rows] = self.attention.prepare(block_table[:rows], seq_lens[:rows])
        return step

    def look(self) -> None:
        """At what the GPU has written about plans by now, without waiting for it."""
        steps = self.counters.decode_steps - self._looked_at
        if steps:
            self._looked_at += steps
            self.counters.take(self.attention.plan_report(), steps)

    def pay_beside_prefill(self, prefill_tokens: int) -> bool:
        """Whether decode rows are ours in a step with so much prefill; in shadow mode they are."""
        return self.shadow is not None or self._beside_prefill.pays(self.attention.plan_report(), prefill_tokens)

    def run(self, query: Any, kv_cache: Any, output: Any, scale: float, tokens: int) -> None:
        """query, output: [tokens and more, Hq, d], of which the first are of the planned rows; kv_cache: [pages, Hkv,
        P, 2 d]."""
        self.attention.run(query, kv_cache, out=output, scale=scale, num_queries=tokens)

    def shadow_report(self) -> dict[str, float] | None:
        return None if self.shadow is None else self.shadow.report()
