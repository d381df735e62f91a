"""The engine layer's decode steps on the CPU with K and V of 8 bits: both types, both layouts, packed caches, scales of
all heads and of single ones that are written after the plan, and sinks beside them. Arrays are numpy's, and torch's
where it is installed."""

import numpy as np
import oracle
import pytest
from test_engine_steps import DIM, HEADS, KV_HEADS, LIBRARIES, ROWS, Library, Step, decode_steps, toy

ml_dtypes = pytest.importorskip("ml_dtypes")
WORDS = {"fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2"}


def narrow_of(library, made, array, dtype):
    """A numpy array rounded to a type of 8 bits, as an array of the library; and the values that it has."""
    rounded = array.astype(getattr(ml_dtypes, dtype))
    if library == "numpy":
        return rounded, rounded.astype(np.float32)
    import torch

    return made.of(rounded.view(np.uint8)).view(getattr(torch, dtype)), rounded.astype(np.float32)


class Layer:
    """A layer of a step whose cache has 8 bits, and what attention of it is."""

    def __init__(self, word, library, layout="NHD", packed=False):
        self.step, self.made = Step(16), Library(library)
        self.steps = decode_steps(toy(layout=layout), 16, self.made.arrays, kv_cache_dtype=word)
        self.steps.plan(self.step.tables("dense", np.int32, self.made.of), ROWS)
        k, v = (x if layout == "NHD" else x.transpose(0, 2, 1, 3) for x in (self.step.k, self.step.v))
        pair = np.concatenate([k, v], -1) if packed else np.stack([k, v])
        self.cache, values = narrow_of(library, self.made, np.ascontiguousarray(pair), WORDS[word])
        k, v = np.split(values, 2, -1) if packed else values
        self.k, self.v = (x if layout == "NHD" else x.transpose(0, 2, 1, 3) for x in (k, v))
        if not packed:
            self.cache = self.cache[0], self.cache[1]

    def run(self, **variant):
        output = np.full((ROWS, HEADS, DIM), np.nan, np.float32)
        of = self.made.of
        self.steps.run(of(self.step.query), self.cache, of(output), None, ROWS, **variant)
        return output

    def expected(self, q_scale=1.0, k_scale=1.0, v_scale=1.0):
        k_scale, v_scale = (np.asarray(scale, np.float32).reshape(-1, 1) for scale in (k_scale, v_scale))
        q_scale = np.repeat(np.broadcast_to(q_scale, KV_HEADS), HEADS // KV_HEADS)[:, None]
        values = self.step.query * q_scale, self.k * k_scale, self.v * v_scale
        return oracle.attention(*values, self.step.rows, self.step.kv_lens)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("word", WORDS)
def test_caches_of_8_bits(word, layout, packed, library):
    layer = Layer(word, library, layout, packed)
    np.testing.assert_allclose(layer.run(), layer.expected()[0], atol=2e-5)
    np.testing.assert_allclose(layer.run(k_scale=0.5, v_scale=3.0), layer.expected(1, 0.5, 3)[0], atol=1e-4)
    found = layer.steps.counters
    assert found.kv_bytes_per_token == 2 * 2 * KV_HEADS * DIM  # a byte each, in two layers


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("shape", [(), (1,), (KV_HEADS,)])
@pytest.mark.parametrize("word", ["fp8_e4m3", "fp8_e5m2"])
def test_scales_that_are_written_after_the_plan(word, shape, library):
    """An engine may write them between two steps, as when new weights come, into the same memory."""
    layer = Layer(word, library)
    random = np.random.default_rng(4)
    scales = {name: np.ones(shape, np.float32) for name in ("q_scale", "k_scale", "v_scale")}
    given = {name: layer.made.of(scale) for name, scale in scales.items()}
    for _ in range(3):
        np.testing.assert_allclose(layer.run(**given), layer.expected(**scales)[0], atol=1e-4)
        for scale in scales.values():
            scale[...] = random.uniform(0.5, 2, shape)


@pytest.mark.parametrize("library", LIBRARIES)
def test_sinks_beside_8_bits(library):
    layer = Layer("fp8", library)
    out, lse = layer.expected()
    sinks = np.linspace(-1, 3, HEADS).astype(np.float16)
    weight = 1 / (1 + np.exp(sinks.astype(np.float64) - lse))
    np.testing.assert_allclose(layer.run(sinks=layer.made.of(sinks)), out * weight[..., None], atol=2e-5)
