"""The vLLM plug-in without vLLM, torch or a GPU: settings, versions, registration, what is whose, counters.

With vLLM: tests/vllm.
"""

import dataclasses
import enum
import logging
import sys
import types
from typing import Any

import numpy as np
import pytest
import trunkline
from trunkline.integrations import vllm as plugin
from trunkline.integrations.vllm import counters, metrics, registration, settings, versions
from trunkline.integrations.vllm.beside_prefill import GPU_US, HOST_US, LOOKED_AT, MUCH, BesidePrefill
from trunkline.integrations.vllm.capability import GroupFacts, refusal
from trunkline.integrations.vllm.rows import decode_rows, rows_from

OURS = "trunkline.integrations.vllm.backend.TrunklineBackend"
OURS_AS_FLASH = "trunkline.integrations.vllm.backend.TrunklineFlashBackend"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in ("TRUNKLINE_VLLM", "TRUNKLINE_VLLM_SHADOW", "TRUNKLINE_VLLM_LOG_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    settings.settings.cache_clear()
    yield
    settings.settings.cache_clear()


# -- Settings


def test_settings(monkeypatch):
    assert settings.from_environment() == settings.Settings("custom", False, 60.0)
    monkeypatch.setenv("TRUNKLINE_VLLM", "Override")
    monkeypatch.setenv("TRUNKLINE_VLLM_SHADOW", "1")
    monkeypatch.setenv("TRUNKLINE_VLLM_LOG_SECONDS", "0")
    assert settings.from_environment() == settings.Settings("override", True, 0.0)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TRUNKLINE_VLLM", "on", "TRUNKLINE_VLLM is 'on'; expected: custom, override, off"),
        ("TRUNKLINE_VLLM_SHADOW", "yes", "TRUNKLINE_VLLM_SHADOW is 'yes'; expected: 0 or 1"),
        ("TRUNKLINE_VLLM_LOG_SECONDS", "-1", "expected: seconds, 0 or more"),
        ("TRUNKLINE_VLLM_LOG_SECONDS", "nan", "expected: seconds, 0 or more"),
        ("TRUNKLINE_VLLM_LOG_SECONDS", "soon", "expected: seconds, 0 or more"),
    ],
)
def test_bad_settings(monkeypatch, name, value, text):
    monkeypatch.setenv(name, value)
    with pytest.raises(trunkline.InvalidArgumentError, match=text):
        settings.from_environment()


# -- Versions


@pytest.mark.parametrize("version", ["0.26.0", "0.26.1rc2", "0.27.1", "0.33.0+cu130"])
def test_supported_versions(version):
    assert versions.refusal(version) is None


@pytest.mark.parametrize("version", ["0.25.9", "0.34.0", "1.0.0", "0.9.2", "dev"])
def test_other_versions(version):
    assert versions.refusal(version) == f"vLLM is {version}; supported: 0.26 to 0.33"


def test_no_version():
    assert "not installed as a package" in versions.refusal(None)


# -- Registration


