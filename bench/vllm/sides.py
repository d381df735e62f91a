#!/usr/bin/env python3
"""Measures Trunkline against vLLM's own attention inside one engine: the same process, weights, cache and requests.

    python3 bench/vllm/sides.py --out OUT/sides.jsonl --commit COMMIT --workloads unshared groups

An engine with the plug-in captures its graphs of decode steps twice with the parent's kernels and twice with
Trunkline's, all in the same way, and changes sides between turns of one batch that stays alive. So nothing else
differs, which paired.py's engines do: there, products of the same sizes took up to 3 % longer in one than in the other
at batch 1. How far two captures of a side differ, "null" and "subject_null" in the rows, is what this cannot tell
apart. Model runner V2 alone. With --tensor-parallel all ranks change sides together.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time
import traceback
from collections.abc import Sequence

import check_prompts
import engine_options
import host_times
import kernel_times
import measure
import models
import pairing
import rank_rows
import rank_sides
import workloads
from decode_steps import DecodeBatch
from engine_worker import Worker
from open_loop import OpenLoop
from paired import PROFILE_SECONDS, Rows, of_gpu, read_bytes_per_us
from rank_sides import AGAIN, OURS, OURS_AGAIN, SIDES, THEIRS
from vllm_engine import VllmEngine

COMPILATIONS = ("default", "fulldecode")  # those with graphs


class Sides:
    """The sides of an engine, which all its ranks change together. names, rival: as RankSides takes them."""

    def __init__(self, engine: VllmEngine, names: Sequence[str] = SIDES, rival: str | None = None):
        self.engine = engine
        engine.on_ranks(rank_sides.capture, list(names), rival)

    def use(self, side: str) -> None:
        self.engine.on_ranks(rank_sides.use, side)

    def counter_rows(self) -> list[dict]:
        """A row for each rank, and one that compares ranks."""
        rows = rank_rows.counter_rows(self.engine.statistics(), self.engine.on_ranks(rank_sides.choices))
        return [row | {"subject": OURS} for row in rows]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", default=["unshared", "groups"], help="names or sets of timed steps")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file that rows are appended to")
    parser.add_argument("--commit", default="unknown", help="that the installed wheel was built from")
    parser.add_argument("--trees", type=json.loads, default={}, help="hashes of source folders, as JSON")
    parser.add_argument("--budget-s", type=float, default=240.0, help="no workload begins after this, start included")
    parser.add_argument("--begin-after", type=pathlib.Path, help="file; nothing is measured before it is there")
    engine_options.add_to(parser, compilations=COMPILATIONS)
    engine_options.add_drawing_to(parser)
    parser.add_argument("--rounds", type=int, default=2, help="times that a batch begins")
    parser.add_argument("--pairs", type=int, default=8, help="turns of each side in a round")
    parser.add_argument("--steps", type=int, default=40, help="timed steps in a turn, at most")
    parser.add_argument("--serve-rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0, help="of arrivals, where requests arrive over time")
    parser.add_argument("--profile-steps", type=int, default=8, help="0: none")
    parser.add_argument(
        "--live", action="store_true", help="of each served workload also steps of what was live midway"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unchecked", action="store_true", help="time kernels that disagree; such rows are not filed")
    given = parser.parse_args()
    given.workloads = workloads.names_of(given.workloads)
    given.config, given.weights = OURS, None
    return given


def plan_of(given: argparse.Namespace) -> measure.Plan:
    return measure.Plan(
        rounds=given.rounds, pairs=given.pairs, steps=given.steps, serve_rounds=given.serve_rounds, seed=given.seed,
        profile_steps=given.profile_steps, seconds=given.seconds,
    )  # fmt: skip


def turn(engine: VllmEngine, sides: Sides, batch: DecodeBatch, side: str, count: int, plan: measure.Plan) -> dict:
    sides.use(side)
    engine.host.forget()
    timed = batch.turn(count, plan.drop, plan.limit_s)
    return timed | engine.host.medians()


def time_steps(engine: VllmEngine, sides: Sides, workload: workloads.Workload, plan: measure.Plan) -> dict:
    """As measure.time_steps, of one batch that both sides run."""
    names = SIDES
    found: dict = {kind: {name: [] for name in names} for kind in ("medians", *host_times.KINDS)}
    found |= {"generated": [], "short": 0, "steps": 0}
    for round_number in range(plan.rounds):
        batch = DecodeBatch(engine, workload, f"{workload.name}.{round_number}.{time.monotonic_ns()}")
        batch.until_all_decode(plan.limit_s)
        first = {side: turn(engine, sides, batch, side, 6, plan) for side in names}
        found["steps"] = found["steps"] or measure.steps_per_turn(plan, first)
        for number in range(plan.pairs):
            for side in pairing.turn_order(names, number + round_number):
                timed = turn(engine, sides, batch, side, found["steps"], plan)
                found["medians"][side].append(statistics.median(timed["ms"]))
                found["generated"].append(timed["generated"])
                found["short"] += timed["short"]
                host_times.keep(found, side, timed)
        batch.finish()
    return found


def serve(engine: VllmEngine, sides: Sides, workload: workloads.Workload, plan: measure.Plan) -> tuple[dict, OpenLoop]:
    """The results of both sides with the same requests in an open loop, by round, each from an empty prefix cache; and
    the baseline's last loop."""
    names = [THEIRS, OURS]
    found: dict[str, list[dict]] = {name: [] for name in names}
    loops = {}
    for number in range(plan.serve_rounds):
        for side in pairing.turn_order(names, number):
            sides.use(side)
            emptied = engine.forget()
            loops[side] = OpenLoop(engine, workload, f"{workload.name}.{number}.{time.monotonic_ns()}")
            found[side].append(loops[side].serve(plan.limit_s) | {"emptied": emptied})
    return found, loops[THEIRS]


