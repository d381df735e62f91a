#!/usr/bin/env python3
"""Runs workloads with every layer's attention computed twice, by Trunkline and by vLLM's own kernel, and compared.

    python3 bench/vllm/shadow.py --out OUT/vllm_shadow.jsonl --commit COMMIT --workloads groups fasttree conversation@8

vLLM's results are served (TRUNKLINE_VLLM_SHADOW=1). A row says how many vectors, a head's of a query token in a layer,
were compared while its workload ran and how many were beyond the tolerance. It fails where there is one. Prefill rows
beside decode rows are compared, too, though vLLM's kernel computes them on both sides; `decode_rows` counts the others,
one for each layer. Not timed.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import engine_options
import measure
import workloads
from decode_steps import DecodeBatch
from open_loop import OpenLoop
from paired import Rows, of_gpu
from vllm_engine import VllmEngine

SUBJECT = "trunkline"
EVERY = ["groups", "unshared", "fasttree", "deft", "conversation", "toolagent", "reasoning", "faithful"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", default=EVERY, help="names or sets")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file that rows are appended to")
    parser.add_argument("--commit", default="unknown", help="that the installed wheel was built from")
    parser.add_argument("--budget-s", type=float, default=240.0, help="no workload begins after this, start included")
    parser.add_argument("--begin-after", type=pathlib.Path, help="file; nothing is run before it is there")
    engine_options.add_to(parser, kv_gib=24.0)
    engine_options.add_drawing_to(parser)
    parser.add_argument("--steps", type=int, default=24, help="decode steps of a batch")
    parser.add_argument("--seconds", type=float, default=3.0, help="of arrivals, where requests arrive over time")
    parser.add_argument("--limit-s", type=float, default=30.0, help="of a workload; what is left then is aborted")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.workloads = workloads.names_of(given.workloads)
    given.config, given.weights = SUBJECT, None
    return given


def run(engine: VllmEngine, workload: workloads.Workload, given: argparse.Namespace) -> dict:
    """Counts faults: requests that failed or were left when the time was over, or steps that did not move all."""
    name = f"{workload.name}.{time.monotonic_ns()}"
    if workload.kind == "serve":
        engine.forget()
        return {"failures": OpenLoop(engine, workload, name).serve(given.limit_s)["failures"]}
    batch = DecodeBatch(engine, workload, name)
    batch.until_all_decode(given.limit_s)
    short = batch.turn(given.steps, 0, given.limit_s)["short"]
    batch.finish()
    return {"short_steps": short}


def compared(statistics: list[dict]) -> dict[str, float]:
    """Counters over all ranks and groups of layers; RuntimeError where a group has compared nothing, as where vLLM runs
    it or shadow is off."""
    counted = [counters for rank in statistics for counters in rank.values()]
    groups = [counters.get("shadow") for counters in counted]
    if not groups or not all(groups):
        raise RuntimeError(f"not every group of layers compares: {statistics}")
    found = {name: sum(group[name] for group in groups) for name in ("compared", "beyond")}
    found["decode_rows"] = sum(counters["decode_rows"] * counters["layers"] for counters in counted)
    return found | {name: max(group[name] for group in groups) for name in ("most", "tolerance")}


def main() -> int:
    given = arguments()
    os.environ["TRUNKLINE_VLLM_SHADOW"] = "1"
    clock = measure.Clock(given.budget_s)
    engine = VllmEngine(given)
    info = engine.info()
    common = {name: info[name] for name in ("device", "vllm", "torch", "cuda", "layers")}
    common |= {"driver": of_gpu("driver_version"), "model": given.model, "dtype": "bf16", "commit": given.commit}
    common |= {"compilation": given.compilation, "tensor_parallel": given.tensor_parallel}
    common["kv_cache_dtype"] = given.kv_cache_dtype
    common |= {"steps": given.steps, "seconds": given.seconds}
    common |= {"command": f"bench/vllm/shadow.py {engine_options.told(given)}--workloads " + " ".join(given.workloads)}
    rows, before = Rows(given.out, common), compared(engine.statistics())
    measure.wait_for(given.begin_after)
    for name in given.workloads:
        if clock.left() < 3:
            print(f"no time left for {name}")
            continue
        workload = workloads.build(name, given.seed, given.seconds)
        row = run(engine, workload, given)
        after = compared(engine.statistics())
        row |= {key: after[key] - before[key] for key in ("compared", "beyond", "decode_rows")}
        about = {"workload": name, "kind": "shadow", "about": workload.about, "requests": len(workload.requests)}
        rows.add(about | row | {"most_so_far": after["most"], "tolerance": after["tolerance"]})
        before = after
    print(json.dumps(before))
    return int(before["beyond"] > 0 or before["compared"] == 0)


if __name__ == "__main__":
    sys.exit(main())
