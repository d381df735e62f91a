"""The SGLang plug-in's backend, step by step on the CPU, in an SGLang that is made up (fake_sglang.py)."""

import dataclasses
import importlib.util
import types

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import fake_sglang
import torch
from fake_sglang import ForwardMode, RadixAttention
from trunkline.integrations import sglang as plugin
from trunkline.integrations.sglang import settings

HEADS, KV_HEADS, DIM, LAYERS = 4, 2, 64, 2
CONTEXT, POOL_ROWS, SHARED = 384, 12, 192  # tokens of the longest request, of a shared prompt
NAMES = [f"layers.{layer}.attn" for layer in range(LAYERS)]
CLOSE = 2e-5
E4M3 = torch.float8_e4m3fn


class Server:
    """A model runner and its backend. Requests 1 to 9 of the pool share a prompt of SHARED tokens unless told."""

    def __init__(
        self,
        monkeypatch,
        *,
        page_size=16,
        graphs=8,
        hnd=False,
        layer=None,
        pool=None,
        old=False,
        kv_cache_dtype=torch.float32,
        **given,
    ):
        self.page_size = page_size
        parent = fake_sglang.OldFlashAttentionBackend if old else fake_sglang.FlashAttentionBackend
        self.modules = fake_sglang.install(monkeypatch, given, parent)
        model = torch.nn.Module()
        model.layers = torch.nn.ModuleList()
        for i in range(LAYERS):
            block = torch.nn.Module()
            block.attn = RadixAttention(HEADS, KV_HEADS, DIM, i, **(layer or {}))
            model.layers.append(block)
        self.layers = [block.attn for block in model.layers]
        slots = -(-(POOL_ROWS + 1) * CONTEXT // page_size) * page_size
        pool = (pool or fake_sglang.MHATokenToKVPool)(slots, page_size, KV_HEADS, DIM, LAYERS, hnd, kv_cache_dtype)
        table = torch.zeros(POOL_ROWS, CONTEXT, dtype=torch.int32)
        for row in range(1, POOL_ROWS):
            table[row] = row * CONTEXT + torch.arange(CONTEXT)
        self.random = np.random.default_rng(3)
        self.runner = types.SimpleNamespace(
            device="cpu",
            page_size=page_size,
            context=CONTEXT,
            dtype=torch.float32,
            kv_cache_dtype=kv_cache_dtype,
            is_draft_worker=False,
            use_mla_backend=False,
            model=model,
            model_config=types.SimpleNamespace(),
            req_to_token_pool=types.SimpleNamespace(req_to_token=table),
            token_to_kv_pool=pool,
            given=given,
            server_args=types.SimpleNamespace(**given),
        )
        # The plug-in knows GPUs alone; plans of the host stand for theirs.
        monkeypatch.setattr(self.modules.choice, "runs_fa3", lambda runner: True)
        facts_of = self.modules.runner_facts.RunnerFacts.facts_of
        monkeypatch.setattr(
            self.modules.runner_facts.RunnerFacts,
            "facts_of",
            lambda *found: dataclasses.replace(facts_of(*found), device="cpu"),
        )
        self.backend = self.modules.choice.backend_for(self.runner, fake_sglang.factory_of_fa3)
        self.graphs = graphs
        if graphs:
            self.backend.init_cuda_graph_state(graphs, graphs)

    def share(self, rows, tokens=SHARED):
        table = self.runner.req_to_token_pool.req_to_token
        for row in rows[1:]:
            table[row, :tokens] = table[rows[0], :tokens]

    def batch(self, rows, *, mode=ForwardMode.DECODE, padding=0, lengths=None, made_up=False):
        """Requests of these rows of the pool, and padding: row 0 with a length of 1, as SGLang's graphs have it."""
        if lengths is None:
            lengths = [SHARED + 7 + 9 * i for i in range(len(rows))]
        all_rows, all_lengths = [*rows, *[0] * padding], [*lengths, *[1] * padding]
        pool_rows = torch.tensor(all_rows, dtype=torch.int64)
        tokens = len(all_rows) * self.backend._queries(mode)
        first = torch.tensor(all_lengths) if mode.is_target_verify() else torch.tensor(all_lengths) - 1
        places = first[:, None] + torch.arange(self.backend._queries(mode))
        return types.SimpleNamespace(
            forward_mode=mode,
            batch_size=len(all_rows),
            req_pool_indices=pool_rows,
            seq_lens=torch.tensor(all_lengths, dtype=torch.int64),
            out_cache_loc=self.runner.req_to_token_pool.req_to_token[pool_rows[:, None], places].flatten().long(),
            spec_info=types.SimpleNamespace() if mode.is_target_verify() else None,
            rids=None if made_up else [f"r{row}" for row in rows],
            tokens=tokens,
        )

    def begin(self, batch, *, in_graph=False, **how):
        if in_graph:
            self.backend.init_forward_metadata_out_graph(batch, **how)
        else:
            self.backend.init_forward_metadata(batch)

    def new(self, batch):
        """Query, key and value of a layer's tokens."""
        shapes = (HEADS * DIM,), (KV_HEADS, DIM), (KV_HEADS, DIM)
        return [torch.from_numpy(self.random.standard_normal((batch.tokens, *shape), np.float32)) for shape in shapes]

    def layer(self, batch, which=0, between=None, **kwargs):
        """The largest difference of a layer's result from SGLang's own, and the rows that its kernel ran. between: what
        the scheduler does between the step's metadata and the layer."""
        layer, (q, k, v) = self.layers[which], self.new(batch)
        expected = fake_sglang.FlashAttentionBackend(self.runner)
        expected.init_forward_metadata(batch)
        lengths, table = expected.forward_metadata.cache_seqlens_int32, expected.forward_metadata.page_table.clone()
        if between:
            between()
        before = self.backend.rows_run
        forward = (
            self.backend.forward_decode if batch.forward_mode is ForwardMode.DECODE else self.backend.forward_extend
        )
        found = forward(q, k, v, layer, batch, **kwargs)
        wanted = fake_sglang.attention(
            self.backend, q, layer, dataclasses.replace(expected.forward_metadata, page_table=table)
        )
        live = lengths.repeat_interleave(batch.tokens // batch.batch_size) > 1
        return float((found - wanted)[live].abs().max()), self.backend.rows_run - before

    def step(self, rows, *, in_graph=False, **how):
        batch = self.batch(rows, **how)
        self.begin(batch, in_graph=in_graph)
        return self.layer(batch)


@pytest.fixture
def made(monkeypatch):
    for name in ("", "_SHADOW", "_LOG_SECONDS", "_GAIN_RULE", "_INVARIANT", "_FP8_KV"):
        monkeypatch.delenv(f"TRUNKLINE_SGLANG{name}", raising=False)
    settings.settings.cache_clear()
    yield lambda **how: Server(monkeypatch, **how)
    settings.settings.cache_clear()


def counters():
    return plugin.statistics()[NAMES[0]]


# -- The scheduler works ahead of the GPU


def rewrite(server, row):
    """Gives a row of the pool away: its request has ended, and another's slots are written there."""

    def now():
        server.runner.req_to_token_pool.req_to_token[row] = (POOL_ROWS - 1) * server.page_size

    return now


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_a_row_that_is_rewritten_in_the_middle_of_a_step_is_not_seen(made, monkeypatch, in_graph, page_size):
    """The shared prompt is read through one member's row: without the snapshot, others would get another's tokens."""
    monkeypatch.setattr(fake_sglang.FlashAttentionBackend, "aliases_rows", not in_graph and page_size == 1)
    server = made(page_size=page_size)
    rows = [1, 2, 3, 4]
    server.share(rows)
    batch = server.batch(rows)
    server.begin(batch, in_graph=in_graph)
    for which in range(LAYERS):
        difference, by_sglang = server.layer(batch, which, between=rewrite(server, 1) if which else None)
        assert difference < CLOSE and by_sglang == 0
    assert counters()["kv_tokens_read"] < counters()["kv_tokens"]


def test_without_the_snapshot_it_would_be_seen(made, monkeypatch):
    monkeypatch.setattr(fake_sglang.FlashAttentionBackend, "aliases_rows", True)
    server = made(page_size=1)
    rows = [1, 2, 3, 4]
    server.share(rows)
    monkeypatch.setattr(server.modules.backend.TableSnapshot, "take", lambda self, tables, rows: tables)
    batch = server.batch(rows)
    server.begin(batch)
    assert server.layer(batch, between=rewrite(server, 1))[0] > 0.01


# -- Decode steps


@pytest.mark.parametrize("hnd", [False, True])
@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("in_graph", [False, True])
def test_decode_steps(made, page_size, in_graph, hnd):
    server = made(page_size=page_size, hnd=hnd)
    server.share([1, 2, 3, 4, 5])
    for rows, padding in (([1, 2, 3, 4, 5], 0), ([3], 0), ([5, 1, 7], 0), ([2, 4, 5], 5 * in_graph)):
        difference, by_sglang = server.step(rows, in_graph=in_graph, padding=padding)
        assert difference < CLOSE and by_sglang == 0
    found = counters()
    assert (found["decode_steps"], found["engine_steps"], found["layers"]) == (4, 0, LAYERS)
    assert found["kv_tokens_read"] < found["kv_tokens"] and found["overflows"] == 0


def test_graphs_and_eager_steps_take_turns(made):
    """A batch larger than the largest graph runs without one; both read the same table."""
    server = made(graphs=8)
    server.share([1, 2, 3])
    for in_graph in (True, False, True, False):
        difference, by_sglang = server.step([1, 2, 3], in_graph=in_graph)
        assert difference < CLOSE and by_sglang == 0
    assert server.step(list(range(1, 10))) == (0.0, 9)  # more than the table has rows
    assert (counters()["decode_steps"], counters()["engine_steps"]) == (4, 0)


def test_without_graphs(made, monkeypatch):
    server = made(graphs=0)
    server.share([1, 2, 3])
    difference, by_sglang = server.step([1, 2, 3])
    assert difference < CLOSE and by_sglang == 0
    small = made(graphs=0)
    monkeypatch.setattr(small.modules.backend, "MAX_SNAPSHOT_BYTES", 4 * 2 * -(-(CONTEXT + 1) // 16))
    assert small.step([1, 2])[1] == 0 and small.step([1, 2, 3]) == (0.0, 3)


def test_warm_ups_are_sglangs(made):
    """Before graphs are captured SGLang runs batches that are made up."""
    server = made(graphs=0)
    assert server.step([1, 2], made_up=True) == (0.0, 2)
    assert server.backend.steps is None
    server.backend.init_cuda_graph_state(8, 8)
    assert server.step([1, 2], in_graph=True)[1] == 0


def test_captures_are_planned_and_not_counted(made):
    server = made()
    batch = server.batch([], padding=4)
    server.begin(batch, in_graph=True, in_capture=True)
    assert server.backend._tokens == 4
    q, k, v = server.new(batch)
    assert server.backend.forward_decode(q, k, v, server.layers[0], batch).shape == (4, HEADS * DIM)
    assert server.backend.rows_run == 0 and counters()["decode_steps"] == 0


def test_the_graph_state_made_anew(made):
    server = made()
    assert server.step([1, 2], in_graph=True)[1] == 0
    server.backend.init_cuda_graph_state(4, 4)
    assert server.step([1, 2], in_graph=True)[1] == 0
    assert server.step([1, 2, 3, 4, 5]) == (0.0, 5)


def test_the_parents_schedule_is_made_for_its_own_steps_alone(made):
    server = made()
    server.step([1, 2], in_graph=True)
    assert server.backend.schedules == 0
    server.step([1, 2], made_up=True)
    assert server.backend.schedules == 1


@pytest.mark.parametrize("how", ["written", "in the cache", "not saved"])
def test_keys_and_values(made, how):
    """They are written before our kernel, unless they are in the cache already."""
    server = made()
    batch = server.batch([1, 2])
    server.begin(batch)
    q, k, v = server.new(batch)
    before = server.runner.token_to_kv_pool.k[0].clone()
    if how == "in the cache":
        k = v = None
    server.backend.forward_decode(q, k, v, server.layers[0], batch, how != "not saved")
    changed = (server.runner.token_to_kv_pool.k[0] != before).flatten(1).any(1).nonzero().flatten().tolist()
    assert changed == (sorted(batch.out_cache_loc.tolist()) if how == "written" else [])


def test_an_output_that_is_given(made):
    server = made()
    batch = server.batch([1, 2])
    batch._attn_output = torch.full((2, HEADS * DIM), torch.nan)
    server.begin(batch)
    q, k, v = server.new(batch)
    found = server.backend.forward_decode(q, k, v, server.layers[0], batch)
    assert found.data_ptr() == batch._attn_output.data_ptr() and not found.isnan().any()


def test_queries_between_keys(made):
    """A model hands over a slice of what one product computed."""
    server = made()
    server.share([1, 2])
    batch = server.batch([1, 2])
    server.begin(batch)
    q, k, v = server.new(batch)
    sliced = torch.cat([q, q], 1)[:, : HEADS * DIM]
    assert not sliced.is_contiguous()
    found = server.backend.forward_decode(sliced, k, v, server.layers[0], batch)
    assert torch.equal(found, server.backend.forward_decode(q, k, v, server.layers[0], batch))


def test_the_hooks_up_to_0_5_12(made, monkeypatch):
    """They get a batch in parts, and keys go to places without a class."""
    server = made(old=True)
    monkeypatch.setattr(server.modules.cache_write, "KVWriteLoc", None)
    server.share([1, 2, 3])
    batch = server.batch([1, 2, 3], padding=1)
    parts = batch.req_pool_indices, batch.seq_lens
    server.backend.init_forward_metadata_capture_cuda_graph(4, 4, *parts, None, batch.forward_mode, batch.spec_info)
    assert server.backend._tokens == 4 and counters()["decode_steps"] == 0
    server.backend.init_forward_metadata_replay_cuda_graph(
        4, *parts, None, None, batch.forward_mode, batch.spec_info, None, out_cache_loc=batch.out_cache_loc
    )
    difference, by_sglang = server.layer(batch)
    assert difference < CLOSE and by_sglang == 0 and counters()["decode_steps"] == 1


# -- What is SGLang's


def test_prefill_is_sglangs(made):
    server = made()
    assert server.step([1, 2])[1] == 0
    batch = server.batch([1, 2], mode=ForwardMode.EXTEND)
    server.begin(batch)
    assert server.layer(batch) == (0.0, 2)


def test_a_call_with_sinks(made):
    server = made()
    batch = server.batch([1, 2])
    server.begin(batch)
    without_weight = torch.full((HEADS,), -1e4, dtype=torch.bfloat16)
    difference, by_sglang = server.layer(batch, sinks=without_weight)
    assert difference < CLOSE and by_sglang == 0
    assert server.layer(batch, sinks=torch.full((HEADS,), 1e4))[0] > 0.01, "the sinks were not used"


def test_a_call_with_scales_is_sglangs(made):
    server = made()
    batch = server.batch([1, 2])
    server.begin(batch)
    assert server.layer(batch, k_scale=1.0)[1] == 2


def test_layers_with_a_window_are_sglangs_and_the_others_are_not(made, caplog):
    server = made()
    server.layers[1].sliding_window_size = 128
    server.backend = server.modules.choice.backend_for(server.runner, fake_sglang.factory_of_fa3)
    server.backend.init_cuda_graph_state(8, 8)
    batch = server.batch([1, 2])
    server.begin(batch, in_graph=True)
    assert server.layer(batch, 0)[1] == 0 and server.layer(batch, 1) == (0.0, 2)
    assert f"leaves 1 layers from {NAMES[1]} to SGLang's fa3: a sliding window is not supported yet" in caplog.text
    assert server.backend.schedules == 1  # that layer's


def test_the_shape_that_most_layers_have_is_ours(made, caplog):
    server = made()
    model = server.runner.model
    model.layers.append(torch.nn.Module())
    model.layers[LAYERS].attn = RadixAttention(HEADS, HEADS, DIM, LAYERS)
    server.backend = server.modules.choice.backend_for(server.runner, fake_sglang.factory_of_fa3)
    assert server.step([1, 2])[1] == 0 and counters()["layers"] == LAYERS
    assert f"leaves 1 layers from layers.{LAYERS}.attn to SGLang's fa3: layers of another shape" in caplog.text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dict(layer=dict(v_head_dim=32)), "values of another size than keys"),
        (dict(layer=dict(attn_type=fake_sglang.AttentionType.ENCODER_ONLY)), "attention of type encoder_only"),
        (dict(layer=dict(xai_temperature_len=1024)), "a temperature by length"),
        (dict(pool=fake_sglang.SWAKVPool), "a KV pool of class SWAKVPool"),
        (dict(pool=fake_sglang.MHATokenToKVPoolMXFP8, kv_cache_dtype=E4M3), "class MHATokenToKVPoolMXFP8"),
        (dict(kv_cache_dtype=torch.float8_e5m2), "e5m2 beside fa3's prefill is not supported yet"),
        (dict(kv_cache_dtype=torch.bfloat16), "kv_cache_dtype bfloat16; supported: auto, float32, fp8"),
        (dict(dcp_size=2), "context parallelism"),
        (dict(enable_two_batch_overlap=True), "enable_two_batch_overlap is on"),
        (dict(enable_pdmux=True), "enable_pdmux is on"),
        (dict(enable_torch_compile=True), "enable_torch_compile is on"),
        (dict(enable_unified_memory=True), "enable_unified_memory is on"),
        (
            dict(speculative_algorithm="EAGLE", speculative_num_draft_tokens=8, speculative_eagle_topk=4),
            "draft trees (speculative_eagle_topk over 1)",
        ),
        (dict(speculative_algorithm="DFLASH"), "speculative decoding by DFLASH; supported: EAGLE, EAGLE3"),
    ],
)
def test_what_our_kernels_do_not_do_is_sglangs(made, caplog, change, text):
    server = made(**change)
    assert type(server.backend) is fake_sglang.FlashAttentionBackend
    assert text in caplog.text and "Trunkline has no layer of this model" in caplog.text


def test_a_draft_model_has_sglangs_backend(made):
    server = made()
    server.runner.is_draft_worker = True
    found = server.modules.choice.backend_for(server.runner, fake_sglang.factory_of_fa3)
    assert type(found) is fake_sglang.FlashAttentionBackend


def test_without_kernels_of_the_shape_sglang_goes_on(made, monkeypatch, caplog):
    server = made()
    monkeypatch.setattr(server.backend, "_facts", dataclasses.replace(server.backend._facts, head_dim=80))
    assert server.step([1, 2]) == (0.0, 2)
    assert f"leaves 2 layers from {NAMES[0]} to SGLang's fa3" in caplog.text
    assert server.step([1, 2], in_graph=True) == (0.0, 2)


# -- Drafts


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("page_size", [1, 16])
def test_chains_of_drafts_are_verified(made, in_graph, page_size):
    drafting = dict(speculative_algorithm="EAGLE", speculative_num_draft_tokens=4, speculative_eagle_topk=1)
    server = made(page_size=page_size, **drafting)
    server.share([1, 2, 3])
    for rows, padding in (([1, 2, 3], 0), ([2], 0), ([1, 3], 2 * in_graph)):
        batch = server.batch(rows, mode=ForwardMode.TARGET_VERIFY, padding=padding)
        server.begin(batch, in_graph=in_graph)
        difference, by_sglang = server.layer(batch)
        assert difference < CLOSE and by_sglang == 0
    assert server.step([1, 2])[1] == 0  # a step without drafts, without a graph
    assert counters()["kv_tokens_read"] < counters()["kv_tokens"]


def test_ragged_verification_is_sglangs(made):
    server = made(speculative_algorithm="NGRAM", speculative_num_draft_tokens=4)
    batch = server.batch([1, 2], mode=ForwardMode.TARGET_VERIFY)
    batch.spec_info.ragged_verify_layout = object()
    server.begin(batch)
    assert server.layer(batch) == (0.0, 2)


def test_a_draft_models_own_steps_are_sglangs(made):
    server = made(speculative_algorithm="EAGLE", speculative_num_draft_tokens=4)
    batch = server.batch([1, 2])
    batch.spec_info = types.SimpleNamespace()
    server.begin(batch)
    assert server.layer(batch) == (0.0, 2)


# -- Switches


def test_shadow_mode(made, monkeypatch):
    monkeypatch.setenv("TRUNKLINE_SGLANG_SHADOW", "1")
    server = made()
    server.share([1, 2, 3])
    assert server.step([1, 2, 3], in_graph=True) == (0.0, 3)  # SGLang's result is served
    found = counters()["shadow"]
    assert (found["compared"], found["beyond"]) == (3 * HEADS, 0)
    run = server.backend.steps.run

    def wrong(query, kv_cache, output, *rest, **variant):
        run(query, kv_cache, output, *rest, **variant)
        output[0] += 1

    monkeypatch.setattr(server.backend.steps, "run", wrong)
    assert server.step([1, 2], in_graph=True)[0] == 0 and counters()["shadow"]["beyond"] == HEADS


@pytest.mark.parametrize("rule", ["0", "1"])
def test_the_gain_rule_acts_without_graphs(made, monkeypatch, rule):
    monkeypatch.setenv("TRUNKLINE_SGLANG_GAIN_RULE", rule)
    server = made(graphs=0)
    batch = server.batch([1, 2])
    for _ in range(512):
        server.begin(batch)
    assert server.step([1, 2])[1] == (2 if rule == "1" else 0)


def test_the_same_bits_in_any_batch(made, monkeypatch):
    monkeypatch.setenv("TRUNKLINE_SGLANG_INVARIANT", "1")
    server = made()
    server.share([1, 2, 3])
    layer = server.layers[0]
    batch = server.batch([1, 2, 3])
    q, k, v = server.new(batch)
    server.begin(batch)
    together = server.backend.forward_decode(q, k, v, layer, batch)
    alone = server.batch([1])
    server.begin(alone)
    assert torch.equal(server.backend.forward_decode(q[:1], None, None, layer, alone), together[:1])


def test_deterministic_servers_get_such_plans(made):
    server = made(enable_deterministic_inference=True)
    assert server.backend._engine.invariant
    assert not made().backend._engine.invariant
