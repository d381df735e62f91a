"""What the environment says, read once a process."""

from __future__ import annotations

import functools
import logging
import os
from dataclasses import dataclass

from ... import errors

logger = logging.getLogger("vllm.trunkline")  # under vLLM's own, so that its handlers and levels hold

MODES = ("custom", "override", "off")


@dataclass(frozen=True)
class Settings:
    """mode: one of MODES. shadow: run both kernels and compare. log_seconds: between lines of counters; 0: none."""

    mode: str = "custom"
    shadow: bool = False
    log_seconds: float = 60.0


def _flag(name: str) -> bool:
    text = os.environ.get(name, "0")
    if text not in ("0", "1"):
        raise errors.InvalidArgumentError(f"{name} is {text!r}; expected: 0 or 1")
    return text == "1"


def _seconds(name: str, default: float) -> float:
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


def from_environment() -> Settings:
    mode = os.environ.get("TRUNKLINE_VLLM", "custom").lower()
    if mode not in MODES:
        raise errors.InvalidArgumentError(f"TRUNKLINE_VLLM is {mode!r}; expected: {', '.join(MODES)}")
    return Settings(mode, _flag("TRUNKLINE_VLLM_SHADOW"), _seconds("TRUNKLINE_VLLM_LOG_SECONDS", Settings.log_seconds))


@functools.cache
def settings() -> Settings:
    return from_environment()
