"""Times the steps of one batch while all its requests decode."""

import time
from typing import Protocol

from drawn import Request, Workload


class Engine(Protocol):
    """The interface of an engine that the measuring loops need."""

    def add(self, key: str, request: Request, temperature: float) -> None: ...

    def step(self) -> list[tuple[str, list[int], bool]]:
        """(key, new tokens, whether it ended) of each request that moved; empty while steps are only queued."""

    def abort(self, keys: list[str]) -> None: ...

    def synchronize(self) -> None: ...


class DecodeBatch:
    """A batch that stays alive between turns, so that engines can take turns with little between them."""

    def __init__(self, engine: Engine, workload: Workload, run: str):
        self.engine = engine
        self.keys = {f"{run}.{i}": 0 for i in range(len(workload.requests))}  # tokens generated so far
        for key, request in zip(self.keys, workload.requests, strict=True):
            engine.add(key, request, workload.temperature)

    def step(self) -> int:
        """Requests that moved."""
        moved = self.engine.step()
        for key, tokens, _ in moved:
            self.keys[key] += len(tokens)
        return len(moved)

    def until_all_decode(self, limit_s: float) -> float:
        """Seconds that prefill took; TimeoutError beyond the limit."""
        began = time.perf_counter()
        while not all(self.keys.values()):
            self.step()
            if time.perf_counter() - began > limit_s:
                waiting = sum(not tokens for tokens in self.keys.values())
                raise TimeoutError(f"{waiting} of {len(self.keys)} requests do not decode after {limit_s:g} s")
        self.engine.synchronize()
        return time.perf_counter() - began

    def turn(self, count: int, drop: int, limit_s: float) -> dict:
        """Times `count` steps after `drop` others, between the returns of steps that had output.

        The first steps are left out because a queued one has run while the engine was waiting for its turn. Steps that
        did not move the whole batch are counted as `short`.
        """
        began = time.perf_counter()
        times, short, before = [], 0, self.generated()
        last = None
        while len(times) < drop + count:
            moved = self.step()
            now = time.perf_counter()
            if now - began > limit_s:
                raise TimeoutError(f"{len(times)} of {drop + count} steps after {limit_s:g} s")
            if not moved:
                continue
            times.append(now - (began if last is None else last))
            short += moved != len(self.keys)
            last = now
        self.engine.synchronize()
        generated = (before + self.generated()) / 2
        return {"ms": [1e3 * t for t in times[drop:]], "short": short, "generated": generated}

    def generated(self) -> float:
        """Tokens a request, in the mean."""
        return sum(self.keys.values()) / len(self.keys)

    def finish(self) -> None:
        self.engine.abort(list(self.keys))
