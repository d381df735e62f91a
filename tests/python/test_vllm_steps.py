"""The vLLM plug-in's builder and implementation, step by step on the CPU, in a vLLM that is made up (fake_vllm.py)."""

import dataclasses
import importlib.util
import types

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import fake_vllm
import torch
from trunkline.integrations import vllm as plugin
from trunkline.integrations.vllm import settings, versions

HEADS, KV_HEADS, DIM, PAGE_SIZE, PAGES = 4, 2, 64, 16, 64
LAYERS = ["model.layers.0", "model.layers.1"]


class Server:
    """The builder and a layer of it, where requests share a prompt of four pages."""

    def __init__(self, monkeypatch, *, graphs=True, release="0.33.0", kv_cache_dtype="auto"):
        monkeypatch.setattr(versions, "installed", lambda: release)
        monkeypatch.setattr(fake_vllm.FlashAttentionImpl, "kv_cache_dtype", kv_cache_dtype)
        layers = {name: fake_vllm.Attention() for name in LAYERS}
        self.modules = fake_vllm.install(monkeypatch, layers)
        self.impl = self.modules.impl.TrunklineImpl(HEADS, KV_HEADS, DIM)
        for layer in layers.values():
            layer.impl = self.impl
        self.layer = layers[LAYERS[0]]
        self.rounds_queries = kv_cache_dtype in fake_vllm.FP8
        # The plug-in knows GPUs alone; plans of the host stand for theirs.
        facts = self.modules.builder.group_facts
        monkeypatch.setattr(
            self.modules.builder,
            "group_facts",
            lambda *given: dataclasses.replace(facts(*given), device="cpu", dtype="float32"),
        )
        mode = types.SimpleNamespace(has_full_cudagraphs=lambda: graphs)
        config = types.SimpleNamespace(
            parallel_config=types.SimpleNamespace(decode_context_parallel_size=1),
            speculative_config=None,
            model_config=types.SimpleNamespace(max_model_len=6 * PAGE_SIZE, dtype=torch.float32),
            cache_config=types.SimpleNamespace(),
            scheduler_config=types.SimpleNamespace(max_num_seqs=8, max_num_batched_tokens=64),
            compilation_config=types.SimpleNamespace(max_cudagraph_capture_size=16, cudagraph_mode=mode),
        )
        of_bytes = kv_cache_dtype in fake_vllm.FP8
        spec = types.SimpleNamespace(block_size=PAGE_SIZE, dtype=torch.uint8 if of_bytes else torch.float32)
        self.builder = self.modules.builder.TrunklineMetadataBuilder(spec, LAYERS, config, "cpu")
        self.random = np.random.default_rng(3)
        packed, pair = (PAGES, KV_HEADS, PAGE_SIZE, 2 * DIM), (PAGES, 2, PAGE_SIZE, KV_HEADS, DIM)
        shape = pair if versions.release(release) < versions.PACKED else packed
        cache = self.random.standard_normal(shape, np.float32)
        self.cache = torch.from_numpy(cache)
        if of_bytes:
            self.cache = self.cache.to(fake_vllm.FP8[kv_cache_dtype]).view(torch.uint8)

    def batch(self, counts, *, shared=True, cached=True):
        """Requests with so many query tokens each; 0: padding with a token. cached: tokens of earlier steps, too."""
        table = np.zeros((len(counts), 6), np.int32)
        lengths = np.zeros(len(counts), np.int32)
        for row, count in enumerate(counts):
            if count:
                own = 5 + 6 * row + np.arange(6)
                table[row] = own
                if shared:
                    table[row, :4] = [1, 2, 3, 4]
                lengths[row] = 5 * PAGE_SIZE + 1 + row if cached else count
        starts = torch.from_numpy(np.cumsum([0, *(count or 1 for count in counts)]).astype(np.int32))
        return fake_vllm.Common(
            query_start_loc=starts,
            query_start_loc_cpu=starts,
            seq_lens=torch.from_numpy(lengths),
            num_reqs=len(counts),
            num_actual_tokens=int(starts[-1]),
            max_query_len=max(1, *counts),
            max_seq_len=int(lengths.max()),
            block_table_tensor=torch.from_numpy(table),
            slot_mapping=torch.zeros(int(starts[-1])),
        )

    def step(self, counts, **how):
        """The largest difference from vLLM's own result, and the rows that its kernel ran."""
        return self.run(self.builder.build(0, self.batch(counts, **how)), self.batch(counts, **how))

    def run(self, metadata, batch):
        query = torch.from_numpy(self.random.standard_normal((batch.num_actual_tokens, HEADS, DIM), np.float32))
        output, expected = torch.full_like(query, torch.nan), torch.empty_like(query)
        if self.rounds_queries:
            query = self.layer.rounded(query)
        plain = fake_vllm.FlashAttentionImpl(HEADS, KV_HEADS, DIM)
        theirs = fake_vllm.FlashAttentionMetadataBuilder.build(self.builder, 0, batch)
        plain.forward(self.layer, query, None, None, self.cache, theirs, expected)
        before = self.impl.rows_run
        assert self.impl.forward(self.layer, query, query, query, self.cache, metadata, output) is output
        return float((output - expected).abs().max()), self.impl.rows_run - before


