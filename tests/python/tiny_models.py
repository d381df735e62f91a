"""Tiny models of Transformers, of random weights."""

import numpy as np
import torch
import transformers

# Of matrices so small, threads on a busy machine wait for each other longer than they compute.
torch.set_num_threads(1)

VOCABULARY = 97
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "head_dim": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def config_of(name, **changes):
    options = dict(SIZES) | {"num_key_value_heads": 2} | changes
    kind = {"llama": "LlamaConfig", "qwen2": "Qwen2Config", "qwen3": "Qwen3Config", "mistral": "MistralConfig"}
    if name == "mistral":
        options = {"sliding_window": None} | options
    if name == "qwen2":
        options["hidden_size"] = 256  # its head size is hidden_size / num_attention_heads
        del options["head_dim"]
    if name == "olmo2":
        options["hidden_size"] = 256
        del options["head_dim"]
        return transformers.Olmo2Config(**options)
    if name == "gpt2":
        return transformers.GPT2Config(
            vocab_size=VOCABULARY, n_embd=128, n_head=2, n_layer=2, bos_token_id=1, eos_token_id=2
        )
    return getattr(transformers, kind[name])(**options)


def model_of(name, **changes):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config_of(name, **changes), attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(6)  # random weights as they come give nearly uniform logits
    return model.eval()


def prompt_of(size, seed=0):
    return np.random.default_rng(seed).integers(3, VOCABULARY, size=size).tolist()
