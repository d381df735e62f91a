#!/usr/bin/env python3
"""Measures the rollouts of reinforcement learning, and the sleep, new weights and waking between two of them.

    python3 bench/vllm/rollout.py --out OUT/check.jsonl --check                   # first: small shapes, no times
    python3 bench/vllm/rollout.py --out OUT/vllm_rollout.jsonl --commit COMMIT    # five shapes, 4 rounds each
    python3 bench/vllm/rollout.py --out OUT/vllm_rollout.jsonl --commit COMMIT --rival my_package.backend:MyBackend

One engine runs all sides in turns, as sides.py has it: vLLM's own kernel, Trunkline, and another backend if --rival
names one. A turn is a rollout, from the prompts' arrival to the end of the last answer, from an empty prefix cache;
then the engine sleeps, takes back the weights' memory, loads new weights, and takes back the KV cache's. A round is a
turn of each side with the same prompts, answers' lengths and weights; the next round has others. Intervals are over
rounds.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import time
import traceback

import engine_options
import measure
import pairing
import rollout_check
import rollout_rows
import rollouts
import sides as engine_sides
from drawn import Drawn, Workload, kv_tokens
from engine_worker import Worker
from paired import Rows
from rank_sides import AGAIN, OURS, RIVAL, THEIRS
from rollout_loop import Rollout
from sides import Sides
from vllm_engine import VllmEngine

FEWEST_ROUNDS = 3  # an interval of two pairs is some 13 of their deviations wide
PREFIX = "rollout_"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workloads", nargs="+", default=["rollout"], help="the set, or rollout_PROMPTSxSAMPLESxLENGTH"
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file that rows are appended to")
    parser.add_argument("--commit", default="unknown", help="that the installed wheel was built from")
    parser.add_argument("--trees", type=json.loads, default={}, help="hashes of source folders, as JSON")
    parser.add_argument("--budget-s", type=float, default=540.0, help="no round begins that would end after this")
    parser.add_argument("--begin-after", type=pathlib.Path, help="file; nothing is measured before it is there")
    engine_options.add_to(parser, kv_gib=24.0, compilations=engine_sides.COMPILATIONS)
    engine_options.add_drawing_to(parser)
    parser.add_argument("--rival", help="a third side: another attention backend of vLLM's interface, MODULE:CLASS")
    parser.add_argument("--again", action="store_true", help="vLLM's kernel once more, in graphs of its own")
    parser.add_argument("--rounds", type=int, default=4, help=f"of each workload, {FEWEST_ROUNDS} or more")
    answers = rollouts.Answers()
    parser.add_argument("--answer-median", type=float, default=answers.median, help="tokens")
    parser.add_argument("--answer-sigma", type=float, default=answers.sigma, help="of the length's logarithm")
    parser.add_argument("--answer-limit", type=int, default=answers.limit, help="tokens")
    parser.add_argument("--sleep-level", type=int, choices=(0, 1, 2), default=2, help="0: no sleep, new weights alone")
    parser.add_argument("--weight-change", type=float, default=0.01, help="of the weights' deviation, by each update")
    parser.add_argument("--profile-steps", type=int, default=8, help="of the whole batch, after all timing; 0 for none")
    parser.add_argument("--limit-s", type=float, default=120.0, help="of a rollout; what is left then has failed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="small shapes, checked for faults; no times")
    given = parser.parse_args()
    if given.check:
        rollout_check.shrink(given)
    if given.rounds < FEWEST_ROUNDS:
        parser.error(f"--rounds {given.rounds}: an interval needs {FEWEST_ROUNDS} or more")
    try:
        given.shapes = shapes_of(given.workloads)
    except ValueError as error:
        parser.error(str(error))
    given.workloads = list(given.shapes)
    given.answers = rollouts.Answers(given.answer_median, given.answer_sigma, given.answer_limit)
    given.names = [THEIRS, OURS, *([RIVAL] if given.rival else []), *([AGAIN] if given.again else [])]
    given.config, given.weights = OURS, None
    return given


def shapes_of(wanted: list[str]) -> dict[str, rollouts.Shape]:
    """The shapes of the workloads, by name; ValueError for another name."""
    names = [name for word in wanted for name in (rollouts.ROLLOUTS if word == "rollout" else [word])]
    wrong = [name for name in names if not name.startswith(PREFIX)]
    if wrong:
        raise ValueError(f"workload {wrong[0]!r} is neither rollout nor {PREFIX}PROMPTSxSAMPLESxLENGTH")
    return {name: rollouts.shape_of(name.removeprefix(PREFIX)) for name in names}


def workload_of(name: str, given: argparse.Namespace, round_number: int) -> Workload:
    made = rollouts.rollout(Drawn(name, given.seed + round_number), given.shapes[name], given.answers)
    return dataclasses.replace(made, name=name)


def require_room(workload: Workload, info: dict) -> dict:
    """Counts the batch's tokens at its largest; ValueError where the KV cache cannot hold them: requests would wait."""
    answers = sum(request.max_tokens for request in workload.requests)
    # A page of each request's end is not full.
    needed = kv_tokens(workload.requests, 0)[1] + answers + len(workload.requests) * info["block_size"]
    room = info["kv_blocks"] * info["block_size"]
    if needed > room:
        raise ValueError(f"{workload.name} keeps up to {needed:,} tokens, the KV cache holds {room:,}: raise --kv-gib")
    return {"kv_tokens_needed": needed, "kv_tokens_room": room}


