#!/usr/bin/env python3
"""Measures the overhead of Python: DecodeAttention.run and plan beside the same C calls, in turn, one thread.

    python3 bench/python/call_overhead.py >bench/results/python/calls.jsonl

The shape is the smallest, so that the calls themselves are much of the time. Needs an installed trunkline, a C compiler
and, for the rows of torch's tensors, torch. Times are CPU times of the thread.
"""

import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import trunkline
from shared_batches import ROOT, pages_of

CALLS, SAMPLES = 200, 300
HEAD_DIM, PAGE_SIZE = 64, 16


class Given(ctypes.Structure):
    """c_calls.c's"""

    _fields_ = [(name, ctypes.c_void_p) for name in ("table", "kv_lens", "q", "k", "v", "out")]
    _fields_ += [(name, ctypes.c_int32) for name in ("rows", "width", "pages", "page_size", "head_dim")]


def c_calls(folder):
    """c_calls.c, built against the package's library."""
    built = pathlib.Path(folder, "c_calls.so")
    library = pathlib.Path(trunkline.__file__).with_name("libtrunkline.so.0")
    command = ["cc", "-O2", "-shared", "-fPIC", "-I", ROOT / "include", ROOT / "bench/python/c_calls.c", library]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}", "-o", built], check=True)
    calls = ctypes.CDLL(built)
    calls.step_create.argtypes = [ctypes.POINTER(Given), ctypes.POINTER(ctypes.c_void_p)]
    calls.step_run.argtypes = calls.step_plan.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    calls.step_destroy.argtypes = [ctypes.c_void_p]
    calls.step_destroy.restype = None
    return calls


class Step:
    """Requests over one prefix of a page, each with a token of its own."""

    def __init__(self, requests, library):
        nodes = [[-1, PAGE_SIZE]] + [[0, 1]] * requests
        self.batch = pages_of(nodes, list(range(1, requests + 1)), PAGE_SIZE, "")
        shape = (self.batch.num_pages, PAGE_SIZE, 1, HEAD_DIM)
        self.arrays = [np.full(size, 0.5, np.float32) for size in ((requests, 1, HEAD_DIM), shape, shape)]
        self.arrays.append(np.empty_like(self.arrays[0]))
        self.tables = [self.batch.table, self.batch.kv_lens]
        tensors, tables = self.arrays, self.tables
        if library == "torch":
            import torch

            tensors, tables = ([torch.from_numpy(array) for array in group] for group in (tensors, tables))
        self.q, *self.kv, self.out = tensors
        self.table, self.kv_lens = tables
        self.attention = trunkline.DecodeAttention(
            1, 1, HEAD_DIM, PAGE_SIZE, dtype="float32", workers=trunkline.Workers(1)
        )
        self.plan()

    def plan(self):
        self.attention.plan(self.table, self.kv_lens, num_pages=self.batch.num_pages)


class CStep:
    """The same by the C interface alone, on the same memory."""

    def __init__(self, calls, step):
        table = step.tables[0]
        q, k, v, out = (array.ctypes.data for array in step.arrays)
        given = Given(
            table=table.ctypes.data,
            kv_lens=step.tables[1].ctypes.data,
            q=q,
            k=k,
            v=v,
            out=out,
            rows=table.shape[0],
            width=table.shape[1],
            pages=step.batch.num_pages,
            page_size=PAGE_SIZE,
            head_dim=HEAD_DIM,
        )
        self._calls, self._step = calls, ctypes.c_void_p()
        assert calls.step_create(given, self._step) == 0
        step.out[:] = 0
        self.run()
        assert (step.arrays[3] == 0.5).all()

    def run(self):
        assert self._calls.step_run(self._step, CALLS) == 0

    def plan(self):
        assert self._calls.step_plan(self._step, CALLS) == 0

    def close(self):
        self._calls.step_destroy(self._step)


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
        calls = c_calls(folder)
        for library in libraries:
            for requests in (1, 64):
                step = Step(requests, library)
                by_c = CStep(calls, step)
                runs = {"c": by_c.run}
                runs |= {name: repeated(call) for name, call in methods_of_run(step, library)}
                plans = {"c": by_c.plan, "plan": repeated(step.plan)}
                for methods in (runs, plans):
                    for name, c_ns, ns, added in measured(methods):
                        row = {"suite": "calls", "case": name, "tensors": library, "requests": requests}
                        row |= {"c_ns": round(c_ns), "ns": round(ns), "added_ns": round(added)}
                        row |= {"load": round(os.getloadavg()[0], 1), "device": trunkline.cpu_info()["model"]}
                        print(json.dumps(row | {"torch": version, "version": trunkline.version()}), flush=True)
                by_c.close()


if __name__ == "__main__":
    main()
