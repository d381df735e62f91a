"""A transformer of random weights, attention only, in fp32: tokens that depend on all tokens before them."""

from collections.abc import Callable

import numpy as np
from kv_cache import KVCache


class ToyModel:
    """Grouped-query attention with residuals and RMS norms, no position encoding. It is a trunkline.TreeModel.

    The unembedding is not the embedding, so that the next token depends mostly on the last one and somewhat on all
    others: a draft that looks at the last token alone is often right.
    """

    dtype, device = "float32", "cpu"

    def __init__(
        self, layers: int = 2, vocabulary: int = 512, q_heads: int = 8, kv_heads: int = 2, head_dim: int = 64
    ) -> None:
        random = np.random.default_rng(7)
        width = 256

        def weights(*shape: int) -> np.ndarray:
            return random.standard_normal(shape, np.float32) / np.float32(shape[-2] ** 0.5)

        self.layers, self.vocabulary = layers, vocabulary
        self.q_heads, self.kv_heads, self.head_dim = q_heads, kv_heads, head_dim
        self.num_layers, self.num_qo_heads, self.num_kv_heads = layers, q_heads, kv_heads
        self.embedding = random.standard_normal((vocabulary, width), np.float32)
        self.unembedding = weights(width, vocabulary)
        self.to_q = 2 * weights(layers, width, q_heads * head_dim)  # sharper than random: attention picks tokens
        self.to_k = weights(layers, width, kv_heads * head_dim)
        self.to_v = weights(layers, width, kv_heads * head_dim)
        self.back = weights(layers, q_heads * head_dim, width)

    def new_cache(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, np.float32)

    def forward(
        self, tokens: np.ndarray, positions: np.ndarray | None, attention: Callable, rows: object
    ) -> np.ndarray:
        """One decode step. tokens [T]; attention(layer, q, k, v) stores k and v, and attends. Returns logits of the
        tokens `rows`."""
        hidden = self.embedding[tokens]
        for layer in range(self.layers):
            x = normalised(hidden)
            q = (x @ self.to_q[layer]).reshape(-1, self.q_heads, self.head_dim)
            k = (x @ self.to_k[layer]).reshape(-1, self.kv_heads, self.head_dim)
            v = (x @ self.to_v[layer]).reshape(-1, self.kv_heads, self.head_dim)
            hidden = hidden + attention(layer, q, k, v).reshape(len(tokens), -1) @ self.back[layer]
        return self.logits(hidden[rows])

    def step(self, tokens: np.ndarray, slots: np.ndarray, cache: KVCache, attend: Callable) -> np.ndarray:
        """The same with a cache of the caller's. slots [T]: those of the tokens' keys and values; attend(q, (k, v)) is
        called once a layer, when they are in the cache. Returns logits [T, vocabulary]."""

        def attention(layer, q, k, v):
            cache.write(layer, slots, k, v)
            return attend(q, cache.layers[layer])

        return self.forward(tokens, None, attention, slice(None))

    def guess(self, tokens: np.ndarray) -> np.ndarray:
        """Logits of the next token by the last one alone, a draft model."""
        return self.logits(self.embedding[tokens])

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        return normalised(hidden) @ self.unembedding


def normalised(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6))
