"""The SGLang plug-in's backend with KV caches of fp8, in an SGLang that is made up (fake_sglang.py)."""

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import fake_sglang
import test_sglang_steps
import torch
from test_sglang_steps import CLOSE, DIM, E4M3, HEADS, KV_HEADS, LAYERS, NAMES, counters

made = test_sglang_steps.made  # the fixture


@pytest.fixture
def made_fp8(made, monkeypatch):
    """With the switch by which layers with a cache of fp8 are Trunkline's."""
    monkeypatch.setenv("TRUNKLINE_SGLANG_FP8_KV", "1")
    return made


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("hnd", [False, True])
@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("in_graph", [False, True])
def test_caches_of_fp8(made_fp8, page_size, in_graph, hnd, scaled):
    """Ours takes the queries as they are, which fa3 rounds; so the right result is that of unrounded ones."""
    server = made_fp8(page_size=page_size, hnd=hnd, kv_cache_dtype=E4M3)
    server.share([1, 2, 3])
    for layer in server.layers if scaled else ():
        layer.k_scale, layer.v_scale = (
            torch.nn.Parameter(torch.tensor(value), requires_grad=False) for value in (0.5, 3.0)
        )
    for rows in ([1, 2, 3], [2], [3, 1]):
        difference, by_sglang = server.step(rows, in_graph=in_graph)
        assert difference < 5 * CLOSE and by_sglang == 0
    found = counters()
    assert (found["decode_steps"], found["kv_bytes_per_token"]) == (3, LAYERS * 2 * KV_HEADS * DIM)


def test_scales_that_are_written_after_the_first_step(made_fp8):
    """Into the same memory, as when new weights come: graphs that were captured read it there."""
    server = made_fp8(kv_cache_dtype=E4M3)
    layer = server.layers[0]
    layer.k_scale, layer.v_scale = torch.tensor(1.0), torch.tensor(1.0)
    batch = server.batch([1, 2])
    server.begin(batch, in_graph=True)
    for k_scale, v_scale in ((1.0, 1.0), (0.5, 2.0), (1.5, 0.25)):
        layer.k_scale.fill_(k_scale)
        layer.v_scale.fill_(v_scale)
        assert server.layer(batch)[0] < 5 * CLOSE


def test_shadow_mode_with_fp8(made_fp8, monkeypatch):
    """fa3 rounds queries, so the other side gets rounded ones, too."""
    monkeypatch.setenv("TRUNKLINE_SGLANG_SHADOW", "1")
    server = made_fp8(kv_cache_dtype=E4M3)
    server.share([1, 2, 3])
    batch = server.batch([1, 2, 3])
    server.begin(batch, in_graph=True)
    q, k, v = server.new(batch)
    served = server.backend.forward_decode(q, k, v, server.layers[0], batch)
    rounded = fake_sglang.attention(
        server.backend, q.to(E4M3).float(), server.layers[0], server.backend.forward_metadata
    )
    assert torch.equal(served, rounded) and server.backend.rows_run == 3
    found = counters()["shadow"]
    assert (found["compared"], found["beyond"], found["tolerance"]) == (3 * HEADS, 0, 0.25)
    assert found["most"] < CLOSE
    server.layers[0].v_scale = server.layers[0].k_scale = torch.tensor(1.0)
    run = server.backend.steps.run
    monkeypatch.setattr(
        server.backend.steps, "run", lambda *given, **variant: run(*given, **variant | {"v_scale": torch.tensor(2.0)})
    )
    server.backend.forward_decode(q, k, v, server.layers[0], batch)
    assert counters()["shadow"]["beyond"] == 3 * HEADS


@pytest.mark.parametrize("in_graph", [False, True])
def test_caches_of_fp8_are_sglangs_by_default(made, in_graph, caplog):
    server = made(kv_cache_dtype=E4M3)
    assert type(server.backend) is fake_sglang.FlashAttentionBackend
    reason = "kv_cache_dtype float8_e4m3fn; taken with TRUNKLINE_SGLANG_FP8_KV=1"
    assert f"leaves {LAYERS} layers from {NAMES[0]} to SGLang's fa3: {reason}" in caplog.text
    assert "Trunkline has no layer of this model" in caplog.text
    assert server.step([1, 2], in_graph=in_graph)[1] == 2


def test_e5m2_is_sglangs_with_the_switch_too(made_fp8, caplog):
    server = made_fp8(kv_cache_dtype=torch.float8_e5m2)
    assert type(server.backend) is fake_sglang.FlashAttentionBackend
    assert "e5m2 beside fa3's prefill is not supported yet" in caplog.text


def test_scales_beside_a_cache_of_16_bits_are_not_used(made):
    """A checkpoint has them, and the server keeps the model's type, so that nothing is divided by them."""
    server = made()
    for layer in server.layers:
        layer.k_scale, layer.v_scale = torch.tensor(2.0), torch.tensor(2.0)
    batch = server.batch([1, 2])
    server.begin(batch)
    q, k, v = server.new(batch)
    found = server.backend.forward_decode(q, k, v, server.layers[0], batch)
    for layer in server.layers:
        layer.k_scale = layer.v_scale = None
    assert torch.equal(found, server.backend.forward_decode(q, k, v, server.layers[0], batch))
