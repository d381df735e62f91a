"""Rounds of one workload on engines in turns, and the rows that come of them."""

import dataclasses
import pathlib
import statistics
import time

import host_times
import pairing
from drawn import Workload, kv_tokens
from engine_client import EngineClient


@dataclasses.dataclass
class Plan:
    """How much is measured of a workload."""

    rounds: int = 2  # begins of the batch
    pairs: int = 6  # turns of each engine in a round
    steps: int = 40  # in a turn, at most
    fewest_steps: int = 10
    drop: int = 4
    turn_s: float = 0.6
    serve_rounds: int = 4
    profile_steps: int = 8  # 0: no profile
    seconds: float = 6.0  # of arrivals
    seed: int = 0
    limit_s: float = 60.0  # of one command


class Clock:
    """A budget of seconds."""

    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()


def wait_for(path: pathlib.Path | None) -> None:
    """Until the file is there: engines that start while others are measured cost no start of their own."""
    while path is not None and not path.exists():
        time.sleep(0.2)


def in_turn(engines: dict[str, EngineClient], order: list[str], command: str, within_s: float, **arguments) -> dict:
    return {name: engines[name].ask(command, within_s, **arguments) for name in order}


def floor_ms(distinct: float, token_bytes: int, read_bytes_per_us: float | None) -> float | None:
    """The time to read the distinct keys and values once."""
    return distinct * token_bytes / read_bytes_per_us / 1e3 if read_bytes_per_us else None


def steps_per_turn(plan: Plan, first: dict) -> int:
    """As many as fit into a turn of the slowest engine; the same for all, so that their texts stay as long."""
    slowest = max(statistics.median(found["ms"]) for found in first.values()) / 1e3
    return max(plan.fewest_steps, min(plan.steps, int(plan.turn_s / slowest)))


def time_steps(engines: dict[str, EngineClient], workload: Workload, plan: Plan, clock: Clock) -> dict:
    """Medians of each turn by engine, of rounds that begin the batch anew."""
    names = list(engines)
    found: dict = {kind: {name: [] for name in names} for kind in ("medians", *host_times.KINDS)}
    found |= {"generated": [], "short": 0, "steps": 0}
    load(engines, workload, plan)
    for round_number in range(plan.rounds):
        if round_number and clock.left() < 5:
            break
        order = pairing.turn_order(names, round_number)
        in_turn(engines, order, "begin", plan.limit_s + 5, limit_s=plan.limit_s)
        first = in_turn(engines, order, "steps", plan.limit_s + 5, count=6, drop=plan.drop, limit_s=plan.limit_s)
        found["steps"] = found["steps"] or steps_per_turn(plan, first)
        for turn in range(plan.pairs):
            if turn > 1 and clock.left() < 3:
                break
            ask = {"count": found["steps"], "drop": plan.drop, "limit_s": plan.limit_s}
            turns = in_turn(engines, pairing.turn_order(names, turn), "steps", plan.limit_s + 5, **ask)
            for name, timed in turns.items():
                found["medians"][name].append(statistics.median(timed["ms"]))
                found["generated"].append(timed["generated"])
                found["short"] += timed["short"]
                host_times.keep(found, name, timed)
        in_turn(engines, names, "end", plan.limit_s)
    return found


