"""What Trunkline does for a group of layers, decided before the first step."""

from __future__ import annotations

from dataclasses import dataclass

MOST_GROUP_SIZE = 16
WITHOUT_DRAFT_LAYERS = ("ngram", "ngram_gpu", "suffix")  # ways to speculate that run no attention of their own


@dataclass(frozen=True)
class GroupFacts:
    """Of the layers that share a page table and a metadata builder.

    Heads are those of one rank; page_size is in tokens, as the kernel's page table has it. kv_cache_dtype is vLLM's
    word ("auto": the model's own). longest_query: query tokens of a decode row, drafts included; speculative: vLLM's
    name of the method.
    """

    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    page_size: int
    dtype: str
    kv_cache_dtype: str = "auto"
    attention_type: str = "decoder"
    sliding_window: bool = False
    soft_cap: bool = False
    alibi: bool = False
    sinks: bool = False
    chunked: bool = False
    one_kind: bool = True
    context_parallel: bool = False
    batch_invariant: bool = False
    longest_query: int = 1
    speculative: str | None = None
    overlapped_batches: bool = False
    bidirectional_prefix: bool = False
    reference_window: bool = False
    fast_prefill: bool = False


def refusal(facts: GroupFacts) -> str | None:
    """Why vLLM's own kernel runs these layers, or None. Shapes are left to DecodeAttention, which says it itself."""
    if not facts.one_kind:
        return "its layers differ in heads or head size"
    if facts.attention_type != "decoder":
        return f"attention of type {facts.attention_type}; supported: decoder"
    if facts.dtype not in ("float16", "bfloat16"):
        return f"KV cache of {facts.dtype}; supported: float16, bfloat16"
    if facts.kv_cache_dtype not in ("auto", facts.dtype):
        return f"kv_cache_dtype {facts.kv_cache_dtype}; supported: auto, {facts.dtype}"
    for holds, what in (
        (facts.sliding_window, "a sliding window"),
        (facts.chunked, "chunked local attention"),
        (facts.soft_cap, "a soft cap of logits"),
        (facts.alibi, "ALiBi"),
        (facts.sinks, "attention sinks"),
        (facts.context_parallel, "context parallelism"),
        (facts.batch_invariant, "VLLM_BATCH_INVARIANT"),
        (facts.overlapped_batches, "dual batch overlap"),
        # Of these, captured decode steps look like any other, and the real ones do not.
        (facts.bidirectional_prefix, "bidirectional attention to parts of a prompt"),
        (facts.reference_window, "a reference sliding window"),
        (facts.fast_prefill, "kv_sharing_fast_prefill"),
    ):
        if holds:
            return f"{what} is not supported yet"
    if facts.speculative is not None and facts.speculative not in WITHOUT_DRAFT_LAYERS:
        # Draft models change lengths between their steps, behind a plan's back, with the target's metadata at times.
        return f"speculative decoding by {facts.speculative}; supported: {', '.join(WITHOUT_DRAFT_LAYERS)}"
    if facts.num_qo_heads % facts.num_kv_heads or facts.num_qo_heads > MOST_GROUP_SIZE * facts.num_kv_heads:
        return (
            f"{facts.num_qo_heads} query heads on {facts.num_kv_heads} KV heads; supported: 1 to {MOST_GROUP_SIZE} each"
        )
    return None
