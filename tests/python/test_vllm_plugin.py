"""The vLLM plug-in without vLLM, torch or a GPU: settings, versions, registration, its layers' facts, decode rows.

The layer that it stands on: test_engine_units.py, test_engine_steps.py. Steps in a vLLM that is made up:
test_vllm_steps.py. With vLLM: tests/vllm.
"""

import dataclasses
import enum
import importlib
import importlib.metadata
import logging
import sys
import types
from typing import Any

import numpy as np
import pytest
import trunkline
from trunkline.integrations import engine
from trunkline.integrations import vllm as plugin
from trunkline.integrations.vllm import registration, settings, versions
from trunkline.integrations.vllm.rows import decode_rows, rows_from

OURS = "trunkline.integrations.vllm.backend.TrunklineBackend"
OURS_AS_FLASH = "trunkline.integrations.vllm.backend.TrunklineFlashBackend"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in ("", "_SHADOW", "_LOG_SECONDS", "_GAIN_RULE", "_INVARIANT", "_FP8_KV"):
        monkeypatch.delenv(f"TRUNKLINE_VLLM{name}", raising=False)
    settings.settings.cache_clear()
    yield
    settings.settings.cache_clear()


# -- Settings


def test_settings(monkeypatch):
    assert settings.from_environment() == settings.Settings("custom", False, 60.0, False, prefix="TRUNKLINE_VLLM")
    monkeypatch.setenv("TRUNKLINE_VLLM", "Override")
    monkeypatch.setenv("TRUNKLINE_VLLM_SHADOW", "1")
    monkeypatch.setenv("TRUNKLINE_VLLM_LOG_SECONDS", "0")
    monkeypatch.setenv("TRUNKLINE_VLLM_GAIN_RULE", "1")
    monkeypatch.setenv("TRUNKLINE_VLLM_INVARIANT", "1")
    monkeypatch.setenv("TRUNKLINE_VLLM_FP8_KV", "1")
    expected = settings.Settings("override", True, 0.0, True, True, True, "TRUNKLINE_VLLM")
    assert settings.from_environment() == expected


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TRUNKLINE_VLLM", "on", "TRUNKLINE_VLLM is 'on'; expected: custom, override, off"),
        ("TRUNKLINE_VLLM_SHADOW", "yes", "TRUNKLINE_VLLM_SHADOW is 'yes'; expected: 0 or 1"),
        ("TRUNKLINE_VLLM_GAIN_RULE", "on", "TRUNKLINE_VLLM_GAIN_RULE is 'on'; expected: 0 or 1"),
        ("TRUNKLINE_VLLM_FP8_KV", "e4m3", "TRUNKLINE_VLLM_FP8_KV is 'e4m3'; expected: 0 or 1"),
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


@pytest.mark.parametrize("version", ["0.24.0", "0.26.0", "0.26.1rc2", "0.27.1", "0.33.0+cu130"])
def test_supported_versions(version):
    assert versions.refusal(version) is None


@pytest.mark.parametrize("version", ["0.23.1", "0.34.0", "1.0.0", "0.9.2", "dev"])
def test_other_versions(version):
    assert versions.refusal(version) == f"vLLM is {version}; supported: 0.24 to 0.33"


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
    assert not registry.overrides and "vLLM is 0.40.0; supported: 0.24 to 0.33" in caplog.text


def test_an_engine_that_was_not_run_says_so(registry, monkeypatch, caplog):
    monkeypatch.setattr(versions, "installed", lambda: "0.29.1")
    with caplog.at_level(logging.INFO):
        plugin.register()
    assert registry.overrides
    assert "running models in vLLM 0.26 and 0.33; here is 0.29.1: TRUNKLINE_VLLM_SHADOW=1" in caplog.text


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
    found = [entry.value for entry in importlib.metadata.distribution("trunkline").entry_points]
    assert "trunkline.integrations.vllm:register" in found and registration.register is plugin.register


# -- Facts of layers


@pytest.fixture
def group_facts(monkeypatch):
    """The function, in a process whose vLLM has an `envs`."""
    envs: Any = types.ModuleType("vllm.envs")
    envs.VLLM_BATCH_INVARIANT = False
    package: Any = types.ModuleType("vllm")
    package.envs = envs
    monkeypatch.setitem(sys.modules, "vllm", package)
    monkeypatch.setitem(sys.modules, "vllm.envs", envs)
    monkeypatch.delitem(sys.modules, "trunkline.integrations.vllm.group_facts", raising=False)
    # Imported anew: a package keeps the modules that a former test imported as attributes.
    module = importlib.import_module("trunkline.integrations.vllm.group_facts")
    yield module.group_facts
    sys.modules.pop("trunkline.integrations.vllm.group_facts", None)


def configured(part="", **changes):
    """vLLM's configuration as far as it is asked: of the cache, two layers, the parallel way, the model and so on."""
    parts: dict[str, dict[str, Any]] = {
        "spec": dict(block_size=16, dtype="torch.bfloat16"),
        "impl": dict(num_heads=32, num_kv_heads=8, head_size=128, kv_cache_dtype="auto", attn_type="decoder")
        | dict(sliding_window=(-1, -1), logits_soft_cap=0, alibi_slopes=None, sinks=None),
        "parallel": dict(decode_context_parallel_size=1),
        "speculative": {},
        "model": dict(dtype="torch.bfloat16"),
        "cache": {},
    }
    parts[part or "model"] |= changes
    made = {name: types.SimpleNamespace(**fields) for name, fields in parts.items()}
    config = types.SimpleNamespace(
        parallel_config=made["parallel"],
        speculative_config=made["speculative"] if part == "speculative" else None,
        model_config=made["model"],
        cache_config=made["cache"],
    )
    return made["spec"], [types.SimpleNamespace(impl=made["impl"])] * 2, config


