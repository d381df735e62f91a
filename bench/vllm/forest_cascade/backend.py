"""vLLM's classes, 0.26 to 0.33: FlashAttention's, with decode steps by forest cascade where that pays."""

from __future__ import annotations

import dataclasses
from typing import Any

import vllm.envs as envs
from vllm.config import get_layers_from_vllm_config
from vllm.logger import init_logger
from vllm.model_executor.layers.attention import Attention
from vllm.platforms import current_platform
from vllm.v1.attention.backend import AttentionCGSupport
from vllm.v1.attention.backends.flash_attn import (
    FlashAttentionBackend,
    FlashAttentionImpl,
    FlashAttentionMetadata,
    FlashAttentionMetadataBuilder,
)
from vllm.v1.kv_cache_interface import is_quantized_kv_cache

from .cascade import attend, prefix_call, suffix_call
from .flash import FlashKernels, Heads, scheduled
from .layout import Layout
from .limits import limits
from .step import DeviceLayout, ForestStep, TorchCopies
from .tracker import GroupTracker

logger = init_logger(f"vllm.{__name__}")  # vLLM shows the logs of its own namespace

# Steps by the path that ran them, of all builders: benchmarks check that grouping was on.
counters = {"forest": 0, "parent": 0}

# Fields of vLLM's own shared prefixes, up to 0.31.
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


class ForestCascadeBackend(FlashAttentionBackend):
    """For --attention-backend CUSTOM."""

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"  # a member of vLLM's enumeration, by which layers look it up

    @staticmethod
    def get_impl_cls() -> type[ForestCascadeImpl]:
        return ForestCascadeImpl

    @staticmethod
    def get_builder_cls() -> type[ForestCascadeMetadataBuilder]:
        return ForestCascadeMetadataBuilder


@dataclasses.dataclass
class ForestCascadeMetadata(FlashAttentionMetadata):
    forest: ForestStep | None = None


class ForestCascadeMetadataBuilder(FlashAttentionMetadataBuilder):
    supports_update_block_table = False  # groups are of one page table

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._limits = limits()
        self._tracker: GroupTracker | None = None
        self._looked = self._capturing = False
        self._on_device: DeviceLayout | None = None

    @classmethod
    def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> AttentionCGSupport:
        """Groups change from step to step, so attention stays out of graphs: vLLM goes to piecewise ones."""
        return AttentionCGSupport.NEVER

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        common = common_attn_metadata
        layout = None if self._capturing else self._observe(common)
        # A fast build is of a draft model's steps, which change lengths between them.
        if layout is None or fast_build or common.max_query_len > 1 or common.causal is not True:
            counters["parent"] += 1
            return super().build(common_prefix_len, common, fast_build)
        counters["forest"] += 1
        return ForestCascadeMetadata(
            num_actual_tokens=common.num_actual_tokens,
            max_query_len=common.max_query_len,
            query_start_loc=common.query_start_loc,
            max_seq_len=common.max_seq_len,
            seq_lens=common.seq_lens,
            block_table=common.block_table_tensor,
            slot_mapping=common.slot_mapping,
            **_NO_CASCADE,
            forest=self._forest(layout, common),
        )

    def build_for_cudagraph_capture(self, common_attn_metadata: Any) -> Any:
        """Builds for made-up lengths, which no groups are made of."""
        self._capturing = True
        try:
            return super().build_for_cudagraph_capture(common_attn_metadata)
        finally:
            self._capturing = False

    def build_for_drafting(self, common_attn_metadata: Any, draft_index: int) -> Any:
        return super().build(0, common_attn_metadata, True)

    def _observe(self, common: Any) -> Layout | None:
        if not self._looked:  # at the first step: layers are not all there when the builder is made
            self._looked = True
            self._tracker = self._make_tracker()
        if self._tracker is None:
            return None
        known = getattr(common, "seq_lens_cpu_upper_bound", None)
        rows = min(common.num_reqs, common.num_actual_tokens)  # without padding that has no query token
        if known is None or rows == 0:
            self._tracker.forget()
            return None
        lengths = known.numpy()[:rows]
        return self._tracker.observe(common.block_table_tensor, common.seq_lens, lengths)

    def _make_tracker(self) -> GroupTracker | None:
        """None where vLLM's kernel runs all steps of these layers."""
        layers = get_layers_from_vllm_config(self.vllm_config, Attention, self.layer_names)
        reason = next((why for layer in layers.values() if (why := _unfit(layer.impl))), None)
        if self.dcp_world_size > 1:
            reason = "decode context parallelism"
        elif envs.VLLM_BATCH_INVARIANT:
            reason = "VLLM_BATCH_INVARIANT"
        if reason is not None:
            logger.warning("Our port of FCA leaves layers from %s to vLLM: %s", self.layer_names[0], reason)
            return None
        element = 1 if self._quantized() else self.kv_cache_dtype.itemsize
        page_bytes = 2 * self.num_heads_kv * self.headdim * element * self.block_size
        logger.info("Our port of FCA runs decode steps: %s", self._limits)
        return GroupTracker(TorchCopies(), self.block_size, page_bytes, self._limits)

    def _forest(self, layout: Layout, common: Any) -> ForestStep:
        if self._on_device is None or self._on_device.layout is not layout:
            self._on_device = DeviceLayout(layout, self.block_size, self.device)
        lengths = common.seq_lens_cpu_upper_bound.numpy()[: layout.rows]
        longest = int((lengths - layout.prefix_pages * self.block_size).max())
        splits = 1 if longest <= self._limits.unsplit_tokens else 0
        step = self._on_device.step(common.block_table_tensor, common.seq_lens, int(lengths.max()), splits)
        if self.aot_schedule:
            dtype = current_platform.fp8_dtype() if self._quantized() else self.kv_cache_dtype
            heads = Heads(self.num_heads_q, self.num_heads_kv, self.headdim, dtype, self.block_size)
            step.prefix_schedule = scheduled(prefix_call(step), heads)
            step.suffix_schedule = scheduled(suffix_call(step), heads)
        return step

    def _quantized(self) -> bool:
        return bool(is_quantized_kv_cache(self.cache_config.cache_dtype))


def _unfit(impl: Any) -> str | None:
    """Why a layer is not for grouping."""
    if not isinstance(impl, ForestCascadeImpl):
        return f"an implementation of another backend, {type(impl).__name__}"
    if impl.attn_type != "decoder":
        return f"attention of type {impl.attn_type}"
    if impl.sliding_window not in (None, (-1, -1)):
        return "a sliding window"
    if impl.alibi_slopes is not None:
        return "ALiBi"
    if impl.sinks is not None:
        return "attention sinks"
    return None


class ForestCascadeImpl(FlashAttentionImpl):
    def forward(
        self,
        layer: Any,
        query: Any,
        key: Any,
        value: Any,
        kv_cache: Any,
        attn_metadata: Any,
        output: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """query, output [T, Hq, d], T padded; kv_cache [pages, Hkv, P, 2 d] with any strides."""
        forest = getattr(attn_metadata, "forest", None)
        if forest is None:
            return super().forward(layer, query, key, value, kv_cache, attn_metadata, output, *args, **kwargs)
        if any(x is not None for x in (*args, *kwargs.values())):
            raise NotImplementedError("our port of FCA: fused output quantization is not supported, as in vLLM's own")
        attend(forest, query, output, FlashKernels(self, layer, kv_cache))
        return output
