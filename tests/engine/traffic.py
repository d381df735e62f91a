"""Requests for checks of plug-ins in real engines: those of a few trees, which come and go."""

from __future__ import annotations

import random
from typing import Any

# Its embedding is infinite where requests are to overflow; random prompts do not have it.
OVERFLOWING_TOKEN = 9


class Traffic:
    """Requests of a few trees: a root of many pages, branches, tails of their own; lengths end anywhere in a page.
    overflow: one prompt in ten has OVERFLOWING_TOKEN in its tail, so that from there on its keys and values are NaN.
    scale: of all lengths of prompts."""

    def __init__(self, seed: int, overflow: bool = False, scale: float = 1.0) -> None:
        self._random = random.Random(seed)
        self._overflow, self.scale = overflow, scale
        self._roots = [self._tokens(self._random.choice([700, 1500, 2300])) for _ in range(3)]
        self._branches = [
            [root + self._tokens(self._random.randint(20, 500)) for _ in range(3)] for root in self._roots
        ]

    def _tokens(self, count: int) -> list[int]:
        return [self._random.randrange(10, 31000) for _ in range(max(1, int(count * self.scale)))]

    def prompt(self) -> list[int]:
        kind = self._random.random()
        if kind < 0.15:
            return self._tokens(self._random.randint(1, 900))
        which = self._random.randrange(3)
        start = self._roots[which] if kind < 0.5 else self._random.choice(self._branches[which])
        if kind > 0.95:
            start = start[: self._random.randint(1, len(start))]
        tail = self._tokens(self._random.randint(1, 120))
        if self._overflow and self._random.random() < 0.1:
            tail[self._random.randrange(len(tail))] = OVERFLOWING_TOKEN
        return start + tail

    def wanted(self) -> int:
        return self._random.choice([1, 2, 17, 40, 90, 200])

    def event(self) -> float:
        return self._random.random()

    def pick(self, items: list[Any]) -> Any:
        return self._random.choice(items)
