"""What the plug-in has done in this process, for logs and for statistics()."""

from __future__ import annotations

import time
import weakref
from dataclasses import asdict, dataclass
from typing import Any

from .settings import logger, settings

FAULTS = ("unplanned", "bad_lengths", "bad_queries")
SAMPLED = 16  # steps between two looks at what the GPU has written about its plans


@dataclass
class Counters:
    """Of one group of layers.

    decode_steps: steps whose decode rows were ours; mixed_steps: of those, the ones with prefill rows beside;
    engine_steps: others, all vLLM's. decode_rows: requests in them, a step each, padding included. shared_steps,
    kv_tokens, kv_tokens_read: estimated by a look every SAMPLED steps: steps that read less than each request's tokens
    on its own, tokens of all requests, and tokens that were read. plans_made, plans_reused: of the GPU. overflows:
    looks that found a plan which fell back to `flat` for lack of room. unplanned, bad_lengths, bad_queries: looks that
    found what must not be: a step without any plan, lengths or query counts that cannot be true; the log has an error
    then.
    """

    layers: int
    kv_bytes_per_token: int
    decode_steps: int = 0
    mixed_steps: int = 0
    engine_steps: int = 0
    decode_rows: int = 0
    shared_steps: int = 0
    kv_tokens: int = 0
    kv_tokens_read: int = 0
    plans_made: int = 0
    plans_reused: int = 0
    overflows: int = 0
    unplanned: int = 0
    bad_lengths: int = 0
    bad_queries: int = 0

    @property
    def kv_bytes_saved(self) -> int:
        return (self.kv_tokens - self.kv_tokens_read) * self.kv_bytes_per_token

    def take(self, report: Any, steps: int) -> None:
        """A look at the planner's report, which stands for so many steps."""
        self.plans_made, self.plans_reused = report.planned, report.reused
        self.kv_tokens += report.kv_tokens_total * steps
        self.kv_tokens_read += report.kv_tokens_read * steps
        self.shared_steps += steps if report.kv_tokens_read < report.kv_tokens_total else 0
        self.overflows += int(bool(report.fallbacks))
        for fault in FAULTS:
            found = int(bool(getattr(report, fault)))
            if found and not getattr(self, fault):
                logger.error("Trunkline: a step was planned wrongly (%s); please report it: %s", fault, report)
            setattr(self, fault, getattr(self, fault) + found)

    def line(self) -> str:
        saved = 100 * (1 - self.kv_tokens_read / self.kv_tokens) if self.kv_tokens else 0.0
        return (
            f"{self.decode_steps} decode steps ({self.mixed_steps} beside prefill), about {self.shared_steps} with "
            f"shared prefixes; {self.engine_steps} steps left to vLLM; KV reads saved about {saved:.1f} % "
            f"({self.kv_bytes_saved / 1e9:.1f} GB); plans: {self.plans_made} made, {self.plans_reused} reused, "
            f"{self.overflows} overflows"
        )


class CounterLog:
    """Writes a line of counters when the time has come and something has happened."""

    def __init__(self, counters: Counters, name: str) -> None:
        self._counters, self._name = counters, name
        self._next = time.monotonic() + settings().log_seconds
        self._written = 0

    def tick(self) -> None:
        seconds = settings().log_seconds
        if not seconds or self._counters.decode_steps == self._written or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + seconds
        self._written = self._counters.decode_steps
        logger.info("Trunkline, %s: %s", self._name, self._counters.line())


_groups: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def add_group(name: str, owner: Any) -> None:
    """owner has `counters` and may have `shadow_report()`; it is not kept alive."""
    _groups[name] = owner


def statistics() -> dict[str, dict[str, Any]]:
    """Counters of each group of layers in this process, by the name of its first layer; in shadow mode with what was
    compared, which waits for the GPU. On the thread that runs the model, as collective_rpc does."""
    found = {}
    for name, owner in sorted(_groups.items()):
        owner.look()
        found[name] = {**asdict(owner.counters), "kv_bytes_saved": owner.counters.kv_bytes_saved}
        if (shadow := owner.shadow_report()) is not None:
            found[name]["shadow"] = shadow
    return found