@pytest.fixture
def registry(monkeypatch):
    """vLLM's registry, as far as the plug-in uses it."""
    overrides: dict[Any, str] = {}

    class Backend(enum.Enum):
        FLASH_ATTN = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
        CUSTOM = None

        def is_overridden(self):
            return self in overrides

        def get_path(self):
            return overrides.get(self, self.value)

    module: Any = types.ModuleType("vllm.v1.attention.backends.registry")
    module.AttentionBackendEnum = Backend
    module.register_backend = lambda member, path: overrides.__setitem__(member, path)
    parents = ["vllm", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backends"]
    for name in parents:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(versions, "installed", lambda: "0.26.0")
    return types.SimpleNamespace(overrides=overrides, backend=Backend, module=module)


def test_registers_once_and_again(registry, caplog):
    with caplog.at_level(logging.INFO):
        plugin.register()
        plugin.register()
    assert registry.overrides == {registry.backend.CUSTOM: OURS}
    assert not caplog.records


def test_takes_the_place_of_the_engines_backend(registry, monkeypatch):
    monkeypatch.setenv("TRUNKLINE_VLLM", "override")
    plugin.register()
    assert registry.overrides == {registry.backend.FLASH_ATTN: OURS_AS_FLASH}


def test_off(registry, monkeypatch, caplog):
    monkeypatch.setenv("TRUNKLINE_VLLM", "off")
    plugin.register()
    assert not registry.overrides and not caplog.records


def test_another_plugin_was_first(registry, caplog):
    registry.overrides[registry.backend.CUSTOM] = "other.Backend"
    plugin.register()
    assert registry.overrides == {registry.backend.CUSTOM: "other.Backend"}
    assert "CUSTOM is other.Backend already, of another plug-in" in caplog.text


def test_an_unknown_engine_goes_on_alone(registry, monkeypatch, caplog):
    monkeypatch.setattr(versions, "installed", lambda: "0.40.0")
    plugin.register()
    assert not registry.overrides and "vLLM is 0.40.0; supported: 0.26 to 0.33" in caplog.text


def test_an_engine_that_was_not_run_says_so(registry, monkeypatch, caplog):
    monkeypatch.setattr(versions, "installed", lambda: "0.33.0")
    with caplog.at_level(logging.INFO):
        plugin.register()
    assert registry.overrides and "here is 0.33.0: TRUNKLINE_VLLM_SHADOW=1" in caplog.text


@pytest.mark.parametrize("missing", ["AttentionBackendEnum", "register_backend"])
def test_a_changed_registry_stops_nothing(registry, missing, caplog):
    delattr(registry.module, missing)
    plugin.register()
    assert not registry.overrides and "Trunkline is off: registering failed: ImportError" in caplog.text


def test_bad_settings_stop_nothing(registry, monkeypatch, caplog):
    monkeypatch.setenv("TRUNKLINE_VLLM", "yes")
    plugin.register()
    assert not registry.overrides and "expected: custom, override, off" in caplog.text


def test_the_entry_point_is_in_the_package():
    import importlib.metadata

    found = [entry.value for entry in importlib.metadata.distribution("trunkline").entry_points]
    assert "trunkline.integrations.vllm:register" in found and registration.register is plugin.register


# -- What is whose

FACTS = GroupFacts(32, 8, 128, 16, "bfloat16")


def test_what_is_taken():
    for change in (
        {},
        dict(dtype="float16"),
        dict(kv_cache_dtype="bfloat16"),
        dict(num_qo_heads=16, num_kv_heads=1),
        dict(speculative="ngram", longest_query=4),
    ):
        assert refusal(dataclasses.replace(FACTS, **change)) is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dict(sliding_window=True), "a sliding window is not supported yet"),
        (dict(soft_cap=True), "a soft cap"),
        (dict(alibi=True), "ALiBi"),
        (dict(sinks=True), "attention sinks"),
        (dict(chunked=True), "chunked local attention"),
        (dict(context_parallel=True), "context parallelism"),
        (dict(batch_invariant=True), "VLLM_BATCH_INVARIANT"),
        (dict(overlapped_batches=True), "dual batch overlap"),
        (dict(bidirectional_prefix=True), "bidirectional attention"),
        (dict(reference_window=True), "a reference sliding window"),
        (dict(fast_prefill=True), "kv_sharing_fast_prefill"),
        (dict(kv_cache_dtype="fp8_e4m3"), "kv_cache_dtype fp8_e4m3; supported: auto, bfloat16"),
        (dict(dtype="float32"), "KV cache of float32; supported: float16, bfloat16"),
        (dict(attention_type="encoder_decoder"), "attention of type encoder_decoder; supported: decoder"),
        (dict(one_kind=False), "its layers differ"),
        (dict(num_qo_heads=34, num_kv_heads=2), "34 query heads on 2 KV heads; supported: 1 to 16 each"),
        (dict(num_qo_heads=9), "9 query heads on 8 KV heads"),
        (dict(speculative="eagle"), "speculative decoding by eagle; supported: ngram"),
    ],
)
def test_what_is_left_to_the_engine(change, text):
    assert text in refusal(dataclasses.replace(FACTS, **change))


@dataclasses.dataclass
class Common:
    """vLLM's CommonAttentionMetadata, with numpy in place of torch."""

    query_start_loc: Any
    query_start_loc_cpu: Any
    seq_lens: Any
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    block_table_tensor: Any
    slot_mapping: Any
    causal: Any = True
    mm_req_doc_ranges: Any = None
    is_prefilling: Any = None

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)


class OnHost(np.ndarray):
    def numpy(self):
        return np.asarray(self)


def common(counts, **changes):
    starts = np.cumsum([0, *counts]).astype(np.int32).view(OnHost)
    rows, tokens = len(counts), int(starts[-1])
    return Common(
        starts,
        starts,
        np.arange(rows) + 100,
        rows,
        tokens,
        max(counts),
        np.arange(rows)[:, None] * np.ones(4, int),
        np.arange(tokens),
        is_prefilling=np.array(counts) > 1,
        **changes,
    )


@pytest.mark.parametrize(
    ("counts", "longest", "expected"),
    [
        ([1, 1, 1], 1, (3, 3)),
        ([1, 1, 0, 0], 1, (4, 4)),  # padding is planned with the others
        ([1, 1, 7, 30], 1, (2, 2)),
        ([7, 1, 1], 1, (0, 0)),
        ([2, 2], 1, (0, 0)),
        ([3, 3, 3], 3, (3, 9)),
        ([3, 1, 2, 0], 3, (4, 6)),
        ([3, 3, 2, 9], 3, (3, 8)),
        ([1, 1], 4, (2, 2)),
        ([0, 1, 5], 1, (0, 0)),
    ],
)
def test_decode_rows(counts, longest, expected):
    assert decode_rows(common(counts), longest) == expected


