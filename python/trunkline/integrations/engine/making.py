"""DecodeSteps for a group of layers, or the engine's own kernel with a line in the log that says why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import errors
from .arrays import Arrays
from .capability import LayerFacts, refusal
from .steps import DecodeSteps, Engine


def leave(engine: Engine, layers: Sequence[str], reason: str) -> None:
    """Tells the log that the engine's kernel runs these layers."""
    engine.logger.warning(
        "Trunkline leaves %d layers from %s to %s's %s: %s", len(layers), layers[0], engine.name, engine.kernel, reason
    )


def takes_layers(engine: Engine, facts: LayerFacts, layers: Sequence[str]) -> bool:
    """Whether Trunkline runs the layers by what they ask and the settings allow; where not, the log says why."""
    reason = refusal(facts)
    if reason is None and facts.is_narrow and not engine.settings.fp8_kv:
        reason = f"kv_cache_dtype {facts.kv_cache_dtype}; taken with {engine.settings.words_for('fp8_kv')}"
    if reason is not None:
        leave(engine, layers, reason)
    return reason is None


def make_steps(
    engine: Engine, facts: LayerFacts, layers: Sequence[str], arrays: Arrays, **room: Any
) -> DecodeSteps | None:
    """DecodeSteps, whose arguments these are. None where no kernel has the shape or memory is out; the log says why."""
    try:
        return DecodeSteps(engine, facts, layers, arrays, **room)
    except (errors.Error, arrays.out_of_memory) as wrong:
        leave(engine, layers, str(wrong))
        return None
