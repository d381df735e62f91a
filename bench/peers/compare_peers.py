#!/usr/bin/env python3
"""Trunkline beside FlashAttention 3 (of vLLM's wheel) and FlashInfer: one attention layer of a decode step.

    python3 bench/peers/compare_peers.py --check                                       # correctness alone, first
    python3 bench/peers/compare_peers.py --out OUT/peers.jsonl --commit COMMIT         # on a GPU; some minutes
    python3 bench/peers/file_rows.py OUT/peers.jsonl                                   # here: to bench/results/peers

Needs torch with CUDA and an installed trunkline that has it, and vLLM and FlashInfer to compare them. A method
whose package is missing is left out. All methods of a case read the same tensors in one process: queries [B, Hq, d],
and K and V apart, [pages, P, Hkv, d]. FlashInfer compiles kernels at first use, a minute for each head size.

Each method is compared with attention in fp32 first, on one copy of K and V while all others are NaN. Methods are
then timed by turns, as replays of CUDA graphs (`us`) and as eager calls (`eager_us`), between two events, on copies
that have left the L2 cache; the replays' results are compared, too. A method that cannot be captured has no `us`.
`plan_us` is the host's time of what a package does once a step. A JSON row for each case and method.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import sys
import time
from collections.abc import Iterator

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(BENCH / "python"), str(BENCH / "vllm")]

import torch  # noqa: E402
from cuda_case import MOST_BYTES, Case  # noqa: E402
from peer_cases import CHECKED, SETTINGS, TREES, USUAL, PeerCase, peer_cases  # noqa: E402
from peer_method import MODULES, Maker, Method, load  # noqa: E402
from peer_trunkline import facts  # noqa: E402
from provenance import provenance  # noqa: E402
from replay_timers import CudaTimer, HostTimer  # noqa: E402

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
# Of an output vector's length. Rounding is some 0.005 in bf16; a page of 16 that is left out of 4,096 tokens is 0.06.
TOLERANCE = {"f16": 4e-3, "bf16": 2e-2}


def relative_error(out: torch.Tensor, right: torch.Tensor) -> float:
    """The largest of all (request, head) vectors; NaN where an output has one."""
    difference = (out.reshape(right.shape).float() - right).norm(dim=-1)
    return float((difference / right.norm(dim=-1)).max())


class Rows:
    """A case's rows, and the methods that are right so far."""

    def __init__(self, case: Case, fields: dict, dtype: str) -> None:
        self._case, self._fields, self._dtype, self._right = case, fields, dtype, case.right()
        self.rows: list[dict] = []
        self.right: dict[str, tuple[dict, Method]] = {}

    def add(self, name: str, maker: Maker, chosen: PeerCase) -> None:
        """Makes and checks a method. One that refuses the case gets a row that says so."""
        row = self._fields | {"method": name}
        try:
            method = maker(self._case, chosen)
            if method is None:
                return
            error = self._error_on_another_copy(method)
        except Exception as refusal:  # other packages have exceptions of all kinds
            self.rows.append(row | {"refused": f"{type(refusal).__name__}: {str(refusal).partition(chr(10))[0]}"})
            if self._case.device.type == "cuda":
                torch.cuda.synchronize()  # raises where a kernel has failed: the run ends, as no later row would count
            return
        self.rows.append(row)
        if self._judge(row, error):
            self.right[name] = row, method

    def add_times(self, timer: CudaTimer | HostTimer) -> None:
        for row, method in self.right.values():
            row["plan_us"] = round(timer.host_us(method.plan), 2)
        times = timer.time([method.work(name) for name, (_, method) in self.right.items()])
        for name, (row, method) in self.right.items():
            found = times[name]
            row["timed"] = "eager calls" if found.graph is None else "graph replays"
            row["eager_us"] = round(found.eager, 2)
            if found.graph is not None:
                row["us"] = round(found.graph, 2)
            if not self._judge(row, relative_error(method.out, self._right)):  # of the last call or replay
                row.pop("us", None)
                row.pop("eager_us")

    def add_facts(self, ours: Method | None) -> None:
        if ours is not None:
            known = facts(self._case, ours)
            for row in self.rows:
                row.update(known)

    def _error_on_another_copy(self, method: Method) -> float:
        copy = self._case.copies - 1
        if copy == 0:
            return relative_error(method.run(), self._right)
        method.move(copy)
        with self._case.only_copy(copy):
            error = relative_error(method.run(), self._right)
        method.move(0)
        return error

    def _judge(self, row: dict, error: float) -> bool:
        row["max_relative_err"] = max(error, row.get("max_relative_err", 0.0)) if error == error else error
        row["passed"] = error < TOLERANCE[self._dtype]  # false of NaN
        return row["passed"]


