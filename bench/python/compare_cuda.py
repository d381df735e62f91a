#!/usr/bin/env python3
"""Trunkline on a GPU beside torch's scaled_dot_product_attention and flex attention, one row a batch.

    python3 bench/python/compare_cuda.py --out bench/results/python/h200.jsonl     # less than two minutes

Needs torch with CUDA and an installed trunkline that has it. Methods of a row are taken in turn, as replays of CUDA
graphs (`us`) and as eager calls (`eager_us`), each on tensors that have left the L2 cache (replay_timers.py):
- `us`, `flat_us`: DecodeAttention.run on the paged cache, by policy auto and flat;
- `sdpa_us`: one call a request, on keys and values that were gathered beforehand;
- `sdpa_padded_us`: one call for the batch, gathered beforehand and padded to the longest request, with a mask where
  lengths differ;
- `gather_us`: gathering for one call a request, which an engine with a paged cache does for every layer and step;
- `flex_us`: flex attention on the pages, gathered beforehand, by a block mask (flex_case.py): rows of suite "flex",
  which come last, as compiling takes seconds a case;
- `plan_us`, `run_host_us`: DecodeAttention.plan and run, by the host's clock; the GPU is idle when they begin;
- `recorded_us`: FlashInfer's times on the same batch, of bench/recorded/h200.json.
torch gets the query heads of a KV head as query tokens of one head. A method gets a time only if the outputs of all
requests agree with attention in fp32. --device cpu tries the comparison out, without graphs.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import sys
import time
from collections.abc import Iterator

import torch
from cuda_case import HEAD_DIM, MOST_BYTES, PAGE_SIZE, Case, Gathered, Ours
from provenance import provenance
from replay_timers import CudaTimer, HostTimer, Work
from shared_batches import Batch, batches, recorded_times

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"f16": 2e-3, "bf16": 1.6e-2}
SUITES = ["reasoning", "pat_style", "unshared"]
FLEX_CASES = ["reasoning_sorting128:1", "reasoning_docmerge:2", "toolagent_pat_style:1", "64/1024"]
COMPILING_S = 20  # of a flex case, at most expected


class Row:
    """Methods of a case that have been checked, and the row that their times go to."""

    def __init__(self, case: Case, suite: str, given: argparse.Namespace) -> None:
        self._case, self._dtype, self._right = case, given.dtype, case.right()
        self._works: list[Work] = []
        self.fields = {"suite": suite, "case": case.batch.case, "heads": given.heads, "head_dim": HEAD_DIM}
        self.fields |= {"dtype": given.dtype, "page_size": PAGE_SIZE, "page_order": "consecutive"}
        self.fields |= {"requests": case.requests, "copies": case.copies, "repeat": given.repeat}
        self.fields["copies_apart"] = True  # no method reads what another has just read

    def add(self, prefix: str, out: torch.Tensor, *works: Work) -> None:
        """works: timed if `out` is right."""
        error = float((out.reshape(self._right.shape).float() - self._right).abs().max())
        if error < TOLERANCE[self._dtype]:
            self.fields[f"{prefix}max_err"] = error
            self._works += works
        else:
            print(f"{self._case.batch.case}: {prefix or 'auto'} is wrong by {error}: left out", file=sys.stderr)

    def measure(self, timer: CudaTimer | HostTimer) -> dict:
        for name, times in timer.time(self._works).items():
            if times.graph is not None:
                self.fields[f"{name}us"] = round(times.graph, 2)
            self.fields[f"{name}eager_us"] = round(times.eager, 2)
        return self.fields


def add_ours(row: Row, case: Case, timer: CudaTimer | HostTimer) -> None:
    made = {"": Ours(case, "auto"), "flat_": Ours(case, "flat")}
    for prefix, ours in made.items():
        row.add(prefix, ours.run(), ours.work(prefix))
    auto = made[""]
    found = auto.attention.statistics
    row.fields |= {
        "kv_tokens_total": found.kv_tokens_total,
        "kv_tokens_distinct": found.kv_tokens_distinct,
        "kv_tokens_read": found.kv_tokens_read,
        "kv_tokens_padded": case.requests * case.longest,
        "padded_bytes": case.padded_bytes,
        "chosen": auto.attention.current.info["policy"],
        "fallbacks": found.fallbacks,
        "run_host_us": round(timer.host_us(auto.run), 2),
        "plan_us": round(timer.host_us(auto.plan), 2),
    }


def compared(case: Case, suite: str, given: argparse.Namespace, timer: CudaTimer | HostTimer) -> dict:
    row = Row(case, suite, given)
    add_ours(row, case, timer)
    gathered = Gathered(case, padded=False)
    sdpa = gathered.work("sdpa_")
    row.add("sdpa_", sdpa.calls[0](), sdpa, gathered.gathering("gather_"))
    if case.padded_bytes <= MOST_BYTES:
        padded = Gathered(case, padded=True).work("sdpa_padded_")
        row.add("sdpa_padded_", padded.calls[0](), padded)
    else:
        print(f"{case.batch.case}: padded, {case.padded_bytes >> 30} GiB: left out", file=sys.stderr)
    times = recorded_times(case.batch.case, given.heads, given.dtype, PAGE_SIZE, "flashinfer")
    return row.measure(timer) | ({"recorded_us": times} if times else {})


def flex_compared(case: Case, given: argparse.Namespace, timer: CudaTimer | HostTimer) -> dict:
    from flex_case import Flex

    row = Row(case, "flex", given)
    add_ours(row, case, timer)
    begin = time.perf_counter()
    flex = Flex(case, compiled=case.device.type == "cuda")
    row.add("flex_", flex.run(), flex.work("flex_"))
    row.fields["flex_first_s"] = round(time.perf_counter() - begin, 1)  # compiling, and making the mask
    return row.measure(timer)


def wanted(given: argparse.Namespace) -> Iterator[tuple[str, Batch]]:
    """Suite and batch; at the end those for flex attention once more."""
    of = {suite: list(batches(suite, given.limit, PAGE_SIZE, as_recorded=True)) for suite in given.suites}
    for suite, found in of.items():
        for batch in found:
            if not given.cases or batch.case in given.cases:
                yield suite, batch
    for found in of.values():
        for batch in found:
            if batch.case in given.flex:
                yield "flex", batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", nargs="+", default=SUITES, help="of bench/suites.json")
    parser.add_argument("--cases", nargs="*", default=[], help="of the suites; all by default")
    parser.add_argument("--flex", nargs="*", default=FLEX_CASES, help="cases for flex attention")
    parser.add_argument("--heads", default="32/8")
    parser.add_argument("--dtype", choices=DTYPES, default="f16")
    parser.add_argument("--limit", type=int, default=2, help="batches of each file")
    parser.add_argument("--repeat", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=100, help="no case is begun after so many")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=pathlib.Path, help="a file for the rows as well")
    given = parser.parse_args()
    begin = time.perf_counter()
    device = torch.device("cuda", torch.cuda.current_device()) if given.device == "cuda" else torch.device(given.device)
    timer = (CudaTimer if device.type == "cuda" else HostTimer)(given.repeat)
    q_heads, kv_heads = map(int, given.heads.split("/"))
    lines, failed = [], False
    for suite, batch in wanted(given):
        took = time.perf_counter() - begin
        if took > given.seconds - (COMPILING_S if suite == "flex" else 0):
            print(f"{suite} {batch.case}: left out, {took:.0f} s have gone", file=sys.stderr)
            continue
        try:
            case = Case(batch, q_heads, kv_heads, DTYPES[given.dtype], device)
            row = flex_compared(case, given, timer) if suite == "flex" else compared(case, suite, given, timer)
        except Exception as error:  # out of memory, or torch cannot compile here: other cases may do
            said = str(error).partition("\n")[0]  # compilers say much
            print(f"{suite} {batch.case}: left out: {type(error).__name__}: {said}", file=sys.stderr)
            failed = failed or suite != "flex"
            continue
        finally:
            case = None
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
        if "max_err" not in row:  # wrong
            failed = True
            continue
        lines.append(json.dumps(row | provenance(device, "bench/python/compare_cuda.py")))
        print(lines[-1], flush=True)
        if given.out is not None:
            given.out.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} rows in {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    if failed or not lines:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
