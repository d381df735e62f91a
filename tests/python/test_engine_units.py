"""The engine layer piece by piece: capability, rules, counters, settings, releases."""

import ast
import dataclasses
import logging
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest
import trunkline
from trunkline.integrations import engine
from trunkline.integrations.engine import capability, counters, invariance, metrics, settings
from trunkline.integrations.engine.beside_prefill import BesidePrefill
from trunkline.integrations.engine.gain_switch import GainSwitch

LOGGER = logging.getLogger("engine.tests")


def report(**changes):
    fields = dict(planned=3, reused=7, kv_tokens_total=1000, kv_tokens_read=250)
    fields |= dict(fallbacks=0, unplanned=0, bad_lengths=0, bad_queries=0)
    return types.SimpleNamespace(**(fields | changes))


def test_the_layer_needs_neither_torch_nor_an_adapter():
    code = (
        "import sys, trunkline.integrations.engine; "
        "print([name for name in sys.modules if name.startswith(('torch', 'vllm', 'trunkline.integrations.'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    outside = {name for name in ast.literal_eval(done.stdout) if ".engine" not in name}
    assert not outside


# -- Capability

FACTS = engine.LayerFacts(32, 8, 128, 16, "bfloat16", draft_methods=("ngram", "suffix"))


def test_what_is_taken():
    for change in (
        {},
        dict(dtype="float16"),
        dict(kv_cache_dtype="bfloat16"),
        *(dict(kv_cache_dtype=word) for word in ("fp8", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2")),
        dict(num_qo_heads=64, num_kv_heads=1),
        dict(speculative="ngram", longest_query=4),
        dict(dtype="float32", device="cpu"),
        dict(features=(capability.SOFT_CAP, capability.SINKS)),
    ):
        assert engine.refusal(dataclasses.replace(FACTS, **change)) is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dict(features=(capability.SLIDING_WINDOW,)), "a sliding window is not supported yet"),
        (dict(features=(capability.CHUNKED_ATTENTION,)), "chunked local attention is not supported yet"),
        (dict(features=(capability.ALIBI,)), "ALiBi"),
        (dict(features=(capability.CONTEXT_PARALLELISM,)), "context parallelism"),
        (dict(features=("an engine's own switch",)), "an engine's own switch is not supported yet"),
        (
            dict(kv_cache_dtype="fp8_per_token_head"),
            "kv_cache_dtype fp8_per_token_head; supported: auto, bfloat16, fp8, fp8_e4m3, fp8_e5m2, float8_e4m3fn, ",
        ),
        (dict(kv_cache_dtype="float16"), "kv_cache_dtype float16; supported: auto, bfloat16, fp8"),
        (dict(dtype="float32"), "queries of float32; supported: float16, bfloat16"),
        (dict(attention_type="encoder_decoder"), "attention of type encoder_decoder; supported: decoder"),
        (dict(uniform=False), "its layers differ"),
        (dict(num_qo_heads=130, num_kv_heads=2), "130 query heads on 2 KV heads; supported: 1 to 64 each"),
        (dict(max_group_size=3), "32 query heads on 8 KV heads; supported: 1 to 3 each"),
        (dict(num_qo_heads=9), "9 query heads on 8 KV heads"),
        (dict(speculative="eagle"), "speculative decoding by eagle; supported: ngram, suffix"),
        (dict(speculative="eagle", draft_methods=()), "speculative decoding by eagle; supported: none"),
    ],
)
def test_what_is_left_to_the_engine(change, text):
    assert text in engine.refusal(dataclasses.replace(FACTS, **change))


@pytest.mark.parametrize("device", ["cuda:1", "rocm", None])
def test_a_device_that_is_no_kind(device):
    with pytest.raises(trunkline.InvalidArgumentError, match=f"device is '{device}'; expected: 'cuda' or 'cpu'"):
        dataclasses.replace(FACTS, device=device)