def device_of(name: str) -> torch.device:
    """With its number, as tensors have it."""
    return torch.device("cuda", torch.cuda.current_device()) if name == "cuda" else torch.device(name)


def compare(
    chosen: PeerCase, makers: dict[str, Maker], given: argparse.Namespace, timer: CudaTimer | HostTimer | None
) -> list[dict]:
    """A case's rows. timer: None to check alone."""
    setting, batch = chosen.setting, chosen.batch()
    case = Case(
        batch,
        setting.q_heads,
        setting.kv_heads,
        DTYPES[given.dtype],
        device_of(given.device),
        head_dim=setting.head_dim,
        page_size=chosen.page_size,
    )
    fields = {"suite": chosen.suite, "case": chosen.name, "heads": setting.heads, "head_dim": setting.head_dim}
    fields |= {"dtype": given.dtype, "page_size": chosen.page_size, "page_order": "consecutive"}
    fields |= {"requests": case.requests, "levels": len(chosen.level_tokens), "copies": case.copies}
    fields |= {"repeat": given.repeat}
    rows = Rows(case, fields, given.dtype)
    for name, maker in makers.items():
        rows.add(name, maker, chosen)
    if timer is not None and rows.right:
        rows.add_times(timer)
    rows.add_facts(rows.right["trunkline"][1] if "trunkline" in rows.right else None)
    return rows.rows


def cache_bytes(chosen: PeerCase) -> int:
    """Of a copy of K and V in 16 bits."""
    counts, tokens = ([int(word) for word in part.split(",")] for part in chosen.notation.split("/"))
    total = sum(count * of for count, of in zip(counts, tokens, strict=True))
    return 4 * total * chosen.setting.kv_heads * chosen.setting.head_dim


def wanted(given: argparse.Namespace) -> Iterator[PeerCase]:
    names = given.cases or (CHECKED if given.check else ())
    for chosen in peer_cases(given.suites, SETTINGS, names):
        setting = chosen.setting
        if given.heads and setting.heads not in given.heads:
            continue
        if given.head_dims and setting.head_dim not in given.head_dims:
            continue
        if given.page_sizes and setting.page_size not in given.page_sizes:
            continue
        if cache_bytes(chosen) <= MOST_BYTES:
            yield chosen


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", nargs="+", choices=TREES, default=list(USUAL))
    parser.add_argument("--cases", nargs="*", default=[], help="names; all of the suites by default")
    parser.add_argument("--methods", nargs="+", choices=MODULES, default=list(MODULES))
    parser.add_argument("--heads", nargs="*", default=[], help="of the settings of peer_cases.py: 32/8 ...")
    parser.add_argument("--head-dims", type=int, nargs="*", default=[])
    parser.add_argument("--page-sizes", type=int, nargs="*", default=[])
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=300, help="no case is begun after so many")
    parser.add_argument("--check", action="store_true", help="a few cases of each setting, without times")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--commit", default="unknown", help="that the installed wheel was built from")
    parser.add_argument("--out", type=pathlib.Path, help="a file for the rows as well")
    return parser.parse_args()


def shown(row: dict) -> str:
    names = ("case", "heads", "head_dim", "page_size", "method", "us", "plan_us", "max_relative_err", "passed")
    return json.dumps({name: row[name] for name in (*names, "refused") if name in row})


def main() -> int:
    given, begin = arguments(), time.perf_counter()
    cuda = given.device.startswith("cuda")
    timer = None if given.check else (CudaTimer if cuda else HostTimer)(given.repeat)
    makers, versions = load(given.methods)
    common = provenance(device_of(given.device), "bench/peers/compare_peers.py") | {"commit": given.commit}
    lines, wrong, cases = [], 0, list(wanted(given))
    for number, chosen in enumerate(cases):
        if time.perf_counter() - begin > given.seconds:
            print(f"no time left for {len(cases) - number} of {len(cases)} cases", file=sys.stderr)
            break
        try:
            rows = compare(chosen, makers, given, timer)
        except torch.OutOfMemoryError as error:
            print(f"{chosen.name}: left out: {str(error).partition(chr(10))[0]}", file=sys.stderr)
            continue
        finally:
            gc.collect()
            if cuda:
                torch.cuda.empty_cache()
        for row in rows:
            wrong += not row.get("passed", True)
            lines.append(json.dumps(row | {"peer_version": versions[row["method"]]} | common))
            print(shown(row), flush=True)
        if given.out is not None:
            given.out.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} rows, {wrong} wrong, in {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    return 1 if wrong or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
