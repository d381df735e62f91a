#!/usr/bin/env python3
"""Measures engines against each other on one GPU: all live at once, one works at a time, in turns.

    python3 bench/vllm/paired.py --out OUT/vllm.jsonl --commit COMMIT            # the sets in their order of weight
    python3 bench/vllm/paired.py --configs default trunkline cascade --workloads groups fasttree --kv-gib 24 ...

Before anything is timed the engines' log-probabilities are compared; if they differ, the run ends with a row that says
so. Rows are appended as workloads end, so that what stops a run costs what it had not reached.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

import check_prompts
import engine_options
import measure
import models
import rank_rows
import workloads
from engine_client import EngineClient, WorkerError

HERE = pathlib.Path(__file__).resolve().parent
SUBJECT = "trunkline"
ORDER = [
    "groups",
    "unshared",
    "conversation",
    "fasttree",
    "deft",
    "fasttree_whole",
    "reasoning",
    "toolagent",
    "faithful",
]
STEPS_SECONDS, SERVE_SECONDS = 12.0, 25.0  # a workload is not begun with less than this left
PROFILE_SECONDS = 5.0  # kept for each workload whose steps were timed
PROFILES = ("H200", "H100", "A100")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--configs",
        nargs="+",
        default=["default", SUBJECT],
        help="default, trunkline, cascade, forest (our port of FCA), again (default once more)",
    )
    parser.add_argument("--workloads", nargs="+", default=ORDER, help="names or sets, in this order")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file that rows are appended to")
    parser.add_argument("--logs", type=pathlib.Path, help="folder of the engines' logs; beside --out unless given")
    parser.add_argument("--commit", default="unknown", help="that the installed wheel was built from")
    parser.add_argument("--trees", type=json.loads, default={}, help="hashes of source folders, as JSON")
    parser.add_argument("--budget-s", type=float, default=480.0, help="no workload begins after this, start included")
    parser.add_argument("--begin-after", type=pathlib.Path, help="file; nothing is measured before it is there")
    parser.add_argument("--start-limit-s", type=float, default=180.0)
    engine_options.add_to(parser)
    parser.add_argument("--owner", help="of --configs, the one whose weights the others use; the first unless given")
    parser.add_argument("--own-weights", action="store_true", help="a copy for each engine, wherever it comes to lie")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--worker", type=pathlib.Path, default=HERE / "engine_worker.py")
    parser.add_argument("--rounds", type=int, default=2, help="times that a batch begins")
    parser.add_argument("--pairs", type=int, default=6, help="turns of each engine in a round")
    parser.add_argument("--steps", type=int, default=40, help="timed steps in a turn, at most")
    parser.add_argument("--serve-rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6.0, help="of arrivals, where requests arrive over time")
    parser.add_argument("--profile-steps", type=int, default=8, help="0: none")
    parser.add_argument("--limit-s", type=float, default=60.0, help="of one command to an engine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unchecked", action="store_true", help="do not compare first; such rows are not filed")
    given = parser.parse_args()
    given.workloads = workloads.names_of(given.workloads)
    if len(set(given.configs)) < 2:
        raise SystemExit(f"--configs {' '.join(given.configs)}: a comparison needs two")
    if given.tensor_parallel > 1 and not given.own_weights:
        raise SystemExit(
            f"--tensor-parallel {given.tensor_parallel} needs --own-weights: weights are shared on one GPU"
        )
    if given.owner not in (None, *given.configs):
        raise SystemExit(f"--owner {given.owner}: it is none of --configs {' '.join(given.configs)}")
    return given


def plan_of(given: argparse.Namespace) -> measure.Plan:
    return measure.Plan(
        rounds=given.rounds, pairs=given.pairs, steps=given.steps, serve_rounds=given.serve_rounds, seed=given.seed,
        profile_steps=given.profile_steps, seconds=given.seconds, limit_s=given.limit_s,
    )  # fmt: skip


def start(given: argparse.Namespace) -> dict[str, EngineClient]:
    """Workers that start side by side; each compiles into a folder of its own."""
    logs = given.logs or given.out.parent
    logs.mkdir(parents=True, exist_ok=True)
    engines, owner = {}, given.owner or given.configs[0]
    weights = pathlib.Path(given.scratch) / f"weights_{os.getpid()}"
    weights.parent.mkdir(parents=True, exist_ok=True)
    for name in given.configs:
        shared = [] if given.own_weights else ["--weights", str(weights), *["--owner"][: name == owner]]
        command = [
            given.python, str(given.worker), "--config", name, "--model", given.model, "--compilation",
            given.compilation, "--kv-gib", str(given.kv_gib), "--max-num-seqs", str(given.max_num_seqs), "--scratch",
            given.scratch, "--tensor-parallel", str(given.tensor_parallel), "--kv-cache-dtype", given.kv_cache_dtype,
            *shared,
            *(["--layers", str(given.layers)] if given.layers else []),
        ]  # fmt: skip
        cache = {"VLLM_CACHE_ROOT": f"{given.scratch}/{name}_cache"}
        engines[name] = EngineClient(name, command, logs / f"engine_{name}.log", cache)
    return engines


def of_gpu(field: str) -> str | None:
    """A field of the first GPU, by nvidia-smi; None where that fails."""
    query = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.split("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return None


def read_bytes_per_us(device: str) -> float | None:
    """The measured rate of the device's profile."""
    kind = next((kind for kind in PROFILES if kind in device), None)
    for path in sorted((HERE.parent.parent / "data/machines").glob("*.json")):
        profile = json.loads(path.read_text())
        if kind and kind in profile["name"]:
            return profile["read_bytes_per_us"]["value"]
    return None


