"""Counters among the engine's metrics.

Workers are processes of their own, which vLLM's /metrics sees where PROMETHEUS_MULTIPROC_DIR names a folder for all of
them; ranks of a model are summed up then. Without it there is nobody to read them.
"""

from __future__ import annotations

import os
from typing import Any

from .counters import Counters

_NAMES = {
    "decode_steps": "Steps whose decode rows were Trunkline's",
    "mixed_steps": "Of these, steps with prefill rows beside",
    "engine_steps": "Steps that were all vLLM's",
    "shared_steps": "Steps whose requests shared prefixes, about",
    "kv_bytes_saved": "KV cache bytes that need not be read, about",
    "plans_made": "Plans made by the GPU",
    "plans_reused": "Steps that reused the plan before",
    "overflows": "Plans found without room for sharing",
}
_made: dict[str, Any] = {}


def _counter(name: str) -> Any:
    from prometheus_client import Counter  # vLLM depends on it

    if name not in _made:
        _made[name] = Counter(f"trunkline:{name}", _NAMES[name], labelnames=["layers"])
    return _made[name]


class Metrics:
    """Of one group of layers."""

    def __init__(self, layers: str) -> None:
        self._on = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        self._layers = layers
        self._told: dict[str, int] = dict.fromkeys(_NAMES, 0)

    def tell(self, counters: Counters) -> None:
        if not self._on:
            return
        for name, told in self._told.items():
            now = getattr(counters, name)
            if now > told:
                _counter(name).labels(self._layers).inc(now - told)
                self._told[name] = now
