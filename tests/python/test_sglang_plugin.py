"""The SGLang plug-in without SGLang or a GPU: settings, versions, registration, statistics.

Steps in an SGLang that is made up: test_sglang_steps.py. The layer that it stands on: test_engine_units.py.
"""

import importlib.metadata
import importlib.util
import logging
import sys
import types

import pytest
import trunkline

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import fake_sglang
from trunkline.integrations import sglang as plugin
from trunkline.integrations.sglang import registration, settings, versions


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in ("", "_SHADOW", "_LOG_SECONDS", "_GAIN_RULE", "_INVARIANT", "_FP8_KV"):
        monkeypatch.delenv(f"TRUNKLINE_SGLANG{name}", raising=False)
    settings.settings.cache_clear()
    yield
    settings.settings.cache_clear()


# -- Settings and versions


def test_settings(monkeypatch):
    assert settings.from_environment() == settings.Settings("flag", False, 60.0, False, prefix="TRUNKLINE_SGLANG")
    monkeypatch.setenv("TRUNKLINE_SGLANG", "Override")
    monkeypatch.setenv("TRUNKLINE_SGLANG_SHADOW", "1")
    monkeypatch.setenv("TRUNKLINE_SGLANG_INVARIANT", "1")
    monkeypatch.setenv("TRUNKLINE_SGLANG_FP8_KV", "1")
    expected = settings.Settings("override", True, 60.0, False, True, True, "TRUNKLINE_SGLANG")
    assert settings.from_environment() == expected


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TRUNKLINE_SGLANG", "on", "TRUNKLINE_SGLANG is 'on'; expected: flag, override, off"),
        ("TRUNKLINE_SGLANG_FP8_KV", "true", "TRUNKLINE_SGLANG_FP8_KV is 'true'; expected: 0 or 1"),
    ],
)
def test_bad_settings(monkeypatch, name, value, text):
    monkeypatch.setenv(name, value)
    with pytest.raises(trunkline.InvalidArgumentError, match=text):
        settings.from_environment()


@pytest.mark.parametrize("version", ["0.5.12", "0.5.17.post1", "0.5.23", "0.5.23+cu130"])
def test_supported_versions(version):
    assert versions.refusal(version) is None


@pytest.mark.parametrize("version", ["0.5.11", "0.5.16", "0.5.24", "0.6.0", "0.5", "dev"])
def test_other_versions(version):
    assert versions.refusal(version) == f"SGLang is {version}; supported: 0.5.12, 0.5.17, 0.5.23"


# -- Registration


@pytest.fixture
def sglang(monkeypatch):
    monkeypatch.setattr(versions, "installed", lambda: "0.5.23")
    return fake_sglang.install(monkeypatch, {})


def test_registers_once_and_again(sglang, caplog):
    with caplog.at_level(logging.INFO):
        plugin.register()
        plugin.register()
    assert list(sglang.backends) == ["fa3", "trunkline"] and sglang.choices == ["triton", "fa3", "trunkline"]
    assert sglang.backends["fa3"] is fake_sglang.factory_of_fa3
    [record] = caplog.records
    assert "running models in no release of SGLang; here is 0.5.23: TRUNKLINE_SGLANG_SHADOW=1" in record.getMessage()


def test_takes_the_place_of_fa3(sglang, monkeypatch):
    monkeypatch.setenv("TRUNKLINE_SGLANG", "override")
    plugin.register()
    plugin.register()
    assert list(sglang.backends) == ["fa3"] and sglang.choices == ["triton", "fa3"]
    assert sglang.backends["fa3"] is not fake_sglang.factory_of_fa3
    # A GPU that fa3 does not run on is told so by SGLang's own factory.
    runner = types.SimpleNamespace(is_draft_worker=False, device="cpu", use_mla_backend=False)
    monkeypatch.setattr(fake_sglang, "FlashAttentionBackend", lambda runner: ("theirs", runner))
    assert sglang.backends["fa3"](runner) == ("theirs", runner)


def test_off(sglang, monkeypatch, caplog):
    monkeypatch.setenv("TRUNKLINE_SGLANG", "off")
    plugin.register()
    assert list(sglang.backends) == ["fa3"] and not caplog.records


@pytest.mark.parametrize(("mode", "name"), [("flag", "trunkline"), ("override", "fa3")])
def test_another_plugin_was_first(sglang, monkeypatch, caplog, mode, name):
    monkeypatch.setenv("TRUNKLINE_SGLANG", mode)

    def theirs(runner):
        return runner

    theirs.__module__ = "other"
    sglang.backends[name] = theirs
    plugin.register()
    assert sglang.backends[name] is theirs
    assert f"attention backend {name} is other's already, of another plug-in" in caplog.text


def test_an_unknown_engine_goes_on_alone(sglang, monkeypatch, caplog):
    monkeypatch.setattr(versions, "installed", lambda: "0.5.24")
    plugin.register()
    assert list(sglang.backends) == ["fa3"] and "SGLang is 0.5.24; supported: 0.5.12" in caplog.text


def test_a_changed_registry_stops_nothing(sglang, caplog):
    del sys.modules["sglang.srt.server_args"].add_attention_backend_choices
    plugin.register()
    assert list(sglang.backends) == ["fa3"] and "registering failed: ImportError" in caplog.text


def test_bad_settings_stop_nothing(sglang, monkeypatch, caplog):
    monkeypatch.setenv("TRUNKLINE_SGLANG", "yes")
    plugin.register()
    assert list(sglang.backends) == ["fa3"] and "expected: flag, override, off" in caplog.text


def test_the_entry_point_is_in_the_package():
    found = [entry.value for entry in importlib.metadata.distribution("trunkline").entry_points]
    assert "trunkline.integrations.sglang:register" in found and registration.register is plugin.register


# -- Statistics


def test_the_servers_state_has_the_counters(sglang, monkeypatch):
    plugin.register()
    [(target, hook)] = sglang.hooks.items()
    assert target == "sglang.srt.managers.scheduler.Scheduler.get_internal_state"
    told = types.SimpleNamespace(internal_state={"load": 1})
    assert hook(told, object(), recv_req=None) is told and told.internal_state == {"load": 1}
    monkeypatch.setattr(registration, "statistics", lambda: {"layers.0": {"decode_steps": 3}})
    assert hook(told).internal_state == {"load": 1, "trunkline": {"layers.0": {"decode_steps": 3}}}


# -- Arguments of releases without a context of the process


def test_the_arguments_of_older_releases(sglang, monkeypatch):
    del sys.modules["sglang.srt.runtime_context"].get_context
    runner = types.SimpleNamespace(server_args=types.SimpleNamespace(enable_pdmux=True))
    assert sglang.runner_facts.configuration(runner) == {"enable_pdmux": True}