def profile(engines: dict[str, EngineClient], workload: Workload, plan: Plan) -> dict:
    """The kernels' times in a step of each engine. Apart from all timing, for a profiler that has run once may go on
    costing time; after as many tokens as half of a round generates."""
    names = list(engines)
    load(engines, workload, plan)
    in_turn(engines, names, "begin", plan.limit_s + 5, limit_s=plan.limit_s)
    generate = {"count": plan.pairs * plan.steps // 2, "drop": plan.drop, "limit_s": plan.limit_s}
    in_turn(engines, names, "steps", plan.limit_s + 5, **generate)
    found = in_turn(engines, names, "profile", plan.limit_s, steps=plan.profile_steps)
    in_turn(engines, names, "end", plan.limit_s)
    return found


def with_profile(row: dict, found: dict) -> dict:
    """A row of steps with what the profiler says of both engines."""
    base, subject = row["baseline"], row["subject"]
    row = row | {"profile": {name: found[name] for name in (base, subject)}}
    row["attention_ms"] = found[base]["attention_ms"]
    if row["floor_ms"] is not None and base == "default":
        times = row["step_ms"][base], row["step_ms"][subject]
        row["recovered"] = pairing.recovered(*times, row["attention_ms"], row["floor_ms"])
    return row


def load(engines: dict[str, EngineClient], workload: Workload, plan: Plan) -> None:
    in_turn(
        engines, list(engines), "load", plan.limit_s, name=workload.name, seed=plan.seed, seconds=plan.seconds
    )  # fmt: skip


def steps_rows(workload: Workload, found: dict, subject: str, token_bytes: int, bandwidth: float | None) -> list[dict]:
    """A row for each engine that `subject` is compared with."""
    medians = found["medians"]
    total, distinct = kv_tokens(workload.requests, round(statistics.fmean(found["generated"])))
    floor = floor_ms(distinct, token_bytes, bandwidth)
    rows = []
    for base in (name for name in medians if name != subject):
        row = {
            "step_ms": {name: round(statistics.median(medians[name]), 4) for name in (base, subject)},
            **pairing.ratio_of_pairs(medians[base], medians[subject]),
            **host_times.of_row(found, (base, subject)),
            "over": "turns",
            "steps_per_turn": found["steps"],
            "short_steps": found["short"],
            "kv_tokens_total": total,
            "kv_tokens_distinct": distinct,
            "floor_ms": floor,
        }
        rows.append({"baseline": base, "subject": subject, **row})
    return rows


def serve_rounds(engines: dict[str, EngineClient], workload: Workload, plan: Plan, clock: Clock) -> dict:
    """The results of each engine with the same requests, by round."""
    names = list(engines)
    found: dict[str, list[dict]] = {name: [] for name in names}
    load(engines, workload, plan)
    longest = 0.0
    for round_number in range(plan.serve_rounds):
        if round_number and clock.left() < 1.1 * longest:
            break
        began = time.monotonic()
        order = pairing.turn_order(names, round_number)
        limit = min(plan.limit_s, max(clock.left() / len(names), 10.0))
        for name, result in in_turn(engines, order, "serve", limit + 10, limit_s=limit).items():
            found[name].append(result)
        longest = max(longest, time.monotonic() - began)
    return found


METRICS = ("tpot_ms", "ttft_ms", "e2e_ms")


def serve_rows(workload: Workload, found: dict, subject: str) -> list[dict]:
    rows = []
    for base in (name for name in found if name != subject):
        ratios = {}
        for metric in METRICS:
            values = ([result[metric] for result in found[name]] for name in (base, subject))
            try:
                ratios[metric] = pairing.ratio_of_rounds(*values)
            except ValueError:  # no request that both answered
                continue
        seconds = ([result["seconds"] for result in found[name]] for name in (base, subject))
        ratios["seconds"] = pairing.ratio_of_pairs(*seconds) | {"over": "rounds"}
        row = {
            **ratios.get("tpot_ms", {"ratio": None, "ratio_lo": None, "ratio_hi": None, "pairs": 0, "over": None}),
            "ratios": ratios,
            "rounds": len(found[base]),
            "requests": len(workload.requests),
            "prompt_tokens": sum(len(request.prompt) for request in workload.requests),
            "served": {name: summary(found[name]) for name in (base, subject)},
            "failures": {name: sum(result["failures"] for result in found[name]) for name in (base, subject)},
        }
        rows.append({"baseline": base, "subject": subject, **row})
    return rows


def summary(results: list[dict]) -> dict:
    """The means over all rounds of one engine."""
    made: dict = {}
    for metric in METRICS:
        values = [value for result in results for value in result[metric] if value is not None]
        if values:
            made[metric] = {"mean": statistics.fmean(values), "p99": pairing.percentile(values, 0.99)}
    tails = [result["itl_p99_ms"] for result in results if result["itl_p99_ms"] is not None]
    made["itl_p99_ms"] = statistics.fmean(tails) if tails else None
    made["tokens_per_s"] = statistics.fmean(result["tokens"] / max(result["seconds"], 1e-9) for result in results)
    made["seconds"] = statistics.fmean(result["seconds"] for result in results)
    made["mean_load"] = statistics.fmean(result["mean_load"] for result in results)
    made["emptied"] = all(result.get("emptied") for result in results)  # the prefix cache, before each round
    made["why"] = next((result["why"] for result in results if result.get("why")), None)
    return made
