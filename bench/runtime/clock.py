"""Times of the parts of a step, on the CPU by its clock, on a GPU by events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_source = time.perf_counter


def use_thread_time() -> None:
    """From now on, CPU time of the calling thread: for runs on one thread, which others on the machine disturb less."""
    global _source
    _source = time.thread_time


def now() -> float:
    """Seconds, of the elapsed time or the thread's."""
    return _source()


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
        began = now()
        yield
        self._parts[name] = self._parts.get(name, 0.0) + 1e3 * (now() - began)

    @contextmanager
    def whole(self) -> Iterator[dict[str, float]]:
        """Gives the parts of what ran within, "whole" among them, once it has ended."""
        self._parts, self._events = {}, []
        found: dict[str, float] = {}
        if self._cuda:
            torch.cuda.synchronize()
        began = now()
        yield found
        if self._cuda:
            torch.cuda.synchronize()
        found["whole"] = 1e3 * (now() - began)
        for name, begin, end in self._events:
            self._parts[name] = self._parts.get(name, 0.0) + begin.elapsed_time(end)
        found.update(self._parts)
