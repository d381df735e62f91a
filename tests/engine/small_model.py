"""A small model of Llama's kind with random weights, made on the spot."""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any

LAYERS = 4
HIDDEN, INTERMEDIATE, VOCABULARY = 512, 1024, 32000


def configuration(heads: list[int], head_dim: int, dtype: str) -> dict[str, Any]:
    """heads: query heads and KV heads."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": head_dim,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 16384,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "torch_dtype": dtype,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
    }


def folder(heads: list[int], head_dim: int, dtype: str) -> pathlib.Path:
    """A new folder with config.json, all that an engine needs whose weights are drawn later."""
    made = pathlib.Path(tempfile.mkdtemp())
    (made / "config.json").write_text(json.dumps(configuration(heads, head_dim, dtype)))
    return made


def write_weights(into: pathlib.Path, heads: list[int], head_dim: int, dtype: str) -> None:
    """Drawn weights in a file, for an engine that is not in this process. Engines' dummy weights are so small that
    attention is all but uniform."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(1)
    kind = getattr(torch, dtype)

    def drawn(*shape: int) -> Any:
        return (torch.randn(*shape, generator=generator) * 0.05).to(kind)

    rows = {"q": heads[0], "k": heads[1], "v": heads[1]}
    weights = {"model.embed_tokens.weight": drawn(VOCABULARY, HIDDEN), "lm_head.weight": drawn(VOCABULARY, HIDDEN)}
    weights["model.norm.weight"] = torch.ones(HIDDEN, dtype=kind)
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        for projection, count in rows.items():
            weights[f"{name}self_attn.{projection}_proj.weight"] = drawn(count * head_dim, HIDDEN)
        weights[f"{name}self_attn.o_proj.weight"] = drawn(HIDDEN, heads[0] * head_dim)
        for projection in ("gate", "up"):
            weights[f"{name}mlp.{projection}_proj.weight"] = drawn(INTERMEDIATE, HIDDEN)
        weights[f"{name}mlp.down_proj.weight"] = drawn(HIDDEN, INTERMEDIATE)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{name}{norm}.weight"] = torch.ones(HIDDEN, dtype=kind)
    save_file(weights, str(into / "model.safetensors"), metadata={"format": "pt"})
