"""8-bit caches, scales, windows, soft caps and sinks from Python, on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import trunkline
from oracle import attention as oracle

ROWS = [[3, 8, 1], [3, 8, 4]]
LENGTHS = [40, 37]


@pytest.fixture(scope="module")
def tensors():
    random = np.random.default_rng(1)
    q = random.standard_normal((2, 8, 64)).astype(np.float32)
    k, v = random.standard_normal((2, 10, 16, 2, 64)).astype(np.float32)
    return q, k, v


def right(q, k, v, *, left=10**9, soft_cap=0.0, sinks=None, scale=0.125):
    """(out, lse) by the definition."""
    out, lse = np.zeros(q.shape), np.zeros(q.shape[:2])
    for row, (pages, length) in enumerate(zip(ROWS, LENGTHS)):
        keys, values = (x[pages].reshape(-1, 2, 64)[max(0, length - 1 - left) : length] for x in (k, v))
        for head in range(8):
            logits = keys[:, head // 4].astype(np.float64) @ q[row, head] * scale
            if soft_cap:
                logits = soft_cap * np.tanh(logits / soft_cap)
            weights = np.exp(logits)
            total = weights.sum() + (0 if sinks is None else np.exp(np.float64(sinks[head])))
            out[row, head] = weights @ values[:, head // 4] / total
            lse[row, head] = np.log(total)
    return out, lse


def expect(given, expected):
    for left, right_ in zip(given, expected):
        np.testing.assert_allclose(left, right_, atol=2e-5, rtol=2e-5)


def test_the_definition_agrees_with_the_oracle(tensors):
    expect(right(*tensors), oracle(*tensors, ROWS, LENGTHS))


@pytest.mark.parametrize(
    "variant",
    [
        dict(window_left=0),
        dict(window_left=20),
        dict(window_left=2**31 - 1),
        dict(soft_cap=0.5),
        dict(sinks=np.array([-np.inf, 0, 1, 2, 3, 4, 5, 6], np.float32)),
        dict(window_left=7, soft_cap=2.0, sinks=np.arange(8, dtype=np.float32)),
    ],
)
def test_windows_caps_and_sinks(tensors, variant):
    q, k, v = tensors
    expected = right(*tensors, **{"left" if name == "window_left" else name: x for name, x in variant.items()})
    expect(trunkline.decode_attention(q, k, v, ROWS, LENGTHS, return_lse=True, **variant), expected)


def test_one_plan_serves_layers_with_windows_and_without(tensors):
    q, k, v = tensors
    attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", policy="node")
    attention.plan(ROWS, LENGTHS)
    for left in (None, 5, 30, -1, 12):
        expected = right(*tensors, left=10**9 if left in (None, -1) else left)
        expect(attention.run(q, (k, v), return_lse=True, window_left=left), expected)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_caches_of_8_bits(tensors, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    q, k, v = tensors
    k8, v8 = (x.astype(getattr(ml_dtypes, dtype)) for x in (k, v))
    k_scale, v_scale = np.array([0.5, 2], np.float32), 3.0
    scales = dict(k_scale=k_scale, v_scale=v_scale)
    expected = right(q, k8.astype(np.float32) * k_scale[:, None], v8.astype(np.float32) * v_scale)
    expect(trunkline.decode_attention(q, k8, v8, ROWS, LENGTHS, return_lse=True, **scales), expected)
    attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", kv_dtype=dtype)
    attention.plan(ROWS, LENGTHS)
    expect(attention.run(q, (k8, v8), return_lse=True, **scales), expected)
    with pytest.raises(ValueError, match="k has dtype f32; expected: f8_"):
        attention.run(q, (k, v))


def test_shapes_with_8_bits():
    assert trunkline.supports(32, 8, 128, kv_dtype="float8_e4m3fn")
    assert trunkline.supports(32, 8, 128, dtype="bfloat16", kv_dtype="float8_e5m2")
    assert not trunkline.supports(32, 8, 128, kv_dtype="float32")
    assert "q_dtype is f8_e4m3" in trunkline.supports(32, 8, 128, dtype="float8_e4m3fn").reason