def test_no_decode_rows():
    assert decode_rows(common([1, 1], causal=False), 1) == (0, 0)


def test_the_other_rows():
    batch = common([3, 1, 9, 20])
    rest = rows_from(batch, 2)
    assert rest.query_start_loc.tolist() == rest.query_start_loc_cpu.tolist() == [4, 13, 33]
    assert (rest.num_reqs, rest.num_actual_tokens, rest.max_query_len) == (2, 33, 20)
    assert rest.seq_lens.tolist() == [102, 103] and rest.is_prefilling.tolist() == [True, True]
    assert rest.block_table_tensor[:, 0].tolist() == [2, 3] and rest.slot_mapping.tolist() == list(range(33))
    assert batch.query_start_loc.tolist() == [0, 3, 4, 13, 33]


def test_what_pays_beside_prefill():
    def read(tokens):
        return types.SimpleNamespace(kv_tokens_total=100000, kv_tokens_read=100000 - tokens)

    for prefill_tokens, least_us in ((1, HOST_US), (MUCH - 1, HOST_US), (MUCH, GPU_US), (8192, GPU_US)):
        beside = BesidePrefill(kv_bytes_per_token=4096, read_bytes_per_us=4e6)
        least = int(least_us * 4e6 / 4096)
        assert all(beside.pays(read(least + 1), prefill_tokens) for _ in range(20))
        found = [beside.pays(read(least - 1), prefill_tokens) for _ in range(2 * LOOKED_AT)]
        assert found == ([False] * (LOOKED_AT - 1) + [True]) * 2
        beside.pays(read(0), prefill_tokens)
        assert beside.pays(read(least + 1), prefill_tokens) and not beside.pays(read(0), prefill_tokens)


# -- Counters


def report(**changes):
    fields = dict(planned=3, reused=7, kv_tokens_total=1000, kv_tokens_read=250)
    fields |= dict(fallbacks=0, unplanned=0, bad_lengths=0, bad_queries=0)
    return types.SimpleNamespace(**(fields | changes))


def test_counters():
    counted = counters.Counters(layers=2, kv_bytes_per_token=8192, decode_steps=16)
    counted.take(report(), 16)
    assert (counted.shared_steps, counted.kv_tokens, counted.kv_tokens_read) == (16, 16000, 4000)
    assert counted.kv_bytes_saved == 12000 * 8192
    counted.take(report(planned=4, kv_tokens_read=1000, fallbacks=1, bad_lengths=2), 4)
    assert (counted.shared_steps, counted.plans_made, counted.overflows, counted.bad_lengths) == (16, 4, 1, 1)
    assert "16 decode steps" in counted.line() and "plans: 4 made, 7 reused, 1 overflows" in counted.line()
    assert "saved about 0.0 %" in counters.Counters(1, 1).line()
    left = counters.Counters(1, 1, decode_steps=5, mixed_steps=2, engine_steps=3).line()
    assert "5 decode steps (2 beside prefill)" in left and "; 3 steps left to vLLM;" in left


@pytest.mark.parametrize("fault", counters.FAULTS)
def test_what_must_not_be_is_an_error_once(fault, caplog):
    counted = counters.Counters(1, 1)
    for _ in range(3):
        counted.take(report(**{fault: 1}), 16)
    assert getattr(counted, fault) == 3 and counted.overflows == 0
    assert len(caplog.records) == 1 and f"planned wrongly ({fault})" in caplog.text


def test_the_log_has_a_line_when_something_happened(monkeypatch, caplog):
    monkeypatch.setenv("TRUNKLINE_VLLM_LOG_SECONDS", "10")
    now = [100.0]
    monkeypatch.setattr(counters.time, "monotonic", lambda: now[0])
    counted = counters.Counters(2, 8192)
    log = counters.CounterLog(counted, "2 layers")
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


def test_statistics():
    class Steps:
        counters = counters.Counters(2, 10, decode_steps=3, kv_tokens=7, kv_tokens_read=5)
        looked = 0

        def look(self):
            self.looked += 1

        def shadow_report(self):
            return {"beyond": 0.0}

    steps = Steps()
    counters.add_group("model.layers.0", steps)
    found = plugin.statistics()["model.layers.0"]
    assert (found["decode_steps"], found["kv_bytes_saved"], found["shadow"]) == (3, 20, {"beyond": 0.0})
    assert steps.looked == 1
    del steps
    assert "model.layers.0" not in plugin.statistics()


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
    counted = counters.Counters(1, 10, decode_steps=5, kv_tokens=9, kv_tokens_read=4)
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    metrics.Metrics("l0").tell(counted)
    assert not told
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/tmp")
    its = metrics.Metrics("l0")
    its.tell(counted)
    counted.decode_steps = 7
    its.tell(counted)
    assert told == [
        ("trunkline:decode_steps", "l0", 5),
        ("trunkline:kv_bytes_saved", "l0", 50),
        ("trunkline:decode_steps", "l0", 2),
    ]
