"""Times of the parts of a step, on the CPU by its clock, on a GPU by events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """Milliseconds by part, of what ran within part(name). Parts do not nest; what is in none is only in the whole."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._parts: dict[str, float] = {}
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        if self._cuda:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            yield
            end.record()
            self._events.append((name, begin, end))
            return
        began = time.perf_counter()
        yield
        self._parts[name] = self._parts.get(name, 0.0) + 1e3 * (time.perf_counter() - began)

    @contextmanager
    def whole(self) -> Iterator[dict[str, float]]:
        """Gives the parts of what ran within, "whole" among them, once it has ended."""
        self._parts, self._events = {}, []
        found: dict[str, float] = {}
        if self._cuda:
            torch.cuda.synchronize()
        began = time.perf_counter()
        yield found
        if self._cuda:
            torch.cuda.synchronize()
        found["whole"] = 1e3 * (time.perf_counter() - began)
        for name, begin, end in self._events:
            self._parts[name] = self._parts.get(name, 0.0) + begin.elapsed_time(end)
        found.update(self._parts)