def served_row(engine: VllmEngine, sides: Sides, workload: workloads.Workload, plan: measure.Plan) -> tuple:
    """The row of a served workload, and the batch that decoded midway."""
    found, loop = serve(engine, sides, workload, plan)
    row = {"kind": "serve", **measure.serve_rows(workload, found, OURS)[0]}
    return row, loop.batch_at(loop.midway())


def steps_row(engine: VllmEngine, sides: Sides, workload: workloads.Workload, plan: measure.Plan, floor: tuple) -> dict:
    before = engine.statistics()
    found = time_steps(engine, sides, workload, plan)
    plans = rank_rows.plans_since(before, engine.statistics())
    medians = found["medians"]
    null, subject_null = (
        pairing.ratio_of_pairs(medians[a], medians[b]) for a, b in ((THEIRS, AGAIN), (OURS, OURS_AGAIN))
    )
    row = measure.steps_rows(workload, found, OURS, *floor)[0]
    return {"kind": "sides", **row, "null": null, "subject_null": subject_null, "plans": plans}


def profile(
    engine: VllmEngine,
    sides: Sides,
    workload: workloads.Workload,
    plan: measure.Plan,
    names: Sequence[str] = (THEIRS, OURS),
) -> dict:
    batch = DecodeBatch(engine, workload, f"{workload.name}.profile.{time.monotonic_ns()}")
    batch.until_all_decode(plan.limit_s)
    found = {}
    for side in names:
        sides.use(side)
        batch.turn(plan.pairs * plan.steps // 4, 0, plan.limit_s)
        kernels = engine.kernels(batch.step, plan.profile_steps)
        found[side] = kernel_times.of_ranks(kernels, plan.profile_steps) | {"generated": batch.generated()}
    batch.finish()
    return found


def compare(engine: VllmEngine, sides: Sides, subjects: Sequence[str] = (OURS,), again: str = AGAIN) -> list[dict]:
    """Compares the log-probabilities of each subject with the baseline's, a row each. again: the side that runs the
    baseline's kernel in other batches, for the noise of one kernel."""
    found = {}
    for name, side, parts in ((THEIRS, THEIRS, 1), ("noise", again, 2), *((side, side, 1) for side in subjects)):
        sides.use(side)
        found[name] = Worker(engine).do_logprobs(check_prompts.STEPS, parts=parts)["logprobs"]
    rows = []
    for side in subjects:
        verdict = check_prompts.verdict(found[THEIRS], found["noise"], found[side])
        rows.append({"workload": "check", "kind": "check", "baseline": THEIRS, "subject": side, **verdict})
    return rows


def common_of(given: argparse.Namespace, info: dict, program: str) -> dict:
    """The fields that all rows of a run share."""
    common = {name: info[name] for name in ("device", "vllm", "torch", "cuda", "layers")}
    common |= {"driver": of_gpu("driver_version"), "model": given.model, "dtype": "bf16"}
    common |= {"compilation": given.compilation, "commit": given.commit, **given.trees}
    common |= {"tensor_parallel": given.tensor_parallel, "kv_cache_dtype": given.kv_cache_dtype}
    told = engine_options.told(given)
    return common | {"command": f"bench/vllm/{program} {told}--workloads " + " ".join(given.workloads)}


def about_of(workload: workloads.Workload) -> dict:
    return {"workload": workload.name, "about": workload.about, "requests": len(workload.requests)}


def main() -> int:
    given = arguments()
    clock, plan = measure.Clock(given.budget_s), plan_of(given)
    engine = VllmEngine(given)
    sides = Sides(engine)
    info = engine.info()
    common = common_of(given, info, "sides.py")
    shape = models.shape_of(given.model, given.layers)
    token_bytes = models.kv_bytes_per_token(shape, given.kv_cache_dtype, given.tensor_parallel)
    floor = token_bytes, read_bytes_per_us(info["device"])
    rows, failed, batches = Rows(given.out, common), 0, {}
    measure.wait_for(given.begin_after)
    rows.add(compare(engine, sides)[0])
    if not rows.rows[0]["passed"] and not given.unchecked:
        print("the kernels disagree; nothing was timed", file=sys.stderr)
        return 1
    for name in given.workloads:
        kept = PROFILE_SECONDS * sum(row["kind"] == "sides" for row in rows.rows) if plan.profile_steps else 0.0
        if clock.left() - kept < 10:
            print(f"no time left for {name}")
            continue
        workload = workloads.build(name, given.seed, plan.seconds)
        try:
            if workload.kind == "serve":
                row, live = served_row(engine, sides, workload, plan)
                rows.add(about_of(workload) | row)
                workload = live if given.live else None
            if workload and workload.requests:
                batches[workload.name] = workload
                rows.add(about_of(workload) | steps_row(engine, sides, workload, plan, floor))
        except Exception:
            failed += 1
            rows.add({"workload": name, "kind": "error", "error": traceback.format_exc()[-3000:]})
    for row in sides.counter_rows():
        rows.add(row)
    for i, row in enumerate(rows.rows):
        if plan.profile_steps and row["kind"] == "sides" and clock.left() > 5:
            found = profile(engine, sides, batches[row["workload"]], plan)
            rows.rows[i] = measure.with_profile(row, found)
            rows.rewrite()
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