def timed(do, *arguments) -> float:
    began = time.perf_counter()
    do(*arguments)
    return time.perf_counter() - began


def renew(engine: VllmEngine, level: int, number: int, change: float) -> dict:
    """Sleeps, wakes and loads weights, and returns the seconds of each part. The KV cache's memory comes last, as in
    training, where the trainer's own weights may still be on the GPU while the engine loads."""
    if level == 0:
        return {"weights_s": timed(engine.new_weights, number, change)}
    before = engine.free_bytes()
    found = {"sleep_s": timed(engine.sleep, level)}
    found["freed_gib"] = round((engine.free_bytes() - before) / 2**30, 2)
    found["wake_weights_s"] = timed(engine.wake_up, "weights")
    found["weights_s"] = timed(engine.new_weights, number, change)
    found["wake_cache_s"] = timed(engine.wake_up, "kv_cache")
    return found


def turn(engine: VllmEngine, sides: Sides, side: str, workload: Workload, given: argparse.Namespace, then: int) -> dict:
    """Runs one side's rollout, then sleeps, wakes and loads the weights of number `then`."""
    sides.use(side)
    emptied = engine.forget()
    engine.host.forget()
    found = Rollout(engine, workload, f"{workload.name}.{time.monotonic_ns()}").serve(given.limit_s)
    found |= {"emptied": emptied, **engine.host.medians()}
    between = renew(engine, given.sleep_level, then, given.weight_change)
    seconds = sum(value for name, value in between.items() if name.endswith("_s"))
    return found | between | {"iteration_s": found["seconds"] + seconds}


def run_rounds(engine: VllmEngine, sides: Sides, name: str, given: argparse.Namespace, clock, rows: Rows) -> dict:
    """Runs the rounds, adds a row for each turn, and returns the turns by side."""
    found: dict[str, list[dict]] = {side: [] for side in given.names}
    longest = 0.0
    for number in range(given.rounds):
        if clock.left() < 1.1 * longest:
            print(f"no time left for round {number} of {name}")
            break
        began = time.monotonic()
        workload = workload_of(name, given, number)
        about = engine_sides.about_of(workload) | require_room(workload, engine.info())
        order = pairing.turn_order(given.names, number)
        made = {}
        for place, side in enumerate(order):
            made[side] = turn(engine, sides, side, workload, given, number + (place == len(order) - 1))
            row = {"kind": "rollout_turn", "side": side, "round": number, "weights": number, "place": place}
            rows.add(
                about | row | {"tokens_asked": sum(request.max_tokens for request in workload.requests)} | made[side]
            )
        for side in given.names:
            found[side].append(made[side])
        longest = max(longest, time.monotonic() - began)
    return found


