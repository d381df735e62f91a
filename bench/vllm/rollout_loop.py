"""One rollout: all requests from their prompts to the end of the last answer, with the time of each step."""

import collections
import statistics

from open_loop import OpenLoop
from scheduled import Step

UPPER = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # ends of the ranges of live requests


def range_of(live: int) -> str:
    """The range of a number of live requests: "1", "2", "3-4", "5-8"."""
    upper = next((bound for bound in UPPER if live <= bound), None)
    if upper is None:
        return f"{UPPER[-1] + 1}-"
    lower = upper // 2 + 1
    return str(upper) if lower == upper or upper == 1 else f"{lower}-{upper}"


class Rollout(OpenLoop):
    """An open loop that times its steps, by the record that the engine keeps in `done`.

    A step's time begins at the return of the last step with output. A step without output, such as one that reads the
    first part of a prompt, counts with the next step that has some. A step that reads prompts is prefill, even where
    other requests decode in it.
    """

    def __init__(self, engine, *rest, **named):
        super().__init__(engine, *rest, **named)
        engine.done.take()
        self.before: list[Step] = []
        self.returned = self.admitting_s = 0.0
        self.prefill_ms: list[float] = []
        self.decode_ms: dict[int, list[float]] = collections.defaultdict(list)  # by live requests

    def admit(self, now: float) -> None:
        began = self.clock()
        super().admit(now)
        took = self.clock() - began
        self.admitting_s += took
        self.returned += took  # the next step's time begins after it

    def note(self, moved: list[tuple[str, list[int], bool]], now: float) -> None:
        super().note(moved, now)
        self.before += self.engine.done.take()
        if not moved:
            return
        took, self.returned = 1e3 * (now - self.returned), now
        steps, self.before = self.before, []
        if any(step.is_prefill for step in steps):
            self.prefill_ms.append(took)
        else:
            self.decode_ms[steps[-1].requests if steps else len(moved)].append(took)

    def result(self, seconds: float) -> dict:
        found = super().result(seconds)
        prefill_s = sum(self.prefill_ms) / 1e3
        decode_s = sum(map(sum, self.decode_ms.values())) / 1e3
        by_live = sorted(self.decode_ms.items())
        early = sum(
            not seen.failed and len(seen.tokens) != request.max_tokens
            for seen, request in zip(self.seen, self.workload.requests, strict=True)
        )
        return {
            "seconds": seconds,
            "prefill_s": prefill_s,
            "decode_s": decode_s,
            "admit_s": self.admitting_s,  # the host's time to take the requests in
            "other_s": seconds - prefill_s - decode_s - self.admitting_s,
            "prefill_steps": len(self.prefill_ms),
            "decode_steps": sum(len(times) for _, times in by_live),
            "tokens": found["tokens"],
            "failures": found["failures"] + early,
            "why": found["why"] or (f"{early} answers ended early" if early else None),
            "half_done_s": half_done(found["e2e_ms"]),
            "by_live": {str(live): [len(times), round(statistics.fmean(times), 4)] for live, times in by_live},
        }


def half_done(e2e_ms: list[float | None]) -> float | None:
    """The time until half of the requests have ended; the rest of the rollout is its tail."""
    ended = [value for value in e2e_ms if value is not None]
    return statistics.median(ended) / 1e3 if ended else None


def by_range(results: list[dict]) -> dict[str, list[float | None]]:
    """The mean step of each range of live requests, by rollout; None where a rollout had no such step."""
    sums: dict[str, list[list[float]]] = {}
    for number, result in enumerate(results):
        for live, (steps, mean_ms) in result["by_live"].items():
            found = sums.setdefault(range_of(int(live)), [[0.0, 0.0] for _ in results])
            found[number][0] += steps
            found[number][1] += steps * mean_ms
    ordered = sorted(sums.items(), key=lambda item: int(item[0].partition("-")[0]))
    return {name: [total / steps if steps else None for steps, total in found] for name, found in ordered}
