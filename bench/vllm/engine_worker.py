#!/usr/bin/env python3
"""One engine in one process: commands as JSON lines on stdin, replies as JSON lines on --reply-fd, logs on stdout.

    {"id": 1, "command": "load", "name": "groups_64x2k", "seed": 0}
    {"id": 1, "ok": true, "result": {...}}        or {"id": 1, "ok": false, "error": "...", "trace": "..."}

The first reply, of id 0, comes once the engine has started. engine_client.py is the other end.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable

import engine_options
import kernel_times
import workloads
from check_prompts import check_prompts
from decode_steps import DecodeBatch
from open_loop import OpenLoop


class Worker:
    """The commands: methods whose names begin with `do_`; their arguments are the line's other fields."""

    def __init__(self, engine):
        self.engine = engine
        self.workload: workloads.Workload | None = None
        self.batch: DecodeBatch | None = None
        self.runs = 0

    def handle(self, line: str) -> dict:
        given = json.loads(line)
        number, command = given.pop("id"), given.pop("command")
        try:
            method: Callable[..., dict] | None = getattr(self, f"do_{command}", None)
            if method is None:
                raise ValueError(f"command {command!r} is not known")
            return {"id": number, "ok": True, "result": method(**given)}
        except Exception as error:
            self.clear()
            what = f"{type(error).__name__}: {error}"
            return {"id": number, "ok": False, "error": what[:2000], "trace": traceback.format_exc()[-4000:]}

    def clear(self) -> None:
        """Ends what a failed command may have left running."""
        batch, self.batch = self.batch, None
        if batch:
            try:
                batch.finish()
            except Exception:
                traceback.print_exc()

    def run_name(self) -> str:
        self.runs += 1
        return f"{self.workload.name}.{self.runs}"

    def do_load(self, name: str, seed: int = 0, seconds: float = 8.0) -> dict:
        self.clear()
        self.workload = workloads.build(name, seed, seconds)
        return {"requests": len(self.workload.requests), "kind": self.workload.kind}

    def do_warm(self, limit_s: float = 60.0) -> dict:
        """Prefill and decode of some sizes, so that what is compiled at first use is there."""
        for name in ("unshared_8", "deft_shots_20"):
            batch = DecodeBatch(self.engine, workloads.build(name, seed=-1), f"warm.{name}.{self.runs}")
            batch.until_all_decode(limit_s)
            batch.turn(8, 0, limit_s)
            batch.finish()
        return {"emptied": self.engine.forget()}

    def do_begin(self, limit_s: float = 60.0) -> dict:
        """Begins the loaded batch and runs it until all its requests decode."""
        self.clear()
        self.batch = DecodeBatch(self.engine, self.workload, self.run_name())
        return {"prefill_s": self.batch.until_all_decode(limit_s)}

    def do_steps(self, count: int = 40, drop: int = 4, limit_s: float = 60.0) -> dict:
        self.engine.host.forget()
        turn = self.batch.turn(count, drop, limit_s)
        return turn | self.engine.host.medians()

    def do_profile(self, steps: int = 8) -> dict:
        """GPU time by kernel over some steps of the batch."""
        kernels = self.engine.kernels(self.batch.step, steps)
        return kernel_times.of_ranks(kernels, steps) | {"generated": self.batch.generated()}

    def do_end(self) -> dict:
        batch, self.batch = self.batch, None
        batch.finish()
        return {}

    def do_serve(self, limit_s: float = 60.0) -> dict:
        """Serves the loaded requests in an open loop, from an empty prefix cache."""
        emptied = self.engine.forget()
        return OpenLoop(self.engine, self.workload, self.run_name()).serve(limit_s) | {"emptied": emptied}

    def do_logprobs(self, steps: int = 16, seed: int = 0, parts: int = 1) -> dict:
        """Log-probabilities of chosen tokens, with the prompts in one batch or in several, one after another."""
        prompts, forced = check_prompts(seed)
        found: list[list[float]] = [[] for _ in prompts]
        for part in range(parts):
            chosen = range(part, len(prompts), parts)
            rows = self.engine.log_probabilities([prompts[i] for i in chosen], [forced[i] for i in chosen], steps)
            for i, row in zip(chosen, rows, strict=True):
                found[i] = row
        return {"logprobs": found}

    def do_stats(self) -> dict:
        return {"ranks": self.engine.statistics()}


def serve(worker: Worker, commands, replies) -> None:
    """Until end of input or `quit`."""
    for line in commands:
        if json.loads(line).get("command") == "quit":
            return
        replies.write(json.dumps(worker.handle(line)) + "\n")
        replies.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="default", help="default, trunkline, cascade or again")
    engine_options.add_to(parser)
    engine_options.add_drawing_to(parser)
    parser.add_argument("--weights", help="file by which one engine tells others where its weights are; none: its own")
    parser.add_argument("--owner", action="store_true", help="of these weights")
    parser.add_argument("--reply-fd", type=int, required=True)
    given = parser.parse_args()
    os.set_inheritable(given.reply_fd, False)  # else its end would not be seen while some child lives
    replies = os.fdopen(given.reply_fd, "w")
    try:
        from vllm_engine import VllmEngine

        worker = Worker(VllmEngine(given))
        first = {"id": 0, "ok": True, "result": worker.engine.info()}
    except Exception as error:
        first = {"id": 0, "ok": False, "error": f"{type(error).__name__}: {error}"[:2000]}
        first["trace"] = traceback.format_exc()[-4000:]
    replies.write(json.dumps(first) + "\n")
    replies.flush()
    if first["ok"]:
        serve(worker, sys.stdin, replies)
    sys.stdout.flush()
    os._exit(0 if first["ok"] else 1)  # an engine's own shutdown may hang


if __name__ == "__main__":
    main()