def profile(engine: VllmEngine, sides: Sides, name: str, given: argparse.Namespace) -> dict:
    """The kernels' times in a step with all requests live, by family."""
    batch = rollouts.crossover(Drawn(name, given.seed), given.shapes[name])
    plan = measure.Plan(pairs=4, steps=8, profile_steps=given.profile_steps, limit_s=given.limit_s)
    engine.forget()
    found = engine_sides.profile(engine, sides, dataclasses.replace(batch, name=name), plan, given.names)
    row = {"kind": "rollout_profile", "workload": name, "requests": len(batch.requests)}
    return row | {"profile": found}


def warm(engine: VllmEngine, sides: Sides, given: argparse.Namespace, rows: Rows) -> bool:
    """Runs what is compiled or allocated at first use, and loads the first round's weights; False where it failed."""
    try:
        for side in given.names:
            sides.use(side)
            Worker(engine).do_warm(given.limit_s)
        renew(engine, given.sleep_level, 0, given.weight_change)
    except Exception:
        rows.add({"workload": "warm", "kind": "error", "error": traceback.format_exc()[-3000:]})
        return False
    return True


def agree(engine: VllmEngine, sides: Sides, given: argparse.Namespace, rows: Rows, when: str) -> bool:
    """Compares all sides' log-probabilities, a row each; False where Trunkline's differ from the baseline's."""
    subjects = [side for side in given.names if side not in (THEIRS, AGAIN)]
    found = engine_sides.compare(engine, sides, subjects, AGAIN if given.again else THEIRS)
    for row in found:
        rows.add(row | {"workload": f"check {when}"})
    return all(row["passed"] for row in found if row["subject"] == OURS)


def run_all(engine: VllmEngine, sides: Sides, given: argparse.Namespace, clock, rows: Rows) -> int:
    """Measures all workloads; returns the number of failures."""
    failed = 0
    for name in given.workloads:
        if clock.left() < 10:
            print(f"no time left for {name}")
            continue
        try:
            found = run_rounds(engine, sides, name, given, clock, rows)
            about = engine_sides.about_of(workload_of(name, given, 0))
            for row in rollout_rows.rows_of(found, rival=RIVAL, subject=OURS):
                rows.add(about | row)
                failed += sum(row["failures"].values()) > 0
        except Exception:
            failed += 1
            rows.add({"workload": name, "kind": "error", "error": traceback.format_exc()[-3000:]})
            break  # an engine that failed while it slept or loaded is not asked again
    return failed


def main() -> int:
    given = arguments()
    clock = measure.Clock(given.budget_s)
    engine = VllmEngine(given, **({"enable_sleep_mode": True} if given.sleep_level else {}))
    sides = Sides(engine, given.names, given.rival)
    engine.watch_steps()
    common = engine_sides.common_of(given, engine.info(), "rollout.py")
    common |= {"kv_gib": given.kv_gib, "sleep_level": given.sleep_level, "weight_change": given.weight_change}
    common |= {"answers": dataclasses.asdict(given.answers), "seed": given.seed, "rival": given.rival}
    rows = Rows(given.out, common)
    measure.wait_for(given.begin_after)
    if not agree(engine, sides, given, rows, "before"):
        print("the kernels disagree; nothing was timed", file=sys.stderr)
        return 1
    is_warm = warm(engine, sides, given, rows)
    failed = run_all(engine, sides, given, clock, rows) if is_warm else 1
    if failed == 0 and not agree(engine, sides, given, rows, "after"):
        print("the kernels disagree after new weights", file=sys.stderr)
        failed += 1
    for row in sides.counter_rows():
        rows.add(row)
    for name in given.workloads:
        if failed == 0 and given.profile_steps and clock.left() > 10:
            rows.add(profile(engine, sides, name, given))
    if given.check and is_warm:
        wrong = rollout_check.wrong_of(engine, sides, given, rows.rows)
        print(json.dumps({"wrong": wrong}))
        failed += len(wrong)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
