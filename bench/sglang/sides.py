#!/usr/bin/env python3
"""Measures Trunkline against SGLang's fa3 inside one engine: the same process, weights, cache and requests.

    python3 bench/sglang/sides.py --out OUT/sglang.jsonl --commit COMMIT --page-size 1 --workloads groups unshared

The engine captures its graphs of decode steps twice with fa3's kernel and twice with Trunkline's, all in the same way,
and changes sides between turns of one batch that stays alive; the scheduler notes when each step's results are there.
So nothing else differs. How far two captures of a side differ, "null" and "subject_null" in the rows, is what this
cannot tell apart. Workloads of kind "serve" run whole, from an empty prefix cache to the last answer, each side in
turn. One GPU; SGLang 0.5.23.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vllm"), str(HERE.parent)]
import check_prompts  # noqa: E402
import kernel_times  # noqa: E402
import measure  # noqa: E402
import models  # noqa: E402
import pairing  # noqa: E402
import workloads  # noqa: E402
from drawn import CONTEXT, Request, Workload  # noqa: E402
from drawn import kv_tokens as kv_tokens_of  # noqa: E402
from paired import Rows, of_gpu, read_bytes_per_us  # noqa: E402
from sglang_engine import SglangEngine  # noqa: E402
from side_scheduler import AGAIN, OURS, OURS_AGAIN, SIDES, THEIRS  # noqa: E402

POLL_S = 0.05
EXTRA_STEPS = 12  # that a turn takes until it is known to be over
BATCHES = [1, 8, 16, 32, 64, 128, 256]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", default=["groups", "unshared"], help="names or sets")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file that rows are appended to")
    parser.add_argument("--commit", default="unknown", help="that the installed wheel was built from")
    parser.add_argument("--budget-s", type=float, default=240.0, help="no workload begins after this, start included")
    parser.add_argument("--model", choices=list(models.SHAPES), default="llama3-8b")
    parser.add_argument("--layers", type=int, help="fewer than the model has")
    parser.add_argument("--page-size", type=int, default=1)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="of captured graphs")
    parser.add_argument("--kv-gib", type=float, default=40.0)
    parser.add_argument("--mem-fraction", type=float, default=0.8, help="of the GPU, for weights and KV cache")
    parser.add_argument("--scratch", default="/tmp/trunkline_sglang", help="folder for configurations")
    parser.add_argument("--std", type=float, default=0.02, help="of the drawn weights")
    parser.add_argument("--rounds", type=int, default=2, help="times that a batch begins")
    parser.add_argument("--pairs", type=int, default=6, help="turns of each side in a round")
    parser.add_argument("--steps", type=int, default=40, help="timed steps in a turn, at most")
    parser.add_argument("--whole-rounds", type=int, default=2, help="runs of each side, of workloads that run whole")
    parser.add_argument("--profile-steps", type=int, default=8, help="0: none")
    parser.add_argument("--unchecked", action="store_true", help="do not compare first; such rows are not filed")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.workloads = workloads.names_of(given.workloads)
    return given


class Batch:
    """A batch that stays alive between turns. The first request comes alone, so that the others find its prompt."""

    def __init__(self, engine: SglangEngine, workload: Workload, name: str, limit_s: float):
        self.engine, self.count = engine, len(workload.requests)
        self.steps = 0  # decode steps so far, about: tokens of each request
        first, *others = [(f"{name}.{i}", request) for i, request in enumerate(workload.requests)]
        engine.add(*first, workload.temperature)
        self._until(1, limit_s)
        for key, request in others:
            engine.add(key, request, workload.temperature)
        self._until(self.count, limit_s)

    def _until(self, running: int, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while True:
            self.engine.let_run(POLL_S)
            self.engine.raise_ended()
            live = self.engine.ask("live")
            if live["running"] >= running and not live["waiting"]:
                return
            if time.monotonic() > end:
                raise TimeoutError(f"{live['running']} of {running} requests decode after {limit_s:g} s: {live}")

    def turn(self, side: str, count: int, drop: int, limit_s: float) -> dict:
        """Times `count` steps of a side after `drop` others."""
        self.engine.ask("use", side=side)
        end = time.monotonic() + limit_s
        wait = 0.02
        while True:
            self.engine.let_run(wait)
            self.engine.raise_ended()
            found = self.engine.ask("steps")
            if len(found) > drop + count + 1:
                break
            if time.monotonic() > end:
                raise TimeoutError(f"{len(found)} of {drop + count} steps of {side} after {limit_s:g} s")
            # Few questions, as each takes the scheduler some time.
            a_step = (found[-1][0] - found[0][0]) / (len(found) - 1) if len(found) > 2 else 0.01
            wait = min(max((drop + count + 2 - len(found)) * a_step, 0.005), 2.0)
        kept = found[drop : drop + count + 1]
        times = [1e3 * (b[0] - a[0]) for a, b in zip(kept, kept[1:], strict=False)]
        short = sum(rows != self.count for _, rows in kept[1:])
        self.steps += len(found)
        return {"ms": times, "short": short, "generated": self.steps}

    def finish(self) -> None:
        self.engine.abort_all()


def time_steps(engine: SglangEngine, workload: Workload, plan: measure.Plan) -> dict:
    """Medians of each turn by side, of rounds that begin the batch anew; as measure.steps_rows takes them."""
    found: dict = {"medians": {side: [] for side in SIDES}, "generated": [], "short": 0, "steps": 0}
    found |= {"build_us": {side: [] for side in SIDES}, "prepare_us": {side: [] for side in SIDES}}
    for number in range(plan.rounds):
        engine.flush()
        batch = Batch(engine, workload, f"{workload.name}.{number}.{time.monotonic_ns()}", plan.limit_s)
        first = {side: batch.turn(side, 6, plan.drop, plan.limit_s) for side in SIDES}
        found["steps"] = found["steps"] or measure.steps_per_turn(plan, first)
        for pair in range(plan.pairs):
            for side in pairing.turn_order(SIDES, pair + number):
                timed = batch.turn(side, found["steps"], plan.drop, plan.limit_s)
                found["medians"][side].append(statistics.median(timed["ms"]))
                found["generated"].append(timed["generated"])
                found["short"] += timed["short"]
        batch.finish()
    return found


def with_room(plan: measure.Plan, workload: Workload, kv_tokens: int) -> measure.Plan:
    """The plan with fewer steps, and then fewer turns, where texts would outgrow the KV cache or the context: a request
    that is retracted would end the batch."""
    count = len(workload.requests)
    _, distinct = kv_tokens_of(workload.requests, 0)
    longest = max(len(request.prompt) for request in workload.requests)
    room = min((0.9 * kv_tokens - distinct) / count, CONTEXT - longest - 64)
    turns = len(SIDES) * (plan.pairs + 1)
    a_turn = room / turns - plan.drop - EXTRA_STEPS
    if a_turn >= plan.steps:
        return plan
    pairs = plan.pairs
    while pairs > 2 and a_turn < plan.fewest_steps:
        pairs -= 1
        a_turn = room / (len(SIDES) * (pairs + 1)) - plan.drop - EXTRA_STEPS
    if a_turn < 4:
        raise ValueError(
            f"{workload.name} has room for {a_turn:.0f} steps a turn in a KV cache of {kv_tokens:,} tokens"
        )
    return dataclasses.replace(plan, pairs=pairs, steps=int(a_turn), fewest_steps=min(plan.fewest_steps, int(a_turn)))


def steps_row(engine: SglangEngine, workload: Workload, plan: measure.Plan, floor: tuple) -> dict:
    before = engine.ask("statistics")
    found = time_steps(engine, workload, with_room(plan, workload, engine.kv_tokens))
    medians = found["medians"]
    null, subject_null = (
        pairing.ratio_of_pairs(medians[a], medians[b]) for a, b in ((THEIRS, AGAIN), (OURS, OURS_AGAIN))
    )
    row = measure.steps_rows(workload, found, OURS, *floor)[0]
    plans = plans_since(before, engine.ask("statistics"))
    return {"kind": "sides", **row, "null": null, "subject_null": subject_null, "plans": plans}


def plans_since(before: dict, after: dict) -> dict[str, int]:
    """Counters of all groups of both sides that are Trunkline's, between two looks."""

    def total(name: str, counted: dict) -> int:
        return sum(group.get(name, 0) for group in counted.values())

    names = ("decode_steps", "shared_steps", "kv_tokens", "kv_tokens_read", "plans_made", "plans_reused", "overflows")
    return {name: total(name, after) - total(name, before) for name in names}


