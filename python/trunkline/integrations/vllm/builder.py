"""Builds a step's metadata for a group of layers: our rows, their plan, and the parent's metadata for the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm.config import get_layers_from_vllm_config
from vllm.model_executor.layers.attention import Attention
from vllm.v1.attention.backend import AttentionCGSupport
from vllm.v1.attention.backends.flash_attn import FlashAttentionMetadata, FlashAttentionMetadataBuilder

from ..engine import DecodeSteps, DenseTables, LayerFacts, TorchArrays, leave, make_steps, takes_layers
from .group_facts import group_facts
from .rows import decode_rows, rows_from
from .settings import engine

# Fields of vLLM's own shared prefixes, which later releases do not have.
_NO_CASCADE = {
    name: value
    for name, value in {
        "use_cascade": False,
        "common_prefix_len": 0,
        "cu_prefix_query_lens": None,
        "prefix_kv_lens": None,
        "suffix_kv_lens": None,
    }.items()
    if name in FlashAttentionMetadata.__dataclass_fields__
}


@dataclass
class TrunklineMetadata(FlashAttentionMetadata):
    """A step of which the first requests, with decode_tokens query tokens, are ours.

    steps: has their plan. rest: the parent's metadata of the requests behind them, where there are such; its query
    tokens are the whole step's, and begin behind ours. theirs: in shadow mode the parent's metadata of all requests;
    its results are served, and compared with the other ones.
    """

    steps: Any = None
    decode_tokens: int = 0
    rest: Any = None
    theirs: Any = None


class TrunklineMetadataBuilder(FlashAttentionMetadataBuilder):
    """Its plans are made by the GPU from vLLM's page table and lengths there: build() only launches."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self.steps: DecodeSteps | None = None
        self._capturing = False
        self._replays = replays_decode_steps(vllm_config)
        self._facts = self._ours(kv_cache_spec, layer_names, vllm_config)
        if self._facts is not None:
            # Decode rows, and those with drafts, come first then, in the model runner that asks for it (V1).
            self._init_reorder_batch_threshold(1, supports_spec_as_decode=True)
            self.supports_update_block_table = False  # each group has a plan of its own page table

    @classmethod
    def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> AttentionCGSupport:
        """Graphs of decode steps. Not of mixed ones: which rows are ours there changes from step to step."""
        theirs = super().get_cudagraph_support(vllm_config, kv_cache_spec)
        return min(theirs, AttentionCGSupport.UNIFORM_BATCH, key=lambda support: support.value)

    def _ours(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any) -> LayerFacts | None:
        """None where vLLM's kernel runs these layers."""
        layers = get_layers_from_vllm_config(vllm_config, Attention, layer_names)
        if len(layers) != len(layer_names):
            leave(engine(), layer_names, "not all of them are vLLM's Attention")
            return None
        facts = group_facts(kv_cache_spec, list(layers.values()), vllm_config)
        return facts if takes_layers(engine(), facts, layer_names) else None

    def _make_steps(self) -> DecodeSteps | None:
        """At the first step, which is before graphs are captured. Not with the builder: what is allocated then belongs
        to the KV cache, and in sleep mode goes with it."""
        facts, self._facts = self._facts, None
        if facts is not None:
            self.steps = make_steps(
                engine(),
                facts,
                self.layer_names,
                TorchArrays(self.device),
                max_rows=max_rows(self.vllm_config),
                max_tokens=max_tokens(self.vllm_config),
                max_kv_len=self.vllm_config.model_config.max_model_len,
            )
        return self.steps

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        common = common_attn_metadata
        steps = self.steps or self._make_steps()
        if steps is None:
            return super().build(common_prefix_len, common, fast_build)
        rows, tokens = decode_rows(common, self.reorder_batch_threshold)
        mixed = rows < common.num_reqs
        replayed = self._capturing or (self._replays and not mixed)
        prefill = common.num_actual_tokens - tokens
        if not steps.takes(rows, common.num_reqs, prefill_tokens=prefill, replayed=replayed):
            return super().build(common_prefix_len, common, fast_build)
        starts = common.query_start_loc if common.max_query_len > 1 and steps.several else None
        tables = DenseTables(common.block_table_tensor, common.seq_lens)
        # Rows without a cached token are made up: with piecewise graphs, 0.33 builds those of captures here.
        cached = common.max_seq_len > common.max_query_len
        steps.plan(tables, rows, starts, tokens, counted=cached and not self._capturing)
        rest = theirs = None
        if steps.shadow is not None:
            steps.shadow.whole(common.num_actual_tokens)
            # Ahead of time both would be scheduled in the same memory, so that what is compared with gives way.
            theirs = super().build(0, common, fast_build or mixed)
        if mixed:
            rest = super().build(0, rows_from(common, rows), fast_build)
        return TrunklineMetadata(
            num_actual_tokens=common.num_actual_tokens,
            max_query_len=common.max_query_len,
            query_start_loc=common.query_start_loc,
            max_seq_len=common.max_seq_len,
            seq_lens=common.seq_lens,
            block_table=common.block_table_tensor,
            slot_mapping=common.slot_mapping,
            **_NO_CASCADE,
            steps=steps,
            decode_tokens=tokens,
            rest=rest,
            theirs=theirs,
        )

    def build_for_cudagraph_capture(self, common_attn_metadata: Any) -> Any:
        """Builds metadata for lengths that are made up."""
        self._capturing = True
        try:
            return super().build_for_cudagraph_capture(common_attn_metadata)
        finally:
            self._capturing = False

    def build_for_drafting(self, common_attn_metadata: Any, draft_index: int) -> Any:
        """Draft models change lengths between their steps, behind a plan's back: theirs."""
        return super().build(0, common_attn_metadata, True)

    def use_cascade_attention(self, *args: Any, **kwargs: Any) -> bool:
        """Up to 0.31. Ours finds shared prefixes itself, at every depth."""
        ours = self.steps is not None or self._facts is not None
        return False if ours else bool(super().use_cascade_attention(*args, **kwargs))


def replays_decode_steps(vllm_config: Any) -> bool:
    """Whether a decode step may be the replay of a graph of all of it, attention included. vLLM has one such graph a
    size, with our kernels, and does not tell the builder which steps replay one."""
    mode = getattr(vllm_config.compilation_config, "cudagraph_mode", None)
    has_full_graphs = getattr(mode, "has_full_cudagraphs", None)
    return has_full_graphs is None or bool(has_full_graphs())


def max_rows(vllm_config: Any) -> int:
    """Requests of a step, padding to the largest captured graph included."""
    scheduler, compilation = vllm_config.scheduler_config, vllm_config.compilation_config
    return int(max(scheduler.max_num_seqs, compilation.max_cudagraph_capture_size or 0))


def max_tokens(vllm_config: Any) -> int:
    """Query tokens of a step, prefill and padding included."""
    scheduler, compilation = vllm_config.scheduler_config, vllm_config.compilation_config
    return int(max(scheduler.max_num_batched_tokens, compilation.max_cudagraph_capture_size or 0))
