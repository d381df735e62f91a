"""How tests/vllm/engine_check.py judges an engine's counters; the engine itself needs a GPU and vLLM."""

import importlib.util
import pathlib
import types

import pytest

FILE = pathlib.Path(__file__).resolve().parent.parent / "vllm/engine_check.py"
spec = importlib.util.spec_from_file_location("engine_check", FILE)
assert spec is not None and spec.loader is not None
engine_check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(engine_check)

SHADOW = {"compared": 5000.0, "beyond": 0.0, "unsound": 0.0, "most": 0.008, "tolerance": 0.0156}
FAULTS = {"overflows": 0, "unplanned": 0, "bad_lengths": 0, "bad_queries": 0}
SOUND = {"decode_steps": 9, "shared_steps": 5, **FAULTS, "shadow": SHADOW}


def judge(*ranks, no_shadow=False, overflow=False):
    return engine_check.judge(list(ranks), types.SimpleNamespace(no_shadow=no_shadow, overflow=overflow))


def test_sound_ranks():
    assert judge({"layer": SOUND}, {"layer": SOUND}) == []
    assert judge({"layer": {key: value for key, value in SOUND.items() if key != "shadow"}}, no_shadow=True) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (dict(decode_steps=0), "no steps"),
        (dict(shared_steps=0), "none that share"),
        (dict(overflows=2), "'overflows': 2"),
        (dict(unplanned=1), "'unplanned': 1"),
        (dict(bad_queries=1), "'bad_queries': 1"),
        (dict(shadow=SHADOW | dict(beyond=3.0)), "3.0 of 5000.0 vectors differ"),
        (dict(shadow=SHADOW | dict(compared=20.0)), "of 20.0 vectors"),
    ],
)
def test_what_is_wrong(changes, text):
    found = judge({"layer": SOUND}, {"layer": SOUND | changes})
    assert len(found) == 1 and found[0].startswith("rank 1, layer") and text in found[0]


def test_a_run_in_which_no_request_overflowed():
    assert judge({"layer": SOUND}, overflow=True) == ["rank 0, layer: no request has overflowed"]
    assert judge({"layer": SOUND | dict(shadow=SHADOW | dict(unsound=7.0))}, overflow=True) == []


def test_ranks_are_compared():
    ranks = [{"a": {"mixed_steps": 9, "engine_steps": 2}}, {"a": {"mixed_steps": 6, "engine_steps": 5}}]
    assert engine_check.ranks_differ(ranks) == {"mixed_steps": 3, "engine_steps": 3}
    assert engine_check.ranks_differ(ranks[:1]) == {"mixed_steps": 0, "engine_steps": 0}


def test_a_rank_without_layers():
    assert judge({"layer": SOUND}, {}) == ["a rank has no layers on Trunkline"]
    assert judge() == ["a rank has no layers on Trunkline"]


def test_traffic_is_that_of_its_seed_and_shares_prefixes():
    prompts = [[traffic.prompt() for _ in range(60)] for traffic in map(engine_check.Traffic, (1, 1, 2))]
    assert prompts[0] == prompts[1] != prompts[2]
    begins = [tuple(prompt[:64]) for prompt in prompts[0] if len(prompt) >= 64]
    assert max(map(begins.count, begins)) >= 10


def test_some_requests_overflow_where_asked():
    for overflow in (False, True):
        traffic = engine_check.Traffic(1, overflow)
        having = sum(engine_check.OVERFLOWING_TOKEN in traffic.prompt() for _ in range(200))
        assert 5 <= having <= 40 if overflow else having == 0