def test_shapes_are_refused_by_the_build():
    on_cpu = dataclasses.replace(FACTS, device="cpu")
    assert engine.supports(on_cpu)
    assert "supported: 64, 128, 256" in engine.supports(dataclasses.replace(on_cpu, head_dim=80)).reason
    assert engine.supports(dataclasses.replace(on_cpu, features=("sinks",))).reason == "sinks is not supported yet"


def test_bytes_of_a_token():
    assert FACTS.kv_bytes_per_token == 2 * 8 * 128 * 2
    assert dataclasses.replace(FACTS, dtype="float32").kv_bytes_per_token == 2 * 8 * 128 * 4
    assert dataclasses.replace(FACTS, kv_cache_dtype="fp8").kv_bytes_per_token == 2 * 8 * 128


@pytest.mark.parametrize(
    ("word", "dtype"),
    [
        ("auto", "bfloat16"),
        ("bfloat16", "bfloat16"),
        ("fp8", "float8_e4m3fn"),
        ("fp8_e4m3", "float8_e4m3fn"),
        ("fp8_e5m2", "float8_e5m2"),
        ("float8_e5m2", "float8_e5m2"),
    ],
)
def test_types_of_caches_by_engines_words(word, dtype):
    facts = dataclasses.replace(FACTS, kv_cache_dtype=word)
    assert facts.kv_dtype == dtype and facts.is_narrow == (dtype != "bfloat16")
    assert engine.supports(dataclasses.replace(facts, device="cpu"))


# -- Rows


@pytest.mark.parametrize(
    ("counts", "longest", "expected"),
    [
        ([1, 1, 1], 1, (3, 3)),
        ([1, 1, 7, 30], 1, (2, 2)),
        ([7, 1, 1], 1, (0, 0)),
        ([3, 3, 3], 3, (3, 9)),
        ([3, 3, 2, 9], 3, (3, 8)),
        ([1, 1, 0, 1], 1, (2, 2)),
        ([3, 3, 0, 0], 4, (4, 6)),  # padding
        ([1, 1, 0], 1, (3, 2)),
        ([1, 9, 0], 1, (1, 1)),
        ([0, 0], 1, (0, 0)),
        ([1, 5, 1], 4, (1, 1)),
    ],
)
def test_leading_decode_rows(counts, longest, expected):
    starts = np.cumsum([0, *counts, 99])  # longer than the batch, as engines' buffers are
    assert engine.leading_decode_rows(starts, len(counts), longest) == expected


# -- Steps beside prefill


def test_what_pays_beside_prefill():
    rule = engine.PrefillRule()

    def read(tokens):
        return report(kv_tokens_total=100000, kv_tokens_read=100000 - tokens)

    large = rule.large_prefill
    for prefill_tokens, needed_us in ((1, 50.0), (large - 1, 50.0), (large, 5.0), (8192, 5.0)):
        beside = BesidePrefill(rule, kv_bytes_per_token=4096, read_bytes_per_us=4e6)
        needed = int(needed_us * 4e6 / 4096)
        assert all(beside.pays(read(needed + 1), prefill_tokens) for _ in range(24))
        found = [beside.pays(read(needed - 1), prefill_tokens) for _ in range(16)]
        assert found == ([False] * 7 + [True]) * 2


def test_ranks_that_decided_differently_probe_in_the_same_step():
    rule = engine.PrefillRule(host_us=50.0, probe_every=4)
    ranks = [BesidePrefill(rule, kv_bytes_per_token=4096, read_bytes_per_us=4e6) for _ in range(2)]
    saving, nothing = report(kv_tokens_total=10**6, kv_tokens_read=0), report(kv_tokens_total=1, kv_tokens_read=1)
    assert [rank.pays(seen, 1) for rank, seen in zip(ranks, (saving, nothing), strict=True)] == [True, False]
    found = [[rank.pays(nothing, 1) for _ in range(8)] for rank in ranks]
    assert found[0] == found[1] == [False, False, True, False] * 2


# -- The gain switch

RULE = engine.GainRule(min_saved=0.1, window=32, probe_every=4)


