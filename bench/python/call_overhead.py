#!/usr/bin/env python3
"""What Python adds to a call: DecodeAttention.run and plan beside the same C calls, in turn, one thread.

    python3 bench/python/call_overhead.py >bench/results/python/calls.jsonl

The shape is the smallest, so that the calls themselves are much of the time. Needs an installed trunkline, a C compiler
and, for the rows of torch's tensors, torch. Times are CPU times of the thread.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import trunkline
from shared_batches import ROOT, pages_of
from trunkline import _abi, _library, _tensors

CALLS, SAMPLES = 200, 300
HEAD_DIM, PAGE_SIZE = 64, 16


def c_loops(folder):
    """loop_run and loop_plan of c_calls.c, with the library's functions bound."""
    built = os.path.join(folder, "c_calls.so")
    source = ROOT / "bench/python/c_calls.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", ROOT / "include", source, "-o", built], check=True)
    names = ["forest_build", "planner_plan", "cpu_resolve", "cpu_run"]
    addresses = [ctypes.cast(getattr(_library.c, f"trunkline_{name}"), ctypes.c_void_p).value for name in names]
    functions = (ctypes.c_void_p * len(names))(*addresses)
    loops = ctypes.CDLL(built)
    address, size, count = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
    loops.loop_run.argtypes = [address] * 4 + [size, count]
    loops.loop_plan.argtypes = [address] * 8 + [size, count]
    return loops, functions


class Step:
    """Requests over one prefix of a page, each with a token of its own."""

    def __init__(self, requests, library):
        nodes = [[-1, PAGE_SIZE]] + [[0, 1]] * requests
        self.batch = pages_of(nodes, list(range(1, requests + 1)), PAGE_SIZE, "")
        shape = (self.batch.num_pages, PAGE_SIZE, 1, HEAD_DIM)
        arrays = [np.full(size, 0.5, np.float32) for size in ((requests, 1, HEAD_DIM), shape, shape)]
        tables = [self.batch.table, self.batch.kv_lens]
        self.out = np.empty_like(arrays[0])
        if library == "torch":
            import torch

            arrays, tables = ([torch.from_numpy(array) for array in group] for group in (arrays, tables))
            self.out = torch.from_numpy(self.out)
        self.q, *self.kv = arrays
        self.table, self.kv_lens = tables
        self.attention = trunkline.DecodeAttention(
            1, 1, HEAD_DIM, PAGE_SIZE, dtype="float32", workers=trunkline.Workers(1)
        )
        self.plan()

    def plan(self):
        self.attention.plan(self.table, self.kv_lens, num_pages=self.batch.num_pages)

    def c_run(self, loops, functions):
        """CALLS runs by the C interface, of the plan that there is."""
        keep = []
        struct = {name: _tensors.tensor_struct(x, name, keep) for name, x in zip("qkv", (self.q, *self.kv))}
        layer = _library.new(_abi.Attention, **struct, out=_tensors.tensor_struct(self.out, "out", keep))
        made, at = self.attention, ctypes.addressof(layer)

        def run():
            space = made._workspace
            status = loops.loop_run(functions, made._executor.address, at, space.address, space.nbytes, CALLS)
            assert not status and keep and layer

        return run

    def c_plan(self, loops, functions):
        def plan():
            made, space = self.attention, self.attention._workspace
            planner = made._planner
            status = loops.loop_plan(
                functions,
                made._executor.address,
                made._forest._handle.value,
                planner._handle.value,
                made._batch.address,
                planner._shape,
                planner._options_at,
                space.address,
                space.nbytes,
                CALLS,
            )
            assert not status

        return plan


def repeated(call):
    def calls():
        for _ in range(CALLS):
            call()

    return calls


def measured(methods):
    """Nanoseconds of a call, medians over samples taken in turn, each beside those of the first method."""
    times = {name: [] for name in methods}
    for _ in range(SAMPLES):
        for name, method in methods.items():
            begin = time.thread_time_ns()
            method()
            times[name].append((time.thread_time_ns() - begin) / CALLS)
    first, *others = times
    for name in others:
        added = [ours - c for ours, c in zip(times[name], times[first])]
        yield name, statistics.median(times[first]), statistics.median(times[name]), statistics.median(added)


def methods_of_run(step, library):
    run = step.attention.run
    yield "run, out given", lambda: run(step.q, step.kv, out=step.out)
    yield "run, out made", lambda: run(step.q, step.kv)
    if library == "torch":
        import torch
        from trunkline.integrations import torch as operators

        key = operators.register(step.attention)
        packed = torch.stack(list(step.kv), dim=1)
        yield "torch.ops.trunkline.decode", lambda: torch.ops.trunkline.decode(step.q, packed, None, key)


def main():
    libraries = ["numpy"]
    try:
        import torch

        libraries.append("torch")
        version = torch.__version__
    except ImportError:
        print("torch is not there: no rows of its tensors", file=sys.stderr)
        version = ""
    with tempfile.TemporaryDirectory() as folder:
        loops, functions = c_loops(folder)
        for library in libraries:
            for requests in (1, 64):
                step = Step(requests, library)
                runs = {"c": step.c_run(loops, functions)}
                runs |= {name: repeated(call) for name, call in methods_of_run(step, library)}
                plans = {"c": step.c_plan(loops, functions), "plan": repeated(step.plan)}
                # Runs first: the loop of C plans leaves a plan that the object does not know.
                for methods in (runs, plans):
                    for name, c_ns, ns, added in measured(methods):
                        row = {"suite": "calls", "case": name, "tensors": library, "requests": requests}
                        row |= {"c_ns": round(c_ns), "ns": round(ns), "added_ns": round(added)}
                        row |= {"load": round(os.getloadavg()[0], 1), "device": trunkline.cpu_info()["model"]}
                        print(json.dumps(row | {"torch": version, "version": trunkline.version()}), flush=True)


if __name__ == "__main__":
    main()