class Rows:
    """Appends rows to a file, each with what holds for the whole run."""

    def __init__(self, path: pathlib.Path, common: dict):
        self.path, self.common = path, common
        path.parent.mkdir(parents=True, exist_ok=True)
        self.before = path.read_text() if path.exists() else ""
        self.rows: list[dict] = []

    def line(self, row: dict) -> str:
        return json.dumps({"suite": "vllm", **row, **self.common}) + "\n"

    def rewrite(self) -> None:
        """After rows were changed; the file is whole at any time."""
        new = self.path.with_suffix(".new")
        new.write_text(self.before + "".join(map(self.line, self.rows)))
        new.replace(self.path)

    def add(self, row: dict) -> None:
        self.rows.append(row)
        with open(self.path, "a") as out:
            out.write(self.line(row))
        shown = {name: row[name] for name in ("workload", "baseline", "ratio", "ratio_lo", "ratio_hi") if name in row}
        print(json.dumps(shown or row)[:300], flush=True)


def subject_of(engines: dict[str, EngineClient]) -> str:
    return SUBJECT if SUBJECT in engines else list(engines)[-1]


def compare(engines: dict[str, EngineClient], rows: Rows, limit_s: float) -> bool:
    """Whether the plug-in gives the first engine's log-probabilities; rows say how far all differ."""
    base, *others = engines
    ask = {"steps": check_prompts.STEPS}
    reference = engines[base].ask("logprobs", limit_s, **ask)["logprobs"]
    again = engines[base].ask("logprobs", limit_s, parts=2, **ask)["logprobs"]
    agreed = True
    for name in others:
        found = engines[name].ask("logprobs", limit_s, **ask)["logprobs"]
        verdict = check_prompts.verdict(reference, again, found)
        rows.add({"workload": "check", "kind": "check", "baseline": base, "subject": name, **verdict})
        agreed = agreed and (verdict["passed"] or name != subject_of(engines))
    return agreed


def measure_one(
    name: str, engines, plan: measure.Plan, clock: measure.Clock, token_bytes: int, bandwidth
) -> list[dict]:
    workload = workloads.build(name, plan.seed, plan.seconds)
    shared = {"workload": name, "kind": workload.kind, "about": workload.about, "requests": len(workload.requests)}
    subject = subject_of(engines)
    began = time.monotonic()
    if workload.kind == "steps":
        found = measure.time_steps(engines, workload, plan, clock)
        rows = measure.steps_rows(workload, found, subject, token_bytes, bandwidth)
    else:
        rows = measure.serve_rows(workload, measure.serve_rounds(engines, workload, plan, clock), subject)
    took = round(time.monotonic() - began, 1)
    return [{**shared, **row, "measured_s": took} for row in rows]