@pytest.fixture
def made(monkeypatch):
    for name in ("", "_SHADOW", "_LOG_SECONDS", "_GAIN_RULE", "_INVARIANT", "_FP8_KV"):
        monkeypatch.delenv(f"TRUNKLINE_VLLM{name}", raising=False)
    settings.settings.cache_clear()
    yield lambda **how: Server(monkeypatch, **how)
    settings.settings.cache_clear()


@pytest.fixture
def made_fp8(made, monkeypatch):
    """With the switch by which layers with a cache of fp8 are Trunkline's."""
    monkeypatch.setenv("TRUNKLINE_VLLM_FP8_KV", "1")
    return made


def counters():
    return plugin.statistics()[LAYERS[0]]


def test_decode_steps(made):
    server = made()
    assert server.builder.reorder_batch_threshold == 1
    for counts in ([1] * 5, [1], [1, 1, 1, 0, 0]):
        difference, by_vllm = server.step(counts)
        assert difference < 2e-5 and by_vllm == 0
    found = counters()
    assert (found["decode_steps"], found["decode_rows"], found["engine_steps"]) == (3, 11, 0)
    assert found["layers"] == 2 and found["kv_tokens_read"] < found["kv_tokens"]


def test_steps_with_prefill(made):
    """Little is saved, so that one of eight is ours; the rows behind it are vLLM's."""
    server = made()
    found = [server.step([1, 1, 1, 20]) for _ in range(8)]
    assert [rows for _, rows in found] == [4] * 7 + [1]
    assert max(difference for difference, _ in found) < 2e-5
    assert server.step([20, 7]) == (0.0, 2)
    assert (counters()["engine_steps"], counters()["mixed_steps"]) == (8, 1)


def test_captures_are_planned_and_not_counted(made):
    server = made()
    batch = server.batch([0, 0, 0])
    metadata = server.builder.build_for_cudagraph_capture(batch)
    assert isinstance(metadata, server.modules.builder.TrunklineMetadata)
    assert server.run(metadata, batch) == (0.0, 0) and counters()["decode_steps"] == 0


def test_batches_without_a_cached_token_are_not_counted(made):
    """vLLM 0.33 builds the batches of piecewise captures as it builds those of steps."""
    server = made()
    batch = server.batch([1, 1, 1], cached=False)
    assert server.run(server.builder.build(0, batch), batch)[0] < 2e-5
    assert counters()["decode_steps"] == 0
    assert server.step([1, 1, 1])[0] < 2e-5 and counters()["decode_steps"] == 1


@pytest.mark.parametrize("release", ["0.24.0", "0.25.1"])
def test_caches_of_two_tensors(made, release):
    server = made(release=release)
    for counts in ([1] * 5, [1, 1, 1, 0, 0]):
        difference, by_vllm = server.step(counts)
        assert difference < 2e-5 and by_vllm == 0
    found = [server.step([1, 1, 1, 20]) for _ in range(8)]
    assert max(difference for difference, _ in found) < 2e-5 and found[-1][1] == 1


@pytest.mark.parametrize("release", ["0.25.1", "0.33.0"])
@pytest.mark.parametrize("rounds_queries", [False, True])
@pytest.mark.parametrize("kv_cache_dtype", ["fp8", "fp8_e4m3", "fp8_e5m2"])
def test_caches_of_fp8(made_fp8, kv_cache_dtype, rounds_queries, release):
    """Queries come rounded, or not where vLLM's kernel widens K and V, as FlashAttention 4 does at head size 512."""
    server = made_fp8(kv_cache_dtype=kv_cache_dtype, release=release)
    server.rounds_queries = rounds_queries
    for counts in ([1] * 5, [1, 1, 1, 0, 0]):
        difference, by_vllm = server.step(counts)
        assert difference < 1e-4 and by_vllm == 0
    found = [server.step([1, 1, 1, 20]) for _ in range(8)]
    assert max(difference for difference, _ in found) < 1e-4 and found[-1][1] == 1
    assert counters()["kv_bytes_per_token"] == 2 * 2 * KV_HEADS * DIM


