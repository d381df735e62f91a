"""Serves requests by their arrival times, whatever the engine's state, and keeps what each of them saw."""

import dataclasses
import time

from decode_steps import Engine
from drawn import Request, Workload


@dataclasses.dataclass
class Seen:
    """Times in seconds since the loop's begin."""

    due: float = 0.0
    first: float | None = None
    last: float = 0.0
    tokens: list[int] = dataclasses.field(default_factory=list)
    ended: bool = False
    failed: str | None = None


class OpenLoop:
    def __init__(self, engine: Engine, workload: Workload, run: str, clock=time.perf_counter):
        self.engine, self.workload, self.run, self.clock = engine, workload, run, clock
        self.seen = [Seen(request.arrival_s) for request in workload.requests]
        self.place = {f"{run}.{i}": i for i in range(len(self.seen))}
        self.live: set[int] = set()
        self.waiting = sorted(range(len(self.seen)), key=lambda i: (workload.requests[i].arrival_s, i))
        self.gaps: list[float] = []
        self.load: list[int] = []

    def serve(self, limit_s: float) -> dict:
        """Runs until all requests ended or the limit, after which what is left counts as failed."""
        began = self.clock()
        while self.waiting or self.live:
            now = self.clock() - began
            if now > limit_s:
                self.give_up(f"not done after {limit_s:g} s")
                break
            self.admit(now)
            if self.live:
                moved = self.engine.step()
                self.note(moved, self.clock() - began)
                self.load += [len(moved)] if moved else []
            elif self.waiting:
                due = self.workload.requests[self.waiting[0]].arrival_s
                time.sleep(min(max(due - now, 0.0), 0.05))
        self.engine.synchronize()
        return self.result(self.clock() - began)

    def admit(self, now: float) -> None:
        """Gives the engine what is due and waits for no other request."""
        held = []
        for at, i in enumerate(self.waiting):
            request = self.workload.requests[i]
            if request.arrival_s > now:
                held += self.waiting[at:]
                break
            if not all(self.seen[j].ended for j in request.after):
                held.append(i)
                continue
            if request.after:
                self.seen[i].due = max(request.arrival_s, *(self.seen[j].last for j in request.after))
            self.submit(i)
        self.waiting = held

    def submit(self, i: int) -> None:
        request = self.workload.requests[i]
        if request.parent is not None:
            request = dataclasses.replace(request, prompt=self.text(i))
        try:
            self.engine.add(f"{self.run}.{i}", request, self.workload.temperature)
        except Exception as error:  # what an engine refuses is a failure of the request, not of the run
            self.seen[i].failed, self.seen[i].ended = f"{type(error).__name__}: {error}", True
        else:
            self.live.add(i)

    def text(self, i: int) -> list[int]:
        """The prompt of a request that forks from another one."""
        request = self.workload.requests[i]
        if request.parent is None:
            return request.prompt
        return self.text(request.parent) + self.seen[request.parent].tokens + request.prompt

    def midway(self) -> float:
        """When half of the time is over in which requests arrive; of a burst, in which it is answered."""
        last = max(request.arrival_s for request in self.workload.requests)
        return (last or max(seen.last for seen in self.seen)) / 2

    def batch_at(self, at_s: float) -> Workload:
        """The requests that were decoding then, each with as much of its answer as it had, as a batch of steps. Steps
        are taken to be even over an answer's time."""
        requests = []
        for i, seen in enumerate(self.seen):
            if seen.first is None or not seen.first <= at_s < seen.last:
                continue
            share = (at_s - seen.first) / (seen.last - seen.first)
            answer = seen.tokens[: max(1, int(share * len(seen.tokens)))]
            requests.append(Request(self.text(i) + answer))
        about = f"the {len(requests)} requests of {self.workload.name} that were decoding after {at_s:g} s"
        return Workload(f"{self.workload.name}:live", "steps", requests, about, self.workload.temperature)

    def note(self, moved: list[tuple[str, list[int], bool]], now: float) -> None:
        for key, tokens, ended in moved:
            i = self.place.get(key)
            if i is None or i not in self.live:
                continue
            seen = self.seen[i]
            if tokens:
                if seen.first is None:
                    seen.first = now
                else:
                    self.gaps.append(now - seen.last)
                seen.last = now
                seen.tokens += tokens
            if ended:
                seen.ended = True
                self.live.discard(i)

    def give_up(self, why: str) -> None:
        self.engine.abort([f"{self.run}.{i}" for i in sorted(self.live)])
        for i in [*self.live, *self.waiting]:
            self.seen[i].failed = why
        self.live.clear()
        self.waiting = []

    def result(self, seconds: float) -> dict:
        """Milliseconds of each request, null where it has none, and what all saw together."""
        done = [seen if not seen.failed and seen.first is not None else None for seen in self.seen]
        several = [len(seen.tokens) > 1 if seen else False for seen in done]
        gaps = sorted(self.gaps)
        return {
            "seconds": seconds,
            "ttft_ms": [1e3 * (seen.first - seen.due) if seen else None for seen in done],
            "tpot_ms": [
                1e3 * (seen.last - seen.first) / (len(seen.tokens) - 1) if more else None
                for seen, more in zip(done, several, strict=True)
            ],
            "e2e_ms": [1e3 * (seen.last - seen.due) if seen else None for seen in done],
            "tokens": sum(len(seen.tokens) for seen in self.seen),
            "failures": sum(seen is None for seen in done),
            "why": next((seen.failed for seen in self.seen if seen.failed), None),
            "itl_p99_ms": 1e3 * gaps[min(len(gaps) - 1, int(0.99 * len(gaps)))] if gaps else None,
            "mean_load": sum(self.load) / len(self.load) if self.load else 0.0,
        }
