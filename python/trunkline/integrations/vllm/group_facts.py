"""What vLLM knows of a group of layers, in the words of capability.py."""

from __future__ import annotations

from typing import Any

import vllm.envs as envs

from .capability import GroupFacts


def group_facts(kv_cache_spec: Any, layers: list[Any], vllm_config: Any) -> GroupFacts:
    """kv_cache_spec: with the kernel's block size. layers: vLLM's Attention modules, at least one."""
    impls = [layer.impl for layer in layers]
    first = impls[0]
    parallel, speculative = vllm_config.parallel_config, vllm_config.speculative_config
    model = vllm_config.model_config
    kinds = {(impl.num_heads, impl.num_kv_heads, impl.head_size) for impl in impls}
    spec_window = getattr(kv_cache_spec, "sliding_window", None)
    return GroupFacts(
        num_qo_heads=first.num_heads,
        num_kv_heads=first.num_kv_heads,
        head_dim=first.head_size,
        page_size=kv_cache_spec.block_size,
        dtype=str(kv_cache_spec.dtype).removeprefix("torch."),
        kv_cache_dtype=first.kv_cache_dtype,
        attention_type=str(getattr(first.attn_type, "value", first.attn_type)),
        sliding_window=spec_window is not None or any(tuple(impl.sliding_window) != (-1, -1) for impl in impls),
        soft_cap=any(impl.logits_soft_cap for impl in impls),
        alibi=any(impl.alibi_slopes is not None for impl in impls),
        sinks=any(impl.sinks is not None for impl in impls),
        chunked=getattr(kv_cache_spec, "attention_chunk_size", None) is not None,
        one_kind=len(kinds) == 1 and len({impl.kv_cache_dtype for impl in impls}) == 1,
        context_parallel=parallel.decode_context_parallel_size > 1
        or getattr(parallel, "prefill_context_parallel_size", 1) > 1,
        batch_invariant=bool(envs.VLLM_BATCH_INVARIANT),
        longest_query=1 + (0 if speculative is None else speculative.num_speculative_tokens or 0),
        speculative=None if speculative is None else speculative.method,
        bidirectional_prefix=bool(getattr(model, "is_mm_prefix_lm", False)),
        reference_window=getattr(model, "rswa_window", None) is not None,
        fast_prefill=bool(getattr(vllm_config.cache_config, "kv_sharing_fast_prefill", False)),
        overlapped_batches=bool(getattr(parallel, "enable_dbo", False) or getattr(parallel, "use_ubatching", False)),
    )
