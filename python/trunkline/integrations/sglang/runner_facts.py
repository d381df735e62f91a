"""SGLang's configuration of a model runner and its layers, in the words of the engine layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..engine import LayerFacts, capability

# Drafting whose target model verifies chains as decode rows of several query tokens. A draft model has a backend of its
# own, SGLang's, with metadata of its own, so that it changes no plan of ours.
DRAFT_METHODS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")
POOL = "MHATokenToKVPool"  # others keep K and V in other places or under other ids
OTHER_POOL = "a KV pool of class {}"


@dataclass(frozen=True)
class Group:
    """Layers that ask for the same. layer: one of them. features: what they ask beside causal softmax."""

    names: list[str]
    ids: frozenset[int]
    layer: Any
    features: tuple[str, ...]


@dataclass(frozen=True)
class RunnerFacts:
    """What all layers of a model runner have in common. longest_query: query tokens of a row with drafts.
    deterministic: the server asks for the same results in any batch."""

    page_size: int
    dtype: str
    kv_cache_dtype: str
    features: tuple[str, ...]
    longest_query: int
    speculative: str | None
    deterministic: bool

    def facts_of(self, group: Group) -> LayerFacts:
        layer = group.layer
        return LayerFacts(
            num_qo_heads=layer.tp_q_head_num,
            num_kv_heads=layer.tp_k_head_num,
            head_dim=layer.head_dim,
            page_size=self.page_size,
            dtype=self.dtype,
            kv_cache_dtype=self.kv_cache_dtype,
            attention_type=str(getattr(layer.attn_type, "value", layer.attn_type)),
            features=(*self.features, *group.features),
            longest_query=self.longest_query,
            speculative=self.speculative,
            draft_methods=DRAFT_METHODS,
        )


def runner_facts(runner: Any) -> RunnerFacts:
    given = configuration(runner)
    method = given.get("speculative_algorithm")
    drafts = int(given.get("speculative_num_draft_tokens") or 1) if method else 1
    deterministic = bool(given.get("enable_deterministic_inference"))
    return RunnerFacts(
        page_size=runner.page_size,
        dtype=_name(runner.dtype),
        kv_cache_dtype=_name(runner.kv_cache_dtype),
        features=tuple(name for name, asked in _asked(runner, given, deterministic).items() if asked),
        longest_query=drafts,
        speculative=method,
        deterministic=deterministic,
    )


def groups_of(runner: Any) -> list[Group]:
    """The model's attention layers by what they ask, in the order of the model."""
    from sglang.srt.layers.radix_attention import RadixAttention

    found: dict[tuple[Any, ...], list[tuple[str, Any]]] = {}
    for name, module in runner.model.named_modules():
        if isinstance(module, RadixAttention):
            asked = tuple(feature for feature, asks in _asked_by(module).items() if asks)
            kind = str(module.attn_type), module.tp_q_head_num, module.tp_k_head_num, module.head_dim, asked
            found.setdefault(kind, []).append((name, module))
    return [
        Group([name for name, _ in layers], frozenset(layer.layer_id for _, layer in layers), layers[0][1], kind[-1])
        for kind, layers in found.items()
    ]


def configuration(runner: Any) -> dict[str, Any]:
    """The server's arguments as they were resolved: from 0.5.17 on the context of the process has them, and
    runner.server_args what the user gave."""
    try:
        from sglang.srt.runtime_context import get_context
    except ImportError:
        return dict(vars(runner.server_args))
    return dict(get_context().resolved_server_args_dict())


def _asked(runner: Any, given: dict[str, Any], deterministic: bool) -> dict[str, bool]:
    """Features by name, and whether model or server ask for them."""
    pool = type(runner.token_to_kv_pool).__name__
    model = runner.model_config
    return {
        OTHER_POOL.format(pool): pool != POOL,
        "e5m2 beside fa3's prefill": _name(runner.kv_cache_dtype) == "float8_e5m2",  # fa3 has no kernel for it
        capability.CONTEXT_PARALLELISM: any((given.get(name) or 1) > 1 for name in ("dcp_size", "attn_cp_size")),
        capability.CHUNKED_ATTENTION: bool(getattr(model, "is_local_attention_model", False)),
        capability.SINKS: bool(getattr(model, "has_attention_sinks", False)),
        "cross attention": bool(getattr(model, "is_encoder_decoder", False)),
        "draft trees (speculative_eagle_topk over 1)": (given.get("speculative_eagle_topk") or 1) > 1,
        "batch invariance with speculative decoding": deterministic and bool(given.get("speculative_algorithm")),
        # Their steps have metadata of their own beside the backend's, or other ids than the pool's.
        **{f"{name} is on; its way of attention": bool(given.get(name)) for name in _MODES},
        "a diffusion language model": bool(given.get("dllm_algorithm")),
    }


_MODES = (
    *("enable_two_batch_overlap", "enable_pdmux", "enable_torch_compile", "enable_unified_memory"),
    *("enable_kv_cache_sharding", "enable_hisparse", "speculative_adaptive"),
)


def _asked_by(layer: Any) -> dict[str, bool]:
    """Features by name, and whether a layer asks for them."""
    window = layer.sliding_window_size
    return {
        capability.SLIDING_WINDOW: window is not None and window > -1,
        capability.SOFT_CAP: bool(layer.logit_cap),
        capability.ALIBI: getattr(layer, "pos_encoding_mode", "NONE") != "NONE",
        capability.CHUNKED_ATTENTION: bool(getattr(layer, "use_irope", False)),
        "cross attention": bool(layer.is_cross_attention),
        "values of another size than keys": layer.v_head_dim != layer.head_dim
        or layer.tp_v_head_num != layer.tp_k_head_num,
        "a temperature by length": getattr(layer, "xai_temperature_len", -1) > 0,
    }


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