def saving(percent, planned):
    return report(planned=planned, reused=0, kv_tokens_read=1000 - 10 * percent)


def test_the_switch_is_off_after_a_window_without_gain():
    switch = GainSwitch(RULE)
    assert switch.take(saving(0, 16), 16) is None and switch.on
    assert switch.take(saving(9, 32), 16) == pytest.approx(0.045) and not switch.on


def test_the_switch_stays_on_where_a_window_as_a_whole_gains():
    switch = GainSwitch(RULE)
    for _ in range(20):
        assert switch.take(saving(0, 1), 16) is None
        assert switch.take(saving(21, 1), 16) is None
    assert switch.on


def test_the_switch_probes_while_off_and_is_on_again_by_a_gain():
    switch, now = GainSwitch(RULE), saving(0, 100)
    switch.take(now, 32)
    assert [switch.admits(lambda: now) for _ in range(8)] == ([False] * 3 + [True]) * 2
    assert not switch.probe_reported(lambda: now)  # the device has not told of it yet
    now = saving(50, 101)
    assert switch.probe_reported(lambda: now)
    assert switch.take(now, 1) == 0.5 and switch.on
    assert not switch.probe_reported(lambda: now)
    assert all(switch.admits(lambda: now) for _ in range(20))


def test_a_probe_without_gain_leaves_it_off():
    switch = GainSwitch(RULE)
    switch.take(saving(0, 1), 32)
    assert switch.take(saving(9, 2), 1) is None and not switch.on


def test_the_switch_does_not_flap():
    """The load that turns it most often: no gain while on, gain at each probe."""
    switch, planned, turns = GainSwitch(RULE), 0, 0
    for _ in range(10 * (RULE.window + RULE.probe_every)):
        if switch.admits(lambda: saving(0, planned)):  # noqa: B023
            was_on = switch.on
            planned += 1
            turns += switch.take(saving(0 if was_on else 50, planned), 1) is not None
    assert 18 <= turns <= 20


def test_a_report_without_tokens_turns_nothing():
    switch = GainSwitch(RULE)
    for _ in range(10):
        assert switch.take(report(kv_tokens_total=0, kv_tokens_read=0), 16) is None
    assert switch.on


def test_the_switch_without_a_rule_is_on():
    switch = GainSwitch(None)
    for planned in range(100):
        assert switch.take(saving(0, planned), 16) is None and switch.admits(lambda: None)


# -- Counters


def test_counters():
    counted = engine.Counters(layers=2, kv_bytes_per_token=8192, decode_steps=16)
    assert counted.take(report(), 16) == []
    assert (counted.shared_steps, counted.kv_tokens, counted.kv_tokens_read) == (16, 16000, 4000)
    assert counted.kv_bytes_saved == 12000 * 8192
    assert counted.take(report(planned=4, kv_tokens_read=1000, fallbacks=1, bad_lengths=2), 4) == ["bad_lengths"]
    assert (counted.shared_steps, counted.plans_made, counted.overflows, counted.bad_lengths) == (16, 4, 1, 1)
    line = counted.line("Toy")
    assert "16 decode steps" in line and "plans: 4 made, 7 reused, 1 overflows" in line
    assert "saved about 0.0 %" in engine.Counters(1, 1).line("Toy")
    left = engine.Counters(1, 1, decode_steps=5, mixed_steps=2, engine_steps=3).line("Toy")
    assert "5 decode steps (2 beside prefill)" in left and "; 3 steps left to Toy;" in left


@pytest.mark.parametrize("fault", counters.FAULTS)
def test_a_fault_is_an_error_once(fault, caplog):
    counted = engine.Counters(1, 1)
    log = counters.CounterLog(counted, "2 layers", "Toy", LOGGER, 0)
    for _ in range(3):
        log.look(report(**{fault: 1}), 16)
    assert getattr(counted, fault) == 3 and counted.overflows == 0
    assert len(caplog.records) == 1 and f"planned wrongly ({fault})" in caplog.text


