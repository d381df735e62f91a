"""vLLM's FlashAttention and merge as this package, and comparisons of kernels, call them."""

from __future__ import annotations

import dataclasses
from typing import Any

from vllm.platforms import current_platform
from vllm.utils.torch_utils import canonicalize_singleton_dim_strides
from vllm.v1.attention.backends.fa_utils import (
    flash_attn_varlen_func,
    get_flash_attn_version,
    get_scheduler_metadata,
)
from vllm.v1.attention.ops.merge_attn_states import merge_attn_states
from vllm.v1.kv_cache_interface import is_quantized_kv_cache

from .cascade import Call


@dataclasses.dataclass(frozen=True)
class Heads:
    """dtype: of queries, keys and values."""

    query: int
    kv: int
    size: int
    dtype: Any
    page_size: int


def flash_attention() -> int:
    """The version of FlashAttention that vLLM takes on this GPU."""
    return get_flash_attn_version()


def scheduled(call: Call, heads: Heads) -> Any:
    """FlashAttention 3's metadata of a call, made once for all layers."""
    return get_scheduler_metadata(
        batch_size=len(call.lens),
        max_seqlen_q=call.max_queries,
        max_seqlen_k=call.max_tokens,
        num_heads_q=heads.query,
        num_heads_kv=heads.kv,
        headdim=heads.size,
        cache_seqlens=call.lens,
        qkv_dtype=heads.dtype,
        cu_seqlens_q=call.starts,
        page_size=heads.page_size,
        causal=call.causal,
        window_size=(-1, -1),
        num_splits=call.splits,
    )


def attention(
    query: Any,
    key: Any,
    value: Any,
    call: Call,
    *,
    scale: float,
    version: int,
    soft_cap: float = 0,
    scales: tuple[Any, Any, Any] = (None, None, None),
    out: Any = None,
) -> tuple[Any, Any]:
    """Results [T, Hq, d] and their LSEs [Hq, T].

    key, value: [pages, P, Hkv, d], by any strides but of d. scales: of fp8 queries, keys and values.
    """
    query_scale, key_scale, value_scale = scales
    return flash_attn_varlen_func(
        q=query,
        k=key,
        v=value,
        cu_seqlens_q=call.starts,
        seqused_k=call.lens,
        max_seqlen_q=call.max_queries,
        max_seqlen_k=call.max_tokens,
        softmax_scale=scale,
        causal=call.causal,
        window_size=[-1, -1],
        block_table=call.table,
        softcap=soft_cap,
        return_softmax_lse=True,
        out=out,
        scheduler_metadata=call.schedule,
        fa_version=version,
        q_descale=query_scale,
        k_descale=key_scale,
        v_descale=value_scale,
        num_splits=call.splits,
    )


class FlashKernels:
    """Kernels of one layer in one step. impl: vLLM's FlashAttentionImpl; kv_cache [pages, Hkv, P, 2 d]."""

    def __init__(self, impl: Any, layer: Any, kv_cache: Any) -> None:
        halves = kv_cache.transpose(1, 2).split(impl.head_size, dim=-1)
        self.key, self.value = (canonicalize_singleton_dim_strides(half) for half in halves)
        self.impl, self.scales = impl, (None, None, None)
        if is_quantized_kv_cache(impl.kv_cache_dtype):
            dtype = current_platform.fp8_dtype()
            self.key, self.value = self.key.view(dtype), self.value.view(dtype)
            query_scale = layer._q_scale if impl.supports_quant_query_input else None
            self.scales = query_scale, layer._k_scale, layer._v_scale

    def attend(self, query: Any, call: Call) -> tuple[Any, Any]:
        impl, shape = self.impl, (len(call.lens), self.impl.num_kv_heads)
        return attention(
            query,
            self.key,
            self.value,
            call,
            scale=impl.scale,
            version=impl.vllm_flash_attn_version,
            soft_cap=impl.logits_soft_cap,
            scales=tuple(None if x is None else x.expand(shape) for x in self.scales),
        )

    def merge(self, output: Any, prefix: tuple[Any, Any], suffix: tuple[Any, Any]) -> None:
        merge_attn_states(output, *prefix, *suffix)
