"""Counts of an adapter's work in this process, for logs and statistics."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

FAULTS = ("unplanned", "bad_lengths", "bad_queries")
SAMPLED = 16  # steps between two looks at the device's report of its plans


@dataclass
class Counters:
    """Counts of one group of layers.

    decode_steps: steps whose decode rows Trunkline ran; mixed_steps: of those, the ones with prefill rows, too;
    engine_steps: steps that the engine's kernel ran alone; switched_steps: of those, the ones that the gain switch left
    to it.
    decode_rows: requests in decode_steps, once a step, padding included. shared_steps, kv_tokens, kv_tokens_read:
    estimated by a look every SAMPLED steps: steps that read less than each request's tokens one at a time, tokens of
    all requests, and tokens that were read. plans_made, plans_reused: by the device. overflows: looks that found a plan
    which fell back to `flat` for lack of capacity. unplanned, bad_lengths, bad_queries: looks that found a fault: a
    step without any plan, lengths or query counts that cannot be true; the log has an error then.
    shadow_compared, shadow_beyond: vectors that shadow mode has compared, and those beyond its tolerance, when the log
    was last written.
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
    switched_steps: int = 0
    shadow_compared: int = 0
    shadow_beyond: int = 0

    @property
    def kv_bytes_saved(self) -> int:
        """Bytes of all layers' K and V that need not be read, about."""
        return (self.kv_tokens - self.kv_tokens_read) * self.kv_bytes_per_token

    def take(self, report: Any, steps: int) -> list[str]:
        """A look at the planner's report, which stands for so many steps. Returns the faults that are new."""
        self.plans_made, self.plans_reused = report.planned, report.reused
        self.kv_tokens += report.kv_tokens_total * steps
        self.kv_tokens_read += report.kv_tokens_read * steps
        self.shared_steps += steps if report.kv_tokens_read < report.kv_tokens_total else 0
        self.overflows += int(bool(report.fallbacks))
        found = [fault for fault in FAULTS if getattr(report, fault)]
        new = [fault for fault in found if not getattr(self, fault)]
        for fault in found:
            setattr(self, fault, getattr(self, fault) + 1)
        return new

    def line(self, engine: str) -> str:
        """The counters for a log. engine: its name."""
        saved = 100 * (1 - self.kv_tokens_read / self.kv_tokens) if self.kv_tokens else 0.0
        shadow = (
            f"; shadow mode: {self.shadow_compared} vectors compared, {self.shadow_beyond} beyond the tolerance"
            if self.shadow_compared
            else ""
        )
        return (
            f"{self.decode_steps} decode steps ({self.mixed_steps} beside prefill), about {self.shared_steps} with "
            f"shared prefixes; {self.engine_steps} steps left to {engine}; KV reads saved about {saved:.1f} % "
            f"({self.kv_bytes_saved / 1e9:.1f} GB); plans: {self.plans_made} made, {self.plans_reused} reused, "
            f"{self.overflows} overflows{shadow}"
        )


class CounterLog:
    """Writes a line of counters when `seconds` have passed and steps have been run; 0: never. group: the layers' name
    in each line. shadow_report: DecodeSteps.shadow_report; a line waits for the device if it gives counts."""

    def __init__(
        self,
        counters: Counters,
        group: str,
        engine: str,
        logger: logging.Logger,
        seconds: float,
        shadow_report: Callable[[], dict[str, float] | None] = lambda: None,
    ) -> None:
        self._counters, self._group, self._engine = counters, group, engine
        self._shadow_report = shadow_report
        self._logger, self._seconds = logger, seconds
        self._next = time.monotonic() + seconds
        self._written = 0

    def tick(self) -> None:
        """Cheap where no line is due."""
        if not self._seconds or self._counters.decode_steps == self._written or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._seconds
        self._written = self._counters.decode_steps
        level = logging.INFO
        shadow = self._shadow_report()
        if shadow is not None:
            beyond = int(shadow["beyond"])
            level = logging.ERROR if beyond > self._counters.shadow_beyond else logging.INFO
            self._counters.shadow_compared, self._counters.shadow_beyond = int(shadow["compared"]), beyond
        self._logger.log(level, "Trunkline, %s: %s", self._group, self._counters.line(self._engine))

    def look(self, report: Any, steps: int) -> None:
        """Counts a look; a fault that is new is an error in the log."""
        for fault in self._counters.take(report, steps):
            self._logger.error("Trunkline: a step was planned wrongly (%s); please report it: %s", fault, report)

    def turned(self, on: bool, saved: float) -> None:
        """The gain switch has turned."""
        way = f"steps go to {self._engine}, as plans" if not on else "steps come back, as a probe"
        self._logger.info("Trunkline, %s: %s saved %.1f %% of KV reads", self._group, way, 100 * saved)


class Groups:
    """The groups of layers that are alive in this process. An adapter has one such object."""

    def __init__(self) -> None:
        self._owners: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def add(self, name: str, owner: Any) -> None:
        """owner has `counters`, `look()` and `shadow_report()`; it is not kept alive."""
        self._owners[name] = owner

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Counters of each group, by its name; in shadow mode with the comparison, which waits for the device. Call it
        on the thread that runs the model."""
        found = {}
        for name, owner in sorted(self._owners.items()):
            owner.look()
            found[name] = {**asdict(owner.counters), "kv_bytes_saved": owner.counters.kv_bytes_saved}
            if (shadow := owner.shadow_report()) is not None:
                found[name]["shadow"] = shadow
        return found