@pytest.mark.parametrize("heads", [1, KV_HEADS])
def test_scales_that_are_written_after_the_first_step(made_fp8, heads):
    """Into the same memory, as when new weights come: graphs that were captured read it there."""
    server = made_fp8(kv_cache_dtype="fp8")
    scales = [torch.ones(heads) for _ in "qkv"]
    server.layer._q_scale, server.layer._k_scale, server.layer._v_scale = scales
    batch = server.batch([1, 1, 1])
    metadata = server.builder.build(0, batch)
    for values in ((1.0, 1.0, 1.0), (0.25, 0.5, 2.0), (0.5, 1.5, 0.125)):
        for scale, value in zip(scales, values, strict=True):
            scale.copy_(value * (1 + torch.arange(heads)))
        assert server.run(metadata, batch)[0] < 1e-4


def test_shadow_mode_with_fp8(made_fp8, monkeypatch):
    monkeypatch.setenv("TRUNKLINE_VLLM_SHADOW", "1")
    server = made_fp8(kv_cache_dtype="fp8")
    server.layer._k_scale.fill_(0.5)
    for counts in ([1, 1, 1, 0], [1, 1, 20]):
        assert server.step(counts)[0] == 0
    found = counters()["shadow"]
    assert (found["compared"], found["beyond"], found["tolerance"]) == ((3 + 22) * HEADS, 0, 0.25)
    assert found["most"] < 1e-4
    run = server.builder.steps.run
    monkeypatch.setattr(
        server.builder.steps, "run", lambda *given, **variant: run(*given, **variant | {"v_scale": torch.tensor(2.0)})
    )
    server.step([1, 1])
    assert counters()["shadow"]["beyond"] == 2 * HEADS


@pytest.mark.parametrize("release", ["0.25.1", "0.33.0"])
@pytest.mark.parametrize("kv_cache_dtype", ["fp8", "fp8_e4m3"])
def test_caches_of_fp8_are_vllms_by_default(made, kv_cache_dtype, release, caplog):
    server = made(kv_cache_dtype=kv_cache_dtype, release=release)
    assert server.builder.steps is None and server.builder._facts is None
    assert server.builder.reorder_batch_threshold is None, "vLLM's own order of rows"
    reason = f"kv_cache_dtype {kv_cache_dtype}; taken with TRUNKLINE_VLLM_FP8_KV=1"
    assert f"leaves 2 layers from {LAYERS[0]} to vLLM's FlashAttention: {reason}" in caplog.text
    for counts in ([1, 1, 1], [1, 1, 20]):
        batch = server.batch(counts)
        metadata = server.builder.build(0, batch)
        assert type(metadata) is fake_vllm.FlashAttentionMetadata
        assert server.run(metadata, batch) == (0.0, 3)


@pytest.mark.parametrize("kv_cache_dtype", ["fp8_per_token_head", "nvfp4", "bfloat16"])
def test_other_types_of_caches_are_vllms(made_fp8, kv_cache_dtype, caplog):
    server = made_fp8(kv_cache_dtype=kv_cache_dtype)
    assert server.builder.steps is None and server.builder._facts is None
    text = (
        f"leaves 2 layers from {LAYERS[0]} to vLLM's FlashAttention: kv_cache_dtype {kv_cache_dtype}; supported: auto"
    )
    assert text in caplog.text


def test_drafting_is_vllms(made):
    server = made()
    batch = server.batch([1, 1])
    assert server.run(server.builder.build_for_drafting(batch, 0), batch) == (0.0, 2)


def test_shadow_mode(made, monkeypatch):
    monkeypatch.setenv("TRUNKLINE_VLLM_SHADOW", "1")
    server = made()
    for counts in ([1, 1, 1, 0], [1, 1, 20]):
        assert server.step(counts)[0] == 0  # vLLM's result is served
    found = counters()["shadow"]
    assert (found["compared"], found["beyond"]) == ((3 + 22) * HEADS, 0)
    run = server.builder.steps.run

    def wrong(query, kv_cache, output, *rest, **variant):
        run(query, kv_cache, output, *rest, **variant)
        output[0] += 1

    monkeypatch.setattr(server.builder.steps, "run", wrong)
    assert server.step([1, 1])[0] == 0 and counters()["shadow"]["beyond"] == HEADS


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("rule", ["0", "1"])
def test_the_gain_rule_acts_where_no_graph_has_a_whole_step(made, monkeypatch, graphs, rule):
    monkeypatch.setenv("TRUNKLINE_VLLM_GAIN_RULE", rule)
    server = made(graphs=graphs)
    batch = server.batch([1, 1], shared=False)
    for _ in range(512):
        server.builder.build(0, batch)
    off = rule == "1" and not graphs
    assert server.step([1, 1], shared=False)[1] == (2 if off else 0)
    assert server.builder.steps.on == (rule == "0")


def test_without_kernels_of_the_shape_vllm_goes_on(made, monkeypatch, caplog):
    server = made()
    monkeypatch.setattr(server.builder, "_facts", dataclasses.replace(server.builder._facts, head_dim=80))
    assert server.step([1, 1]) == (0.0, 2)
    assert f"leaves 2 layers from {LAYERS[0]} to vLLM's FlashAttention" in caplog.text
