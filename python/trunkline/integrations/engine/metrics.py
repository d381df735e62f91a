"""Counters among the metrics of an engine that serves Prometheus.

Workers are processes of their own, which the engine's /metrics sees where PROMETHEUS_MULTIPROC_DIR names a folder for
all of them; ranks of a model are summed up then. Without the variable they are not published.
"""

from __future__ import annotations

import os
from typing import Any

from .counters import Counters

_NAMES = {
    "decode_steps": "Steps whose decode rows Trunkline ran",
    "mixed_steps": "Of these, steps with prefill rows, too",
    "engine_steps": "Steps that the engine's kernel ran alone",
    "shared_steps": "Steps whose requests shared prefixes, about",
    "kv_bytes_saved": "KV cache bytes that need not be read, about",
    "plans_made": "Plans made by the GPU",
    "plans_reused": "Steps that reused the plan before",
    "overflows": "Plans found without room for sharing",
    "shadow_compared": "Vectors that shadow mode has compared, as of the last line in the log",
    "shadow_beyond": "Of these, vectors beyond the tolerance",
}
_made: dict[str, Any] = {}


def _counter(name: str) -> Any:
    from prometheus_client import Counter  # engines with such metrics depend on it

    if name not in _made:
        _made[name] = Counter(f"trunkline:{name}", _NAMES[name], labelnames=["layers"])
    return _made[name]


class Metrics:
    """Metrics of one group of layers."""

    def __init__(self, layers: str) -> None:
        self._on = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        self._layers = layers
        self._published: dict[str, int] = dict.fromkeys(_NAMES, 0)

    def publish(self, counters: Counters) -> None:
        """Adds the counts since the last call."""
        if not self._on:
            return
        for name, published in self._published.items():
            now = getattr(counters, name)
            if now > published:
                _counter(name).labels(self._layers).inc(now - published)
                self._published[name] = now