def test_the_log_has_a_line_when_something_happened(monkeypatch, caplog):
    now = [100.0]
    monkeypatch.setattr(counters.time, "monotonic", lambda: now[0])
    counted = engine.Counters(2, 8192)
    log = counters.CounterLog(counted, "2 layers", "Toy", LOGGER, 10)
    with caplog.at_level(logging.INFO):
        log.tick()
        counted.decode_steps = 5
        now[0] = 109.0
        log.tick()
        assert not caplog.records
        now[0] = 111.0
        log.tick()
        log.tick()
        now[0] = 140.0
        log.tick()
    assert len(caplog.records) == 1 and "Trunkline, 2 layers: 5 decode steps" in caplog.text


def test_the_log_says_what_shadow_mode_found(monkeypatch, caplog):
    now = [100.0]
    monkeypatch.setattr(counters.time, "monotonic", lambda: now[0])
    counted = engine.Counters(2, 8192)
    found = {"compared": 640.0, "beyond": 0.0}
    log = counters.CounterLog(counted, "2 layers", "Toy", LOGGER, 10, lambda: found)
    with caplog.at_level(logging.INFO):
        for step, beyond in enumerate((0.0, 3.0, 3.0), 1):
            found["beyond"] = beyond
            counted.decode_steps = step
            now[0] += 11
            log.tick()
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.ERROR, logging.INFO]
    assert "640 vectors compared, 3 beyond the tolerance" in caplog.records[1].message
    assert counted.shadow_beyond == 3


def test_statistics_of_groups_that_live():
    class Steps:
        counters = engine.Counters(2, 10, decode_steps=3, kv_tokens=7, kv_tokens_read=5)
        looked = 0

        def look(self):
            self.looked += 1

        def shadow_report(self):
            return {"beyond": 0.0}

    groups, steps = engine.Groups(), Steps()
    groups.add("layers.0", steps)
    found = groups.statistics()["layers.0"]
    assert (found["decode_steps"], found["kv_bytes_saved"], found["shadow"]) == (3, 20, {"beyond": 0.0})
    assert steps.looked == 1 and not engine.Groups().statistics()
    del steps
    assert not groups.statistics()


def test_metrics(monkeypatch):
    told: list[Any] = []

    class Counter:
        def __init__(self, name, text, labelnames):
            self.name = name

        def labels(self, layers):
            return types.SimpleNamespace(inc=lambda more: told.append((self.name, layers, more)))

    prometheus: Any = types.ModuleType("prometheus_client")
    prometheus.Counter = Counter
    monkeypatch.setitem(sys.modules, "prometheus_client", prometheus)
    monkeypatch.setattr(metrics, "_made", {})
    counted = engine.Counters(1, 10, decode_steps=5, kv_tokens=9, kv_tokens_read=4)
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    metrics.Metrics("l0").publish(counted)
    assert not told
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/tmp")
    published = metrics.Metrics("l0")
    published.publish(counted)
    counted.decode_steps = 7
    published.publish(counted)
    assert told == [
        ("trunkline:decode_steps", "l0", 5),
        ("trunkline:kv_bytes_saved", "l0", 50),
        ("trunkline:decode_steps", "l0", 2),
    ]


# -- Plans that give the same bits in any batch


@pytest.mark.parametrize(
    ("longest", "chunk", "chunks"),
    [(1, 1024, 1), (4096, 1024, 4), (32768, 1024, 32), (32769, 2048, 17), (40960, 2048, 20), (131072, 4096, 32)],
)
def test_chunks_follow_from_the_longest_request(longest, chunk, chunks):
    plans = invariance.InvariantPlans(8, longest)
    assert plans.options == trunkline.PlanOptions("invariant", invariant_chunk=chunk)
    assert plans.capacities == {"capacity_items": 8 * chunks, "capacity_partials": 8 * chunks}


# -- Settings

MODES = ("on", "off")