def test_facts_of_plain_layers(group_facts):
    facts = group_facts(*configured())
    drafts = "ngram", "ngram_gpu", "suffix"
    assert facts == engine.LayerFacts(32, 8, 128, 16, "bfloat16", "bfloat16", draft_methods=drafts)
    assert engine.refusal(facts) is None
    drafting = group_facts(*configured("speculative", method="ngram", num_speculative_tokens=3))
    assert drafting.longest_query == 4 and engine.refusal(drafting) is None
    capped = group_facts(*configured("impl", logits_soft_cap=50.0, sinks=[1.0]))
    assert capped.features == ("a soft cap of logits", "attention sinks") and engine.refusal(capped) is None


@pytest.mark.parametrize(
    ("part", "change", "text"),
    [
        ("spec", dict(sliding_window=4096), "a sliding window is not supported yet"),
        ("impl", dict(sliding_window=(4095, 0)), "a sliding window is not supported yet"),
        ("spec", dict(attention_chunk_size=8192), "chunked local attention is not supported yet"),
        ("impl", dict(alibi_slopes=[1.0]), "ALiBi is not supported yet"),
        ("parallel", dict(decode_context_parallel_size=2), "context parallelism is not supported yet"),
        ("parallel", dict(prefill_context_parallel_size=2), "context parallelism is not supported yet"),
        ("parallel", dict(enable_dbo=True), "dual batch overlap is not supported yet"),
        ("parallel", dict(use_ubatching=True), "dual batch overlap is not supported yet"),
        ("model", dict(is_mm_prefix_lm=True), "bidirectional attention to parts of a prompt is not supported yet"),
        ("model", dict(rswa_window=1024), "a reference sliding window is not supported yet"),
        ("cache", dict(kv_sharing_fast_prefill=True), "kv_sharing_fast_prefill is not supported yet"),
        (
            "impl",
            dict(kv_cache_dtype="nvfp4"),
            "kv_cache_dtype nvfp4; supported: auto, bfloat16, fp8, fp8_e4m3, fp8_e5m2",
        ),
        ("impl", dict(kv_cache_dtype="float16"), "kv_cache_dtype float16; supported: auto, bfloat16"),
        ("spec", dict(dtype="torch.uint8"), "kv_cache_dtype uint8; supported: auto, bfloat16"),
        ("model", dict(dtype="torch.float32"), "queries of float32; supported: float16, bfloat16"),
        ("impl", dict(attn_type="encoder_decoder"), "attention of type encoder_decoder; supported: decoder"),
        ("impl", dict(num_heads=9), "9 query heads on 8 KV heads"),
        ("impl", dict(num_heads=130, num_kv_heads=2), "130 query heads on 2 KV heads; supported: 1 to 64 each"),
        (
            "speculative",
            dict(method="eagle", num_speculative_tokens=3),
            "speculative decoding by eagle; supported: ngram, ngram_gpu, suffix",
        ),
    ],
)
def test_layers_that_are_left_to_the_engine(group_facts, part, change, text):
    assert text in engine.refusal(group_facts(*configured(part, **change)))


@pytest.mark.parametrize(
    ("word", "dtype"), [("fp8", "float8_e4m3fn"), ("fp8_e4m3", "float8_e4m3fn"), ("fp8_e5m2", "float8_e5m2")]
)
def test_caches_of_fp8(group_facts, word, dtype):
    """vLLM's spec says bytes."""
    spec, layers, config = configured("impl", kv_cache_dtype=word)
    spec.dtype = "torch.uint8"
    facts = group_facts(spec, layers, config)
    assert (facts.dtype, facts.kv_dtype) == ("bfloat16", dtype) and engine.refusal(facts) is None


def test_layers_of_two_kinds(group_facts):
    spec, layers, config = configured()
    other = types.SimpleNamespace(impl=types.SimpleNamespace(**vars(layers[0].impl) | dict(num_heads=16)))
    assert "its layers differ" in engine.refusal(group_facts(spec, [layers[0], other], config))
    other.impl.num_heads, other.impl.kv_cache_dtype = layers[0].impl.num_heads, "fp8"
    assert "its layers differ" in engine.refusal(group_facts(spec, [layers[0], other], config))


@pytest.mark.parametrize("asked_by", ["VLLM_BATCH_INVARIANT", "TRUNKLINE_VLLM_INVARIANT"])
def test_batch_invariance(group_facts, monkeypatch, asked_by):
    drafts = configured("speculative", method="ngram", num_speculative_tokens=2)
    assert engine.refusal(group_facts(*drafts)) is None and not settings.engine().invariant
    if asked_by.startswith("VLLM"):
        monkeypatch.setattr(sys.modules["vllm.envs"], asked_by, True)
    else:
        monkeypatch.setenv(asked_by, "1")
        settings.settings.cache_clear()
    assert settings.engine().invariant and engine.refusal(group_facts(*configured())) is None
    refused = engine.refusal(group_facts(*drafts))
    assert refused == "batch invariance with speculative decoding is not supported yet"


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