def profile(engine: SglangEngine, workload: Workload, plan: measure.Plan) -> dict:
    batch = Batch(engine, workload, f"{workload.name}.profile.{time.monotonic_ns()}", plan.limit_s)
    found = {}
    for side in (THEIRS, OURS):
        batch.turn(side, plan.profile_steps, plan.drop, plan.limit_s)
        engine.ask("begin_profile")
        engine.let_run(0.15)
        told = engine.ask("end_profile")
        found[side] = kernel_times.of_ranks([told["kernels"]], max(1, told["steps"])) | {"generated": batch.steps}
    batch.finish()
    return found


def whole_row(engine: SglangEngine, workload: Workload, rounds: int, limit_s: float) -> dict:
    """From all prompts at once to the last answer, by side, each from an empty prefix cache."""
    seconds: dict[str, list[float]] = {THEIRS: [], OURS: []}
    for number in range(rounds):
        for side in pairing.turn_order([THEIRS, OURS], number):
            engine.ask("use", side=side)
            engine.flush()
            began = time.perf_counter()
            for i, request in enumerate(workload.requests):
                engine.add(f"{workload.name}.{number}.{side}.{i}", request, workload.temperature)
            engine.all_answers(limit_s)
            seconds[side].append(time.perf_counter() - began)
    tokens = sum(request.max_tokens for request in workload.requests)
    return {
        "kind": "whole",
        "baseline": THEIRS,
        "subject": OURS,
        **pairing.ratio_of_pairs(seconds[THEIRS], seconds[OURS]),
        "over": "rounds",
        "seconds": {side: round(statistics.fmean(found), 3) for side, found in seconds.items()},
        "tokens": tokens,
    }


