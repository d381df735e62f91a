"""The adapter that docs/guides/engines.md writes for Toy. The Python blocks of the page are one module, run here."""

import dataclasses
import logging
import re
import types
from pathlib import Path

import numpy as np
import pytest
import toy_engine
from trunkline.integrations import engine

PAGE = Path(__file__).resolve().parents[2] / "docs/guides/engines.md"
ALWAYS_BESIDE_PREFILL = engine.PrefillRule(host_us=0, gpu_us=0)


@pytest.fixture
def adapter(monkeypatch):
    for name in ("", "_SHADOW", "_LOG_SECONDS", "_GAIN_RULE", "_INVARIANT", "_FP8_KV"):
        monkeypatch.delenv(f"TRUNKLINE_TOY{name}", raising=False)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    module = types.ModuleType("toy_adapter")
    exec(compile("\n".join(blocks), str(PAGE), "exec"), module.__dict__)
    return module


class Serving:
    """Runs steps by the adapter, and by Toy alone for comparison."""

    def __init__(self, adapter, config=None, **engine_changes):
        self.config = config or toy_engine.Config()
        self.scheduler = toy_engine.Scheduler(self.config)
        self.backend = adapter.TrunklineBackend(self.config, dataclasses.replace(adapter.describe(), **engine_changes))

    def step(self, **how):
        """The largest difference from Toy's own result, and the rows that Toy's kernel ran in all layers."""
        batch, query = self.scheduler.step(**how)
        k, v = self.scheduler.k, self.scheduler.v
        expected, output = np.empty_like(query), np.full_like(query, np.nan)
        toy_engine.Backend(self.config).forward(query, k, v, batch, expected)
        before = self.backend.rows_run
        self.backend.begin_step(batch)
        for _ in self.config.layers:
            self.backend.forward(query, k, v, batch, output)
        return float(np.abs(output - expected).max()), self.backend.rows_run - before


def test_decode_steps(adapter):
    serving = Serving(adapter)
    serving.scheduler.add(4, shared=True)
    serving.scheduler.add(2, shared=False)
    for padding in (0, 3, 10):
        difference, by_toy = serving.step(padding=padding)
        assert difference < 2e-5 and by_toy == 0
    found = adapter.GROUPS.statistics()["layers.0"]
    assert (found["decode_steps"], found["decode_rows"], found["engine_steps"]) == (3, 6 + 9 + 16, 0)
    assert found["kv_tokens"] - found["kv_tokens_read"] >= 3 * 3 * 5 * serving.config.page_size  # a prompt of 5 pages
    assert found["kv_bytes_saved"] > 0 and "shadow" not in found


def test_prefill_rows_are_toys(adapter):
    serving = Serving(adapter, prefill_rule=ALWAYS_BESIDE_PREFILL)
    serving.scheduler.add(5, shared=True)
    difference, by_toy = serving.step(prefill=12)
    assert difference < 2e-5 and by_toy == 1 * len(serving.config.layers)
    assert adapter.GROUPS.statistics()["layers.0"]["mixed_steps"] == 1


def test_decode_rows_beside_prefill_are_toys_where_little_is_saved(adapter):
    serving = Serving(adapter)
    serving.scheduler.add(5, shared=False)
    found = [serving.step(prefill=12) for _ in range(8)]
    assert [by_toy for _, by_toy in found] == [10] * 7 + [2]
    assert max(difference for difference, _ in found) < 2e-5


def test_a_batch_of_prefill_alone(adapter):
    serving = Serving(adapter)
    serving.scheduler.add(1, shared=True)
    assert serving.step(prefill=12) == (0.0, 2)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dict(sliding_window=64), "a sliding window is not supported yet"),
        (dict(head_dim=80), "supported: 64, 128, 256"),
    ],
)
def test_layers_that_toy_keeps(adapter, change, text, caplog):
    serving = Serving(adapter, toy_engine.Config(**change))
    serving.scheduler.add(4, shared=True)
    assert serving.step() == (0.0, 8)
    assert "Toy keeps 2 layers from layers.0: " in caplog.text and text in caplog.text
    assert not adapter.GROUPS.statistics()


def test_random_steps(adapter):
    """Requests come and go, with padding or prefill beside them or neither."""
    serving = Serving(adapter, toy_engine.Config(num_pages=400), prefill_rule=ALWAYS_BESIDE_PREFILL)
    random, requests = np.random.default_rng(11), serving.scheduler.requests
    for step in range(40):
        if len(requests) < 2 or (len(requests) < 12 and random.random() < 0.6):
            serving.scheduler.add(2, shared=bool(random.random() < 0.7))
        else:
            requests.pop(int(random.integers(len(requests))))
        kind = random.integers(3)
        how = dict(padding=int(random.integers(4))) if kind == 0 else dict(prefill=12) if kind == 1 else {}
        difference, by_toy = serving.step(**how)
        assert difference < 2e-5 and by_toy == 2 * (kind == 1), (step, how)


def test_shadow_mode(adapter, monkeypatch):
    monkeypatch.setenv("TRUNKLINE_TOY_SHADOW", "1")
    serving = Serving(adapter)
    serving.scheduler.add(4, shared=True)
    for how in (dict(), dict(padding=2), dict(prefill=12)):
        assert serving.step(**how)[0] == 0  # Toy's result is served
    heads, layers = serving.config.num_heads, len(serving.config.layers)
    found = adapter.GROUPS.statistics()["layers.0"]["shadow"]
    assert (found["compared"], found["beyond"]) == ((4 + 4 + 3 + 12) * heads * layers, 0)
    # A fault of ours, in one row and all of its heads.
    run = serving.backend.steps.run

    def wrong(query, kv_cache, output, *rest):
        run(query, kv_cache, output, *rest)
        output[1] *= 1.01

    monkeypatch.setattr(serving.backend.steps, "run", wrong)
    assert serving.step()[0] == 0
    assert adapter.GROUPS.statistics()["layers.0"]["shadow"]["beyond"] == heads * layers


def test_the_gain_rule(adapter, caplog):
    serving = Serving(adapter, gain_rule=engine.GainRule(window=16, probe_every=4))
    serving.scheduler.add(3, shared=False)
    with caplog.at_level(logging.INFO):
        by_toy = [serving.step()[1] for _ in range(24)]
        assert by_toy == [0] * 16 + [6, 6, 6, 0] * 2
        serving.scheduler.add(6, shared=True)
        found = [serving.step() for _ in range(8)]
    assert [rows for _, rows in found] == [18, 18, 18, 0, 0, 0, 0, 0]
    assert max(difference for difference, _ in found) < 2e-5
    assert "steps go to Toy" in caplog.text and "steps come back" in caplog.text


@pytest.mark.parametrize(("mode", "backends"), [("on", 1), ("off", 0), ("perhaps", 0)])
def test_registration(adapter, monkeypatch, mode, backends):
    monkeypatch.setattr(toy_engine, "BACKENDS", {})
    monkeypatch.setenv("TRUNKLINE_TOY", mode)
    adapter.register()
    adapter.register()
    assert list(toy_engine.BACKENDS.values()) == [adapter.TrunklineBackend] * backends


def test_invariant_steps(adapter, monkeypatch):
    """The switch goes through: a step with prefill rows is run, though nothing is shared."""
    monkeypatch.setenv("TRUNKLINE_TOY_INVARIANT", "1")
    serving = Serving(adapter)
    serving.scheduler.add(5, shared=False)
    difference, by_toy = serving.step(prefill=12)
    assert difference < 2e-5 and by_toy == 1 * len(serving.config.layers)
