"""The switch that leaves steps to the engine while sharing saves too little, and takes them back without a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GainRule:
    """Off after `window` steps that together saved less than min_saved of their KV reads. While off, Trunkline
    runs one step of probe_every; on again when such a probe saves min_saved.

    min_saved: planning takes a GPU up to 50 us a step, which is 1 % of the 5 ms that a step of an 8B model takes at
    least; attention is about a third of a step in which sharing can matter, so 3 % of the KV reads pay for it
    (bench/results/vllm). window: some 3 s of such steps. Groups of requests that share live for hundreds of steps,
    and pauses between them are shorter than the window. probe_every: 1/64 of planning's cost remains, and a new group
    waits half a second at most. The switch turns at most twice in window + probe_every steps, whatever the load.
    """

    min_saved: float = 0.03
    window: int = 512
    probe_every: int = 64


class GainSwitch:
    """Decides between steps alone, so that all layers of a step take the same path. rule: None for always on."""

    def __init__(self, rule: GainRule | None) -> None:
        self.on = True
        self._rule = rule
        self._skipped = 0
        self._reported_before_probe: int | None = None
        self._steps = self._total = self._read = 0

    def admits(self, report: Callable[[], Any]) -> bool:
        """Once a step that the engine could run: whether Trunkline runs it. report: gives the device's present one."""
        if self._rule is None or self.on:
            return True
        self._skipped += 1
        if self._skipped < self._rule.probe_every:
            return False
        self._skipped = 0
        self._reported_before_probe = _steps_reported(report())
        return True

    def probe_reported(self, report: Callable[[], Any]) -> bool:
        """Whether a probe was planned and its result is there: the device reports in its own time."""
        return self._reported_before_probe is not None and _steps_reported(report()) > self._reported_before_probe

    def take(self, report: Any, steps: int) -> float | None:
        """A look at the report, which stands for so many steps. Returns the share that was saved where the switch has
        turned by it, else None. A report without tokens says nothing."""
        self._reported_before_probe = None
        if self._rule is None or not report.kv_tokens_total:
            return None
        self._steps += steps
        self._total += report.kv_tokens_total * steps
        self._read += report.kv_tokens_read * steps
        if self.on and self._steps < self._rule.window:
            return None
        saved = 1 - self._read / self._total
        self._steps = self._total = self._read = 0
        was_on, self.on = self.on, saved >= self._rule.min_saved
        return saved if was_on != self.on else None


def _steps_reported(report: Any) -> int:
    return int(report.planned + report.reused)