def run_all(given, engines: dict[str, EngineClient], rows: Rows, clock: measure.Clock, device: str) -> int:
    """Failures."""
    plan, failed = plan_of(given), 0
    shape = models.shape_of(given.model, given.layers)
    token_bytes = models.kv_bytes_per_token(shape, given.kv_cache_dtype, given.tensor_parallel)
    skipped = []
    for name in given.workloads:
        kept = PROFILE_SECONDS * len(timed(rows)) if plan.profile_steps else 0.0
        if clock.left() - kept < (STEPS_SECONDS if workloads.build(name).kind == "steps" else SERVE_SECONDS):
            skipped.append(name)
            continue
        try:
            for row in measure_one(name, engines, plan, clock, token_bytes, read_bytes_per_us(device)):
                rows.add(row)
        except WorkerError as error:
            failed += 1
            rows.add({"workload": name, "kind": "error", "error": str(error)[:3000]})
            if error.dead:
                break
        except Exception:
            failed += 1
            rows.add({"workload": name, "kind": "error", "error": traceback.format_exc()[-3000:]})
    if skipped:
        print(f"no time left for {' '.join(skipped)}")
    return failed


def timed(rows: Rows) -> list[str]:
    """Workloads of which steps were timed."""
    return list(dict.fromkeys(row["workload"] for row in rows.rows if row["kind"] == "steps"))


def profile_all(engines: dict[str, EngineClient], rows: Rows, plan: measure.Plan, clock: measure.Clock) -> None:
    """Adds to the rows of steps what kernels took; a failure costs what is not profiled yet, and no row."""
    try:
        for name in timed(rows):
            if clock.left() < PROFILE_SECONDS:
                print("no time left to profile more")
                break
            found = measure.profile(engines, workloads.build(name, plan.seed, plan.seconds), plan)
            rows.rows = [
                measure.with_profile(row, found) if (row["kind"], row["workload"]) == ("steps", name) else row
                for row in rows.rows
            ]
    except WorkerError as error:
        print(f"profile: {error}", file=sys.stderr)
    rows.rewrite()


def counters(engines: dict[str, EngineClient], rows: Rows) -> None:
    """The plug-in's own counters at the end of the run."""
    for name, engine in engines.items():
        try:
            found = engine.ask("stats", 20.0)["ranks"]
        except WorkerError as error:
            found = [{"error": str(error)[:300]}]
        if any(found):
            for row in rank_rows.counter_rows(found):
                rows.add(row | {"subject": name})


def main() -> int:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of `finally`, so that no engine stays behind
    clock = measure.Clock(given.budget_s)
    common = {
        "model": given.model, "dtype": "bf16", "compilation": given.compilation, "kv_gib": given.kv_gib,
        "tensor_parallel": given.tensor_parallel, "kv_cache_dtype": given.kv_cache_dtype,
        "weights": "own" if given.own_weights else f"of {given.owner or given.configs[0]}",
        "commit": given.commit, **given.trees,
        "command": f"bench/vllm/paired.py {engine_options.told(given)}--workloads " + " ".join(given.workloads),
    }  # fmt: skip
    rows = Rows(given.out, common)
    engines: dict[str, EngineClient] = {}
    try:
        began = time.monotonic()
        engines = start(given)
        seen = {name: engine.started(given.start_limit_s) for name, engine in engines.items()}
        first = next(iter(seen.values()))
        common |= {name: first[name] for name in ("device", "vllm", "torch", "cuda", "layers") if name in first}
        common |= {"driver": of_gpu("driver_version")}
        started = {"workload": "start", "kind": "start", "engines": seen, "start_s": round(time.monotonic() - began, 1)}
        rows.add(started)
        measure.wait_for(given.begin_after)
        for engine in engines.values():
            engine.ask("warm", 2 * given.limit_s, limit_s=given.limit_s)
        if not given.unchecked and not compare(engines, rows, 2 * given.limit_s):
            print("the engines disagree; nothing was timed", file=sys.stderr)
            return 1
        failed = run_all(given, engines, rows, clock, common.get("device") or "")
        counters(engines, rows)
        if given.profile_steps:
            profile_all(engines, rows, plan_of(given), clock)
        return 1 if failed else 0
    except WorkerError as error:
        rows.add({"workload": "start", "kind": "error", "error": str(error)[:3000]})
        return 1
    finally:
        for engine in engines.values():
            engine.kill()


if __name__ == "__main__":
    sys.exit(main())