def log_probabilities(engine: SglangEngine, side: str, parts: int = 1) -> list[list[float]]:
    """Of chosen tokens after the prompts of the check, in one batch or in several, one after another."""
    prompts, forced = check_prompts.check_prompts(0)
    engine.ask("use", side=side)
    found: list[list[float]] = [[] for _ in prompts]
    for part in range(parts):
        chosen = range(part, len(prompts), parts)
        names = {f"check.{side}.{parts}.{i}": forced[i] for i in chosen}
        engine.flush()
        engine.ask("force", tokens=json.dumps(names))
        for name, i in zip(names, chosen, strict=True):
            engine.add(name, Request(prompts[i]), 0.0, check_prompts.STEPS)
        engine.all_answers(60.0)
        told = engine.ask("told")
        engine.ask("force", tokens="{}")
        for name, i in zip(names, chosen, strict=True):
            found[i] = told[name][: check_prompts.STEPS - 1]  # the first token is prefill's
    return found


def compare(engine: SglangEngine) -> dict:
    """The row that says whether Trunkline's log-probabilities are fa3's."""
    # In two batches most rows of fa3 keep their splits, and so their bits: the noise was 0.009 in the mean, in twelve
    # batches 0.029, where another kernel's results differ by 0.044.
    theirs, noise = log_probabilities(engine, THEIRS), log_probabilities(engine, AGAIN, parts=12)
    verdict = check_prompts.verdict(theirs, noise, log_probabilities(engine, OURS))
    return {"workload": "check", "kind": "check", "baseline": THEIRS, "subject": OURS, **verdict}


def common_of(given: argparse.Namespace, info: dict) -> dict:
    """The fields that all rows of a run share."""
    fields = ("device", "sglang", "torch", "cuda", "page_size", "overlap")
    common = {name: info[name] for name in fields} | {"suite": "sglang"}
    shape = models.shape_of(given.model, given.layers)
    common |= {"driver": of_gpu("driver_version"), "model": given.model, "layers": shape["num_hidden_layers"]}
    common |= {"dtype": "bf16", "commit": given.commit}
    command = f"bench/sglang/sides.py --page-size {given.page_size} --workloads " + " ".join(given.workloads)
    return common | {"command": command}


def main() -> int:
    given = arguments()
    clock = measure.Clock(given.budget_s)
    plan = measure.Plan(
        rounds=given.rounds, pairs=given.pairs, steps=given.steps, seed=given.seed, profile_steps=given.profile_steps
    )
    engine = SglangEngine(given)
    info = engine.ask("info")
    rows, failed, timed = Rows(given.out, common_of(given, info)), 0, {}
    captured = engine.ask("capture", within_s=200.0)
    print(json.dumps({"captured_s": captured, "left_s": round(clock.left(), 1)}), flush=True)
    if not given.unchecked:
        rows.add(compare(engine))
        if not rows.rows[0]["passed"]:
            print("the kernels disagree; nothing was timed", file=sys.stderr)
            engine.shutdown()
            return 1
    token_bytes = models.kv_bytes_per_token(models.shape_of(given.model, given.layers))
    floor = token_bytes, read_bytes_per_us(info["device"])
    for name in given.workloads:
        if clock.left() < 12:
            print(f"no time left for {name}")
            continue
        workload = workloads.build(name, given.seed)
        about = {"workload": name, "about": workload.about, "requests": len(workload.requests)}
        try:
            if workload.kind == "serve":
                rows.add(about | whole_row(engine, workload, given.whole_rounds, plan.limit_s))
            else:
                rows.add(about | steps_row(engine, workload, plan, floor))
                timed[name] = workload
        except Exception:
            failed += 1
            rows.add({"workload": name, "kind": "error", "error": traceback.format_exc()[-3000:]})
            engine.abort_all()
    rows.add({"workload": "counters", "kind": "counters", "rank": 0, "counters": engine.ask("statistics")})
    for i, row in enumerate(rows.rows):
        if plan.profile_steps and row["kind"] == "sides" and clock.left() > 8:
            rows.rows[i] = measure.with_profile(row, profile(engine, timed[row["workload"]], plan))
            rows.rewrite()
    engine.shutdown()
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
