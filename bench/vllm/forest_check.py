#!/usr/bin/env python3
"""The port of Forest Cascade Attention on a GPU, without an engine: its results and its times beside one plain call.

    python3 bench/vllm/forest_check.py                # needs a GPU and vLLM 0.26 to 0.33; less than a minute
    python3 bench/vllm/forest_check.py --times        # and times, by which limits.py's figures can be chosen

Random batches, with layouts that hold and layouts of other batches, are compared with attention in float64; the error
may be twice that of vLLM's plain call, or 0.004. A line of JSON each; the exit status is 1 where one is wrong.
"""

import argparse
import dataclasses
import json
import statistics
import sys
import types

import numpy as np
import torch
from forest_cascade.cascade import Call, attend, prefix_call, suffix_call
from forest_cascade.flash import FlashKernels, Heads, flash_attention, scheduled
from forest_cascade.groups import Group, find_groups, shareable_pages
from forest_cascade.layout import lay_out
from forest_cascade.step import DeviceLayout

PAGE, DIM = 16, 128


class Batch:
    """Decode rows in a random order. groups: sizes and shared pages; own: pages behind them, at most."""

    def __init__(self, groups: list[tuple[int, int]], own: int, heads: tuple[int, int], seed: int, shuffled: bool):
        rng = np.random.default_rng(seed)
        self.rows = sum(size for size, _ in groups)
        columns = max(pages for _, pages in groups) + own
        ids = 1 + rng.permutation(self.rows * columns).astype(np.int32)
        self.table, self.lengths, at = ids.reshape(self.rows, columns), np.empty(self.rows, np.int32), 0
        for size, pages in groups:
            self.table[at : at + size, :pages] = self.table[at, :pages]
            self.lengths[at : at + size] = pages * PAGE + rng.integers(1, own * PAGE + 1, size)
            at += size
        if shuffled:
            order = rng.permutation(self.rows)
            self.table, self.lengths = self.table[order], self.lengths[order]
        generator = torch.Generator("cuda").manual_seed(seed)
        drawn = {"generator": generator, "device": "cuda", "dtype": torch.bfloat16}
        self.cache = torch.randn((ids.size + 1, heads[1], PAGE, 2 * DIM), **drawn)
        self.query = torch.randn((self.rows, heads[0], DIM), **drawn)
        self.impl = types.SimpleNamespace(
            head_size=DIM, num_kv_heads=heads[1], kv_cache_dtype="auto", scale=DIM**-0.5, logits_soft_cap=0,
            vllm_flash_attn_version=flash_attention(),
        )  # fmt: skip
        self.heads = Heads(*heads, DIM, torch.bfloat16, PAGE)
        self.on_gpu = torch.from_numpy(self.table).cuda(), torch.from_numpy(self.lengths).cuda()
        self.kernels = FlashKernels(self.impl, None, self.cache)

    def groups(self) -> list[Group]:
        return find_groups(self.table, shareable_pages(self.table, self.lengths, PAGE))

    def step(self, groups: list[Group], splits: int):
        made = DeviceLayout(lay_out(groups, self.rows), PAGE, "cuda")
        step = made.step(*self.on_gpu, int(self.lengths.max()), splits)
        if flash_attention() == 3:
            step.prefix_schedule = scheduled(prefix_call(step), self.heads)
            step.suffix_schedule = scheduled(suffix_call(step), self.heads)
        return step

    def forest(self, groups: list[Group], splits: int = 0):
        step, output = self.step(groups, splits), torch.full_like(self.query, torch.nan)
        return lambda: attend(step, self.query, output, self.kernels), output

    def plain(self):
        starts = torch.arange(self.rows + 1, dtype=torch.int32, device="cuda")
        table, lengths = self.on_gpu
        call = Call(starts, lengths, table, 1, int(self.lengths.max()), True, 0, None)
        if flash_attention() == 3:
            call = dataclasses.replace(call, schedule=scheduled(call, self.heads))
        return lambda: self.kernels.attend(self.query, call)[0]

    def expected(self):
        """In float64, row by row."""
        found = []
        for i, length in enumerate(self.lengths.tolist()):
            pages = self.on_gpu[0][i, : -(-length // PAGE)].long()
            keys = self.cache[pages].transpose(0, 1).reshape(self.cache.shape[1], -1, 2 * DIM)[:, :length].double()
            k, v = keys.repeat_interleave(self.query.shape[1] // len(keys), 0).split(DIM, dim=-1)
            scores = torch.einsum("hd,hsd->hs", self.query[i].double(), k) * DIM**-0.5
            found.append(torch.einsum("hs,hsd->hd", scores.softmax(-1), v))
        return torch.stack(found)


CASES = {  # by name: groups of so many rows and shared pages, pages of their own
    "64 of 127": ([(64, 127)], 4),
    "8 x 8 of 64": ([(8, 64)] * 8, 20),
    "sizes and singles": ([(30, 200), (5, 9), (2, 40), *[(1, 3)] * 11], 12),
    "nothing shared": ([(1, 30)] * 16, 4),
    "250 of 10": ([(250, 10), (6, 300)], 3),
}
TIMED = {
    "64 of 1024": ([(64, 1024)], 4),
    "64 of 128": ([(64, 128)], 16),
    "8 x 8 of 128": ([(8, 128)] * 8, 16),
    "8 x 8 of 16": ([(8, 16)] * 8, 16),
    "64 of 4": ([(64, 4)], 64),
}


def errors(batch: Batch, groups: list[Group], splits: int) -> dict:
    expected = batch.expected()
    run, output = batch.forest(groups, splits)
    run()
    found, plain = ((x.double() - expected).abs().max().item() for x in (output, batch.plain()()))
    return {"error": found, "plain": plain, "ok": found <= max(2 * plain, 0.004)}  # false of NaN


def microseconds(run, times: int = 20) -> float:
    """On the GPU alone: in a graph of several runs, the median of replays."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            run()
    found = []
    for _ in range(9):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(1e3 * begin.elapsed_time(end) / times)
    return statistics.median(found)


def check() -> bool:
    good = True
    for number, (name, (sizes, own)) in enumerate(CASES.items()):
        for heads in ((32, 8), (64, 8), (32, 2)):
            batch = Batch(sizes, own, heads, number, shuffled=number % 2 == 1)
            own_groups = batch.groups() or [Group((0, 1), 1)]  # where nothing is shared, one that does not hold
            stale = [Group(tuple(range(i, i + 4)), batch.table.shape[1] // 2) for i in range(0, batch.rows - 4, 5)]
            for kind, groups in (("own", own_groups), ("stale", stale)):
                for splits in (0, 1):
                    row = {"case": name, "heads": heads, "layout": kind, "splits": splits}
                    row |= errors(batch, groups, splits)
                    good &= row["ok"]
                    print(json.dumps(row), flush=True)
    return good


def time_cases() -> None:
    for name, (sizes, own) in TIMED.items():
        for shuffled in (False, True):
            batch = Batch(sizes, own, (32, 8), 1, shuffled)
            saved = sum(g.saved_pages() for g in batch.groups()) * 2 * 8 * DIM * 2 * PAGE
            row = {"case": name, "shuffled": shuffled, "saved_mib": round(saved / 2**20, 1)}
            row["plain_us"] = microseconds(batch.plain())
            for splits in (0, 1):
                row[f"forest_us_splits_{splits}"] = microseconds(batch.forest(batch.groups(), splits)[0])
            print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", action="store_true")
    given = parser.parse_args()
    if not check():
        print("the port of FCA is wrong", file=sys.stderr)
        return 1
    if given.times:
        time_cases()
    return 0


if __name__ == "__main__":
    sys.exit(main())
