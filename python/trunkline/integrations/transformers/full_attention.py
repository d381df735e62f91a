"""Whether all that the layers of a model ask for is causal attention over all tokens."""

from __future__ import annotations

from typing import Any

from ... import errors


def refusal(model: Any) -> str | None:
    """The reason why the attention of a model cannot be replaced, or None."""
    config = model.config.get_text_config()
    found = _unsupported(model, config)
    if found is None:
        return None
    return f"{type(model).__name__} {found}; supported: decoders of full-attention layers alone"


def _unsupported(model: Any, config: Any) -> str | None:
    if getattr(config, "is_encoder_decoder", False):
        return "is an encoder-decoder"
    if not getattr(model, "_supports_attention_backend", True):
        return "does not go by AttentionInterface"
    layer_types = getattr(config, "layer_types", None)
    for layer, kind in enumerate(layer_types or []):
        if kind != "full_attention":
            return f"has {kind!r} in layer {layer}"
    window = getattr(config, "sliding_window", None)
    if layer_types is None and window is not None and getattr(config, "use_sliding_window", True):
        return f"has sliding windows of {window} tokens"
    if getattr(config, "kv_lora_rank", None) is not None:
        return "has latent K and V (kv_lora_rank)"
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return "bounds its logits (attn_logit_softcapping)"
    return None


def refuse_options(module: Any, options: dict[str, Any]) -> None:
    """UnsupportedError for a layer that asks AttentionInterface for more than causal attention."""
    for name in ("sliding_window", "softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise errors.UnsupportedError(f"layer {module.layer_idx} has {name}; supported: full attention")
