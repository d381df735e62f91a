"""Models by their shape: configurations that vLLM reads, for weights that are drawn and never downloaded."""

import json
import pathlib

ELEMENT_BYTES = {"auto": 2, "fp8": 1}  # of K and V, by vLLM's words for the types of KV caches
COMMON = {
    "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16", "attention_bias": False,
    "initializer_range": 0.02, "use_cache": True, "bos_token_id": 1, "eos_token_id": 2, "head_dim": 128,
}  # fmt: skip
LLAMA = COMMON | {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "mlp_bias": False, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
}  # fmt: skip
QWEN = COMMON | {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
}  # fmt: skip
QWEN_MOE = QWEN | {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
    "num_hidden_layers": 48, "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8,
    "moe_intermediate_size": 768, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
# Layers 0, 2, .. of the next two have a window, as transformers' configurations have it where no layer_types are given.
GPT_OSS = COMMON | {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
    "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128,
    "num_local_experts": 32, "num_experts_per_tok": 4, "swiglu_limit": 7.0, "attention_bias": True,
    "vocab_size": 201088, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
    "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "truncate": False, "original_max_position_embeddings": 4096,
    },
}  # fmt: skip
GEMMA2 = COMMON | {
    "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336,
    "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
    "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    "sliding_window": 4096, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
    "vocab_size": 256000, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "bos_token_id": 2, "eos_token_id": 1,
    "max_position_embeddings": 32768,  # beyond the published 8,192, for the long prompts
}  # fmt: skip
SHAPES = {
    "llama3-8b": LLAMA,  # positions beyond the published 8,192, for the long prompts
    "llama3-70b": LLAMA | {  # 1.7 GB a layer: cut by --layers where a GPU must hold it alone
        "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
    },
    "qwen3-8b": QWEN,
    "qwen3-30b-a3b": QWEN_MOE,  # 1.2 GB a layer in bf16: cut by --layers where the KV cache needs the memory
    "gpt-oss-20b": GPT_OSS,  # 1.6 GB a layer in bf16, as which it is drawn; published weights have 4 bits
    "gemma2-9b": GEMMA2,
    "yi-6b": LLAMA | {  # 4 KV heads: one a rank with tensor parallel 4
        "intermediate_size": 11008, "num_key_value_heads": 4, "vocab_size": 64000, "rope_theta": 5000000.0,
    },
    "tiny": LLAMA | {"num_hidden_layers": 2, "intermediate_size": 4096, "vocab_size": 32000},  # for checks
}  # fmt: skip


def shape_of(name: str, layers: int | None = None) -> dict:
    """The configuration of a shape, with fewer layers if given; KeyError for an unknown name."""
    return SHAPES[name] | ({"num_hidden_layers": layers} if layers else {})


def write_model(folder: pathlib.Path, shape: dict) -> pathlib.Path:
    """A folder with config.json, all that vLLM needs with load_format="dummy" and no tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(shape))
    return folder


def write_tokenizer(folder: pathlib.Path, shape: dict) -> None:
    """Words "w3", "w4", ... for tokens 3, 4, ...: an HTTP server and its client take text."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"w{token}": token for token in range(3, shape["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>",
        "model_max_length": shape["max_position_embeddings"], "clean_up_tokenization_spaces": False,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def kv_bytes_per_token(shape: dict, kv_cache_dtype: str = "auto", ranks: int = 1) -> int:
    """Keys and values of one token in all layers that attend to all tokens, on one of so many tensor-parallel ranks.
    Where ranks are more than KV heads, several have the same head."""
    heads = max(1, shape["num_key_value_heads"] // ranks)
    layers = shape["num_hidden_layers"]
    if "sliding_window" in shape:
        layers //= 2
    return 2 * ELEMENT_BYTES[kv_cache_dtype] * layers * heads * shape["head_dim"]
