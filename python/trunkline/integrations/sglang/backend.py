"""The backend that SGLang's registry makes: fa3's, with decode rows on Trunkline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.layers.attention.flashattention_backend import FlashAttentionBackend

from ..engine import DecodeSteps, DenseTables, Engine, LayerFacts, TableSnapshot, TorchArrays, make_steps
from . import cache_write
from .runner_facts import Group

# Memory for the snapshot of steps without graphs. A server without graphs may have thousands of rows of the longest
# context, of which few are in use; steps with more rows than fit are the parent's.
MAX_SNAPSHOT_BYTES = 512 << 20


class TrunklineAttnBackend(FlashAttentionBackend):
    """Once a step the parent makes its metadata, with a page table and lengths of its own that the scheduler does not
    write to; Trunkline plans on these. All that is not planned runs in the parent, layer by layer: extend and prefill
    steps, layers outside `group`, and calls with arguments that our kernels do not take.

    group: the layers that are ours. facts: what they ask. whole: the model has no others.
    """

    def __init__(self, runner: Any, engine: Engine, group: Group, facts: LayerFacts, *, whole: bool) -> None:
        super().__init__(runner)
        self.steps: DecodeSteps | None = None
        self._engine, self._group, self._facts = engine, group, facts
        self._is_made = False  # whether steps were made, or tried
        self._drafts = facts.longest_query
        self._whole = whole
        self._pool_rows = int(runner.req_to_token_pool.req_to_token.shape[0])
        self._snapshot: TableSnapshot | None = None
        self._memory: DenseTables | None = None  # the parent's, for steps in graphs
        self._query_starts: Any = None
        self._tokens = 0  # query tokens of this step, by Trunkline; 0: the step is the parent's
        self._has_no_use_for_schedules = False

    # -- Once a step

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int, *rest: Any, **more: Any) -> None:
        """Graphs read the parent's table, which it fills before each replay: so plans and steps without graphs use the
        same one. Made anew, it ends what was planned for the former."""
        super().init_cuda_graph_state(max_bs, max_num_tokens, *rest, **more)
        held = self.target_verify_metadata if self._drafts > 1 else self.decode_cuda_graph_metadata
        self._memory = DenseTables(held["page_table"], held["cache_seqlens"])
        self.steps, self._is_made = None, False

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Of steps without graphs. Those without names of requests are warm-ups, made up before there are graphs."""
        if getattr(forward_batch, "rids", None) is None:
            self._tokens, self._has_no_use_for_schedules = 0, False
            super().init_forward_metadata(forward_batch)
            return
        self._begin_step(
            forward_batch.forward_mode,
            forward_batch.spec_info,
            int(forward_batch.batch_size),
            lambda: super(TrunklineAttnBackend, self).init_forward_metadata(forward_batch),
        )

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """From 0.5.17 on, before a graph is captured and before each replay."""
        self._begin_step(
            forward_batch.forward_mode,
            forward_batch.spec_info,
            int(forward_batch.batch_size),
            lambda: super(TrunklineAttnBackend, self).init_forward_metadata_out_graph(forward_batch, in_capture),
            in_graph=True,
            counted=not in_capture,
        )

    def init_forward_metadata_capture_cuda_graph(
        self,
        bs: int,
        num_tokens: int,
        req_pool_indices: Any,
        seq_lens: Any,
        encoder_lens: Any,
        forward_mode: Any,
        spec_info: Any,
    ) -> None:
        """Up to 0.5.12."""
        given = bs, num_tokens, req_pool_indices, seq_lens, encoder_lens, forward_mode, spec_info
        self._begin_step(
            forward_mode,
            spec_info,
            bs,
            lambda: super(TrunklineAttnBackend, self).init_forward_metadata_capture_cuda_graph(*given),
            in_graph=True,
            counted=False,
        )

    def init_forward_metadata_replay_cuda_graph(
        self,
        bs: int,
        req_pool_indices: Any,
        seq_lens: Any,
        seq_lens_sum: Any,
        encoder_lens: Any,
        forward_mode: Any,
        spec_info: Any,
        *rest: Any,
        **more: Any,
    ) -> None:
        """Up to 0.5.12."""
        given = bs, req_pool_indices, seq_lens, seq_lens_sum, encoder_lens, forward_mode, spec_info, *rest
        self._begin_step(
            forward_mode,
            spec_info,
            bs,
            lambda: super(TrunklineAttnBackend, self).init_forward_metadata_replay_cuda_graph(*given, **more),
            in_graph=True,
        )

    def _compute_scheduler_metadata(self, *given: Any, **named: Any) -> Any:
        """Of the parent's kernel: three launches a step, for nothing where no layer runs it."""
        if self._has_no_use_for_schedules:
            return None
        return super()._compute_scheduler_metadata(*given, **named)

    def _begin_step(
        self,
        mode: Any,
        spec_info: Any,
        rows: int,
        make_theirs: Callable[[], None],
        *,
        in_graph: bool = False,
        counted: bool = True,
    ) -> None:
        """make_theirs: has the parent make its metadata, which it needs for the layers that run there."""
        self._tokens = 0
        a_row = self._queries_of(mode, spec_info)
        steps = self._steps_for(rows) if a_row else None
        taken = steps is not None and steps.takes(rows, rows, replayed=in_graph)
        self._has_no_use_for_schedules = taken and self._whole and steps is not None and steps.shadow is None
        make_theirs()
        if steps is None or not taken or self._snapshot is None:
            return
        found = self.forward_metadata
        tables = self._snapshot.take(DenseTables(found.page_table, found.cache_seqlens_int32), rows)
        starts = self._query_starts[: rows + 1] if a_row > 1 else None
        steps.plan(tables, rows, starts, rows * a_row, counted=counted)
        self._tokens = rows * a_row

    def _queries_of(self, mode: Any, spec_info: Any) -> int:
        """Query tokens of each row, by Trunkline; 0: the step is the parent's."""
        if mode.is_decode():
            return 1 if spec_info is None else 0
        if mode.is_target_verify() and self._drafts > 1:
            ragged = getattr(spec_info, "ragged_verify_layout", None)
            return self._drafts if ragged is None else 0
        return 0

    def _steps_for(self, rows: int) -> DecodeSteps | None:
        """None where the step's rows are none, or more than the snapshot has room for."""
        if not self._is_made:
            self._make_steps()
        if self.steps is None or self._snapshot is None or not 0 < rows <= self._snapshot.max_rows:
            return None
        return self.steps

    def _make_steps(self) -> None:
        """At the first step, once: what is allocated with the backend would be taken from the KV cache."""
        self._is_made = True
        arrays = TorchArrays(device_of(self.device))
        longest = self.max_context_len + self._drafts
        max_rows = self._pool_rows
        if self._memory is not None:
            max_rows = int(self._memory.kv_lens.shape[0])
        else:
            max_rows = max(1, min(max_rows, MAX_SNAPSHOT_BYTES // (4 * -(-longest // self.page_size))))
        self.steps = make_steps(
            self._engine,
            self._facts,
            self._group.names,
            arrays,
            max_rows=max_rows,
            max_tokens=max_rows * self._drafts,
            max_kv_len=self.max_context_len,
        )
        if self.steps is not None:
            self._snapshot = TableSnapshot(arrays, max_rows, longest, self.page_size, self._memory)
            self._query_starts = arrays.zeros(max_rows + 1, "int32")
            arrays.copy(self._query_starts, torch.arange(max_rows + 1) * self._drafts)

    # -- Once a layer

    def forward_decode(
        self,
        q: Any,
        k: Any,
        v: Any,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> Any:
        run_theirs = super().forward_decode
        if not self._runs(q, layer, kwargs):
            return run_theirs(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        return self._forward(run_theirs, q, k, v, layer, forward_batch, save_kv_cache, kwargs.get("sinks"))

    def forward_extend(
        self,
        q: Any,
        k: Any,
        v: Any,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Prefill, and the verification of drafts, whose rows are ours."""
        run_theirs = super().forward_extend
        if not forward_batch.forward_mode.is_target_verify() or not self._runs(q, layer, kwargs):
            return run_theirs(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)
        return self._forward(run_theirs, q, k, v, layer, forward_batch, save_kv_cache, kwargs.get("sinks"))

    def _runs(self, q: Any, layer: Any, kwargs: dict[str, Any]) -> bool:
        """Whether the layer's call is ours. A tensor for scales and so on is what our kernels do not take."""
        asks = any(value is not None and value is not False for name, value in kwargs.items() if name != "sinks")
        return 0 < self._tokens == q.shape[0] and layer.layer_id in self._group.ids and not asks

    def _forward(
        self,
        run_theirs: Any,
        q: Any,
        k: Any,
        v: Any,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool,
        sinks: Any,
    ) -> Any:
        """q [T, Hq * d]; k, v [T, Hkv, d], or None where they are in the cache. Returns [T, Hq * d]."""
        steps: Any = self.steps
        shape = -1, layer.tp_q_head_num, layer.head_dim
        given = getattr(forward_batch, "_attn_output", None)
        if steps.shadow is not None:
            theirs = run_theirs(q, k, v, layer, forward_batch, save_kv_cache, **_given(sinks=sinks))
            found = torch.empty_like(theirs.view(shape))
            self._run(steps, self._as_theirs(q).reshape(shape), layer, forward_batch, found, sinks)
            steps.shadow.compare(found, theirs.view(shape))
            return theirs
        if k is not None and save_kv_cache:
            cache_write.write(self, layer, forward_batch, k, v)
        output = q.new_empty((q.shape[0], layer.tp_q_head_num, layer.head_dim)) if given is None else given.view(shape)
        self._run(steps, q.reshape(shape), layer, forward_batch, output, sinks)
        return output.view(-1, layer.tp_q_head_num * layer.head_dim)

    def _as_theirs(self, q: Any) -> Any:
        """Queries with the values that the parent's kernel gets: it rounds them to a narrow cache's type. What that
        changes depends on the model; with equal queries the kernels are compared."""
        facts = self._facts
        return q.to(getattr(torch, facts.kv_dtype)).to(q.dtype) if facts.is_narrow else q

    def _run(self, steps: DecodeSteps, query: Any, layer: Any, forward_batch: Any, output: Any, sinks: Any) -> None:
        cache = cache_write.pages(self, layer, forward_batch)
        variant = {"soft_cap": layer.logit_cap or None, "sinks": sinks}
        if self._facts.is_narrow:
            variant |= {"k_scale": layer.k_scale, "v_scale": layer.v_scale}
        steps.run(query, cache, output, layer.scaling, self._tokens, **variant)


def _given(**words: Any) -> dict[str, Any]:
    """Those that are not None: releases differ in what they take."""
    return {name: value for name, value in words.items() if value is not None}


def device_of(name: Any) -> torch.device:
    """SGLang's "cuda" is the current device of the process."""
    device = torch.device(name)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device
