#!/usr/bin/env python3
"""Trunkline's `auto` and `flat` beside torch's scaled_dot_product_attention on the CPU, one row a batch and dtype.

    python3 bench/python/compare_sdpa.py reasoning pat_style unshared >bench/results/python/sdpa.jsonl

Needs torch and an installed trunkline. Methods of a row are run in turn with the same number of threads, each after a
sweep through 128 MB, which empties the core's own caches:
- `us`, `flat_us`: DecodeAttention.run on the paged cache, by policy auto and flat;
- `sdpa_us`: one call a request, on keys and values that were gathered beforehand, [kv heads, tokens, head size];
- `sdpa_padded_us`: one call for the batch, gathered beforehand and padded to the longest request, with a mask;
- `gather_us`: gathering them from the pages, which an engine with a paged cache does for every layer and step;
- `plan_us`: DecodeAttention.plan, once a step.
With one thread, times are CPU times of that thread, which others on the machine disturb less; with more, elapsed ones.
torch gets the query heads of a KV head as query tokens of one head, not by enable_gqa=True.
A row is written only if the outputs of some of its requests agree with attention in fp64, by every method.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time

# Threads that spin at barriers lose whole time slices on a machine that others use too.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
import trunkline
from shared_batches import batches

HEAD_DIM, PAGE_SIZE = 128, 16
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
TOLERANCE = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-4}
MOST_BYTES = 6 << 30  # of gathered or padded keys and values
CHECKED = 4  # requests of a batch whose outputs are compared
attention_of = torch.nn.functional.scaled_dot_product_attention


class Case:
    """One batch's tensors: the paged cache, and what torch reads."""

    def __init__(self, batch, q_heads, kv_heads, dtype):
        torch.manual_seed(1)
        self.batch, self.dtype = batch, dtype
        self.kv_heads, self.group = kv_heads, q_heads // kv_heads
        self.lens = batch.kv_lens.tolist()
        shape = (batch.num_pages, PAGE_SIZE, kv_heads, HEAD_DIM)
        self.kv = tuple(torch.empty(shape, dtype=dtype).normal_() for _ in range(2))
        self.q = torch.empty(len(self.lens), q_heads, HEAD_DIM, dtype=dtype).normal_()
        self.pages = [torch.tensor(row) for row in batch.rows]
        longest = max(self.lens)
        token = 2 * kv_heads * HEAD_DIM * self.q.element_size()
        self.padded_bytes = len(self.lens) * longest * token
        self.gathered_bytes = sum(self.lens) * token
        self.padded = None
        if self.padded_bytes <= MOST_BYTES:
            # Tokens behind a request's end are masked.
            self.padded = [torch.zeros(len(self.lens), kv_heads, longest, HEAD_DIM, dtype=dtype) for _ in range(2)]
            self.gathered = [
                tuple(part[row, :, :kv_len] for part in self.padded) for row, kv_len in enumerate(self.lens)
            ]
            self.mask = (torch.arange(longest) < torch.tensor(self.lens)[:, None])[:, None, None]
        else:
            self.gathered = [
                tuple(torch.empty(kv_heads, kv_len, HEAD_DIM, dtype=dtype) for _ in range(2)) for kv_len in self.lens
            ]

    def paged(self, row):
        """Keys and values of a request, in the order of its tokens, [kv heads, tokens, head size]."""
        return [part[self.pages[row]].flatten(0, 1)[: self.lens[row]].transpose(0, 1) for part in self.kv]

    def gather(self):
        for row, parts in enumerate(self.gathered):
            for part, found in zip(parts, self.paged(row)):
                part.copy_(found)

    def per_request(self):
        q = self.q.view(-1, 1, self.kv_heads, self.group, HEAD_DIM)
        return torch.cat([attention_of(q[row], k[None], v[None]) for row, (k, v) in enumerate(self.gathered)])

    def on_padded(self):
        q = self.q.view(-1, self.kv_heads, self.group, HEAD_DIM)
        return attention_of(q, *self.padded, attn_mask=self.mask)

    def worst(self, out):
        """The largest difference from attention in fp64, of some requests."""
        rows = {row * (len(self.lens) - 1) // max(CHECKED - 1, 1) for row in range(CHECKED)}
        q = self.q.view(-1, self.kv_heads, self.group, HEAD_DIM)
        worst = 0.0
        for row in rows:
            k, v = (part.double() for part in self.paged(row))
            weights = torch.softmax(q[row].double() @ k.transpose(1, 2) / HEAD_DIM**0.5, dim=-1)
            right = weights @ v
            worst = max(worst, float((out.view(q.shape)[row].double() - right).abs().max()))
        return worst


class Timer:
    """Medians of methods that are run in turn, each after a sweep through memory."""

    def __init__(self, clock):
        self._clock = clock
        self._sweep = torch.zeros(32 << 20)  # 128 MB

    def time(self, methods, repeat):
        times = {name: [] for name in methods}
        for turn in range(repeat + 1):
            for name, method in methods.items():
                self._sweep.add_(1)
                begin = self._clock()
                method()
                took = (self._clock() - begin) * 1e6
                if turn:  # the first is to warm up
                    times[name].append(took)
        return {name: statistics.median(taken) for name, taken in times.items()}


def row_of(suite, batch, heads, dtype, given, workers, timer):
    q_heads, kv_heads = map(int, heads.split("/"))
    case = Case(batch, q_heads, kv_heads, DTYPES[dtype])
    made = {
        policy: trunkline.DecodeAttention(
            q_heads, kv_heads, HEAD_DIM, PAGE_SIZE, dtype=case.dtype, policy=policy, workers=workers
        )
        for policy in ("auto", "flat")
    }
    table, out = batch.table, torch.empty_like(case.q)

    def plan():
        made["auto"].plan(table, batch.kv_lens, num_pages=batch.num_pages)

    made["flat"].plan(table, batch.kv_lens, num_pages=batch.num_pages)
    plan()
    case.gather()
    errors = {"max_err": case.worst(made["auto"].run(case.q, case.kv)), "sdpa_max_err": case.worst(case.per_request())}
    methods = {
        "us": lambda: made["auto"].run(case.q, case.kv, out=out),
        "flat_us": lambda: made["flat"].run(case.q, case.kv, out=out),
        "sdpa_us": case.per_request,
    }
    if case.padded is not None:
        errors["sdpa_padded_max_err"] = case.worst(case.on_padded())
        methods["sdpa_padded_us"] = case.on_padded
    if not max(errors.values()) < TOLERANCE[dtype]:
        raise SystemExit(f"{suite} {batch.case} {heads} {dtype}: wrong output, {errors}")
    times = timer.time(methods, given.repeat)
    times |= timer.time({"gather_us": case.gather}, 2)
    times |= timer.time({"plan_us": plan}, 20)
    found = made["auto"].statistics
    return {
        "suite": suite,
        "case": batch.case,
        "heads": heads,
        "head_dim": HEAD_DIM,
        "dtype": dtype,
        "page_size": PAGE_SIZE,
        "threads": given.threads,
        "clock": "thread CPU" if given.threads == 1 else "elapsed",
        "requests": len(case.lens),
        "kv_tokens_total": found.kv_tokens_total,
        "kv_tokens_distinct": found.kv_tokens_distinct,
        "kv_tokens_read": found.kv_tokens_read,
        "kv_tokens_padded": len(case.lens) * max(case.lens),
        "padded_bytes": case.padded_bytes,
        "chosen": made["auto"].current.info["policy"],
        **{name: round(us, 1) for name, us in times.items()},
        **errors,
        "repeat": given.repeat,
        "load": round(os.getloadavg()[0], 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="of bench/suites.json")
    parser.add_argument("--heads", default="32/8")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=int, default=2, help="batches of each file")
    parser.add_argument("--cases", nargs="+", default=[], help="of the suites; all by default")
    parser.add_argument("--repeat", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    workers = trunkline.Workers(given.threads)
    timer = Timer(time.thread_time if given.threads == 1 else time.perf_counter)
    info = trunkline.cpu_info()
    machine = {
        "isa": info["isa"],
        "device": info["model"],
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "version": trunkline.version(),
    }
    for suite in given.suites:
        for batch in batches(suite, given.limit, PAGE_SIZE):
            if given.cases and batch.case not in given.cases:
                continue
            for dtype in given.dtypes:
                q_heads, kv_heads = map(int, given.heads.split("/"))
                token = 2 * kv_heads * HEAD_DIM * DTYPES[dtype].itemsize
                if int(batch.kv_lens.sum()) * token > MOST_BYTES:
                    print(f"{suite} {batch.case} {dtype}: more than {MOST_BYTES >> 30} GiB", file=sys.stderr)
                    continue
                row = row_of(suite, batch, given.heads, dtype, given, workers, timer)
                print(json.dumps(row | machine), flush=True)
                gc.collect()


if __name__ == "__main__":
    main()
