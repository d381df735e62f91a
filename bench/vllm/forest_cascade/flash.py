"""vLLM's FlashAttention and merge as this package calls them."""

from __future__ import annotations

import dataclasses
from typing import Any

from vllm.platforms import current_platform
from vllm.utils.torch_utils import canonicalize_singleton_dim_strides
from vllm.v1.attention.backends.fa_utils import flash_attn_varlen_func, get_scheduler_metadata
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
        query_scale, key_scale, value_scale = (None if x is None else x.expand(shape) for x in self.scales)
        output, lse = flash_attn_varlen_func(
            q=query,
            k=self.key,
            v=self.value,
            cu_seqlens_q=call.starts,
            seqused_k=call.lens,
            max_seqlen_q=call.max_queries,
            max_seqlen_k=call.max_tokens,
            softmax_scale=impl.scale,
            causal=call.causal,
            window_size=[-1, -1],
            block_table=call.table,
            softcap=impl.logits_soft_cap,
            return_softmax_lse=True,
            scheduler_metadata=call.schedule,
            fa_version=impl.vllm_flash_attn_version,
            q_descale=query_scale,
            k_descale=key_scale,
            v_descale=value_scale,
            num_splits=call.splits,
        )
        return output, lse

    def merge(self, output: Any, prefix: tuple[Any, Any], suffix: tuple[Any, Any]) -> None:
        merge_attn_states(output, *prefix, *suffix)
