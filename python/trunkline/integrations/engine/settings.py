"""The environment's switches of an adapter, by a prefix of its own: parsed once, with errors that name the variable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ... import errors

LOG_SECONDS = 60.0


@dataclass(frozen=True)
class Settings:
    """mode: how the adapter is switched on, a word of its own. shadow: the engine's kernel runs too, and results are
    compared. log_seconds: between lines of counters; 0: none. gain_rule: steps go to the engine while sharing saves
    too little (GainRule). invariant: Engine.invariant, asked for by the user. fp8_kv: layers with a KV cache of 8 bits
    are taken; else they stay the engine's. prefix: of the variables that these were read from, none by default."""

    mode: str
    shadow: bool = False
    log_seconds: float = LOG_SECONDS
    gain_rule: bool = True
    invariant: bool = False
    fp8_kv: bool = False
    prefix: str = ""

    def words_for(self, field: str) -> str:
        """What a user sets to switch a field on: its variable, or the argument where the environment was not read."""
        return f"{self.prefix}_{field.upper()}=1" if self.prefix else f"Settings({field}=True)"


def from_environment(prefix: str, modes: Sequence[str], *, gain_rule: bool = True) -> Settings:
    """PREFIX (one of modes, by default the first), PREFIX_SHADOW, PREFIX_LOG_SECONDS, PREFIX_GAIN_RULE,
    PREFIX_INVARIANT, PREFIX_FP8_KV. gain_rule: the adapter's default."""
    mode = os.environ.get(prefix, modes[0]).lower()
    if mode not in modes:
        raise errors.InvalidArgumentError(f"{prefix} is {mode!r}; expected: {', '.join(modes)}")
    return Settings(
        mode,
        flag(f"{prefix}_SHADOW", False),
        seconds(f"{prefix}_LOG_SECONDS", LOG_SECONDS),
        flag(f"{prefix}_GAIN_RULE", gain_rule),
        flag(f"{prefix}_INVARIANT", False),
        flag(f"{prefix}_FP8_KV", False),
        prefix,
    )


def flag(name: str, default: bool) -> bool:
    """A variable that is 0 or 1."""
    text = os.environ.get(name, str(int(default)))
    if text not in ("0", "1"):
        raise errors.InvalidArgumentError(f"{name} is {text!r}; expected: 0 or 1")
    return text == "1"


def seconds(name: str, default: float) -> float:
    """A variable that is a time, 0 or more."""
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise errors.InvalidArgumentError(f"{name} is {text!r}; expected: seconds, 0 or more")
    return value