def test_settings(monkeypatch):
    assert engine.from_environment("TOY", MODES) == engine.Settings("on", False, 60.0, True, prefix="TOY")
    assert not engine.from_environment("TOY", MODES, gain_rule=False).gain_rule
    values = {"TOY": "OFF", "TOY_SHADOW": "1", "TOY_LOG_SECONDS": "0.5", "TOY_GAIN_RULE": "0"}
    values |= {"TOY_INVARIANT": "1", "TOY_FP8_KV": "1"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert engine.from_environment("TOY", MODES) == engine.Settings("off", True, 0.5, False, True, True, "TOY")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TOY", "yes", "TOY is 'yes'; expected: on, off"),
        ("TOY_SHADOW", "yes", "TOY_SHADOW is 'yes'; expected: 0 or 1"),
        ("TOY_GAIN_RULE", "", "TOY_GAIN_RULE is ''; expected: 0 or 1"),
        ("TOY_FP8_KV", "fp8", "TOY_FP8_KV is 'fp8'; expected: 0 or 1"),
        ("TOY_LOG_SECONDS", "inf", "TOY_LOG_SECONDS is 'inf'; expected: seconds, 0 or more"),
    ],
)
def test_bad_settings(monkeypatch, name, value, text):
    monkeypatch.setenv(name, value)
    with pytest.raises(trunkline.InvalidArgumentError, match=text):
        settings.from_environment("TOY", MODES)


@pytest.mark.parametrize(("prefix", "words"), [("TOY", "TOY_FP8_KV=1"), ("", "Settings(fp8_kv=True)")])
def test_caches_of_8_bits_are_the_engines_by_default(caplog, prefix, words):
    """Without a prefix a program gave the settings, and no variable would change them."""
    given = engine.Settings("on", prefix=prefix)
    toy = engine.Engine("Toy", logging.getLogger("engine.tests"), given)
    narrow = dataclasses.replace(FACTS, kv_cache_dtype="fp8")
    assert engine.takes_layers(toy, FACTS, ["l0"]) and not caplog.records
    assert not engine.takes_layers(toy, narrow, ["l0", "l1"])
    assert f"leaves 2 layers from l0 to Toy's kernel: kv_cache_dtype fp8; taken with {words}" in caplog.text
    toy = dataclasses.replace(toy, settings=dataclasses.replace(given, fp8_kv=True))
    assert engine.takes_layers(toy, narrow, ["l0"]) and len(caplog.records) == 1


def test_what_no_switch_takes_is_said_first(caplog):
    toy = engine.Engine("Toy", logging.getLogger("engine.tests"), engine.Settings("on", prefix="TOY"))
    narrow = dataclasses.replace(FACTS, kv_cache_dtype="fp8", features=(capability.SLIDING_WINDOW,))
    assert not engine.takes_layers(toy, narrow, ["l0"])
    assert capability.SLIDING_WINDOW in caplog.text and "TOY_FP8_KV" not in caplog.text


# -- Releases


def test_releases_between_which_the_interface_changes():
    toy = engine.Releases(
        "numpy", "Toy", first=(1, 4, 2), last=(1, 4, 9), run=((1, 4, 9),), only=((1, 4, 2), (1, 4, 9))
    )
    assert toy.refusal("1.4.2") is None and toy.refusal("1.4.9.post1") is None
    for version in ("1.4.5", "1.4.10", "1.4", "dev"):
        assert toy.refusal(version) == f"Toy is {version}; supported: 1.4.2, 1.4.9"
    assert toy.was_run("1.4.9+cu130") and not toy.was_run("1.4.2")


def test_releases():
    toy = engine.Releases("numpy", "Toy", first=(1, 4), last=(2, 0))
    assert toy.installed() == np.__version__
    assert toy.refusal("1.4.0") is None and toy.refusal("2.0rc1+cpu") is None
    assert toy.refusal("1.3.9") == "Toy is 1.3.9; supported: 1.4 to 2.0"
    assert toy.refusal("dev") == "Toy is dev; supported: 1.4 to 2.0"
    absent = engine.Releases("no-such-package-here", "Toy", (1, 0), (1, 0))
    assert absent.installed() is None and "Toy is not installed as a package" in absent.refusal(None)
