"""vLLM's configuration of a group of layers, in the words of the engine layer."""

from __future__ import annotations

from typing import Any

from ..engine import LayerFacts, capability
from .settings import invariant

DRAFT_METHODS = ("ngram", "ngram_gpu", "suffix")  # ways to speculate that run no attention of their own


def group_facts(kv_cache_spec: Any, layers: list[Any], vllm_config: Any) -> LayerFacts:
    """kv_cache_spec: with the kernel's block size. layers: vLLM's Attention modules, at least one."""
    impls = [layer.impl for layer in layers]
    first = impls[0]
    speculative = vllm_config.speculative_config
    kinds = {(impl.num_heads, impl.num_kv_heads, impl.head_size, impl.kv_cache_dtype) for impl in impls}
    found = {**_of_layers(kv_cache_spec, impls), **_of_model(vllm_config)}
    return LayerFacts(
        num_qo_heads=first.num_heads,
        num_kv_heads=first.num_kv_heads,
        head_dim=first.head_size,
        page_size=kv_cache_spec.block_size,
        dtype=_dtype_of(vllm_config.model_config),  # the spec of an fp8 cache says bytes
        kv_cache_dtype=_dtype_of(kv_cache_spec) if first.kv_cache_dtype == "auto" else first.kv_cache_dtype,
        attention_type=str(getattr(first.attn_type, "value", first.attn_type)),
        uniform=len(kinds) == 1,
        features=tuple(name for name, asked in found.items() if asked),
        longest_query=1 + (0 if speculative is None else speculative.num_speculative_tokens or 0),
        speculative=None if speculative is None else speculative.method,
        draft_methods=DRAFT_METHODS,
    )


def _dtype_of(part: Any) -> str:
    """The name of a model's or a cache's element type."""
    return str(part.dtype).removeprefix("torch.")


def _of_layers(kv_cache_spec: Any, impls: list[Any]) -> dict[str, bool]:
    """Features by name, and whether the layers ask for them."""
    window = getattr(kv_cache_spec, "sliding_window", None) is not None
    return {
        capability.SLIDING_WINDOW: window or any(tuple(impl.sliding_window) != (-1, -1) for impl in impls),
        capability.CHUNKED_ATTENTION: getattr(kv_cache_spec, "attention_chunk_size", None) is not None,
        capability.SOFT_CAP: any(impl.logits_soft_cap for impl in impls),
        capability.ALIBI: any(impl.alibi_slopes is not None for impl in impls),
        capability.SINKS: any(impl.sinks is not None for impl in impls),
    }


def _of_model(vllm_config: Any) -> dict[str, bool]:
    """Features by name, and whether model or engine ask for them."""
    parallel, model = vllm_config.parallel_config, vllm_config.model_config
    contexts = ("decode_context_parallel_size", "prefill_context_parallel_size")
    return {
        capability.CONTEXT_PARALLELISM: any(getattr(parallel, name, 1) > 1 for name in contexts),
        "batch invariance with speculative decoding": invariant() and vllm_config.speculative_config is not None,
        "dual batch overlap": any(getattr(parallel, name, False) for name in ("enable_dbo", "use_ubatching")),
        # Captured decode steps of these three look like any other, and the real ones do not.
        "bidirectional attention to parts of a prompt": bool(getattr(model, "is_mm_prefix_lm", False)),
        "a reference sliding window": getattr(model, "rswa_window", None) is not None,
        "kv_sharing_fast_prefill": bool(getattr(vllm_config.cache_config, "kv_sharing_fast_prefill", False)),
    }
