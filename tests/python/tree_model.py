"""A small transformer of random weights in numpy, as a TreeModel, and the same on whole sequences."""

import numpy as np


class ToyTreeModel:
    num_layers, num_qo_heads, num_kv_heads, head_dim = 2, 4, 2, 64
    dtype, device = "float32", "cpu"

    def __init__(self, vocabulary=30, seed=0):
        random = np.random.default_rng(seed)
        width = 32

        def weights(*shape):
            return random.standard_normal(shape).astype(np.float32) / np.float32(shape[-2] ** 0.5)

        self.vocabulary = vocabulary
        self.embedding = random.standard_normal((vocabulary, width)).astype(np.float32)
        self.to_q = 2 * weights(2, width, 4 * 64)
        self.to_k, self.to_v = weights(2, width, 2 * 64), weights(2, width, 2 * 64)
        self.back, self.unembedding = weights(2, 4 * 64, width), weights(width, vocabulary)
        self.fail_in = -2  # steps until one fails; below 0: none does

    def new_cache(self, shape):
        return np.full(shape, np.nan, np.float32)  # what is read without being written shows

    def forward(self, tokens, positions, attention, rows):
        self.fail_in -= 1
        if self.fail_in == -1:  # once
            raise RuntimeError("the model has failed")
        hidden = self.embedding[tokens] + 0.3 * np.sin(positions[:, None] / np.arange(1, 33)).astype(np.float32)
        for layer in range(self.num_layers):
            x = _normed(hidden)
            q, k, v = (
                (x @ to[layer]).reshape(len(tokens), -1, self.head_dim) for to in (self.to_q, self.to_k, self.to_v)
            )
            hidden = hidden + attention(layer, q, k, v).reshape(len(tokens), -1) @ self.back[layer]
        return _normed(hidden[rows]) @ self.unembedding

    def after(self, sequence):
        """Logits after the last token of a sequence, by plain attention."""
        count = len(sequence)

        def plain(_, q, k, v):
            k, v = (np.repeat(part, 2, axis=1).astype(np.float64) for part in (k, v))
            scores = np.einsum("qhd,khd->hqk", q, k) / 8
            scores[:, ~np.tri(count, dtype=bool)] = -np.inf
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            return np.einsum("hqk,khd->qhd", weights, v).astype(np.float32)

        fail_in, self.fail_in = self.fail_in, -2
        logits = self.forward(np.array(sequence), np.arange(count), plain, np.array([count - 1]))
        self.fail_in = fail_in
        return logits[0]


def _normed(x):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6))
