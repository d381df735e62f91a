"""An SGLang engine with sides (side_scheduler.py), as the measuring loops see it: one GPU, its scheduler a process."""

import asyncio
import contextlib
import itertools
import json
import os
import pathlib
import tempfile
import time

import models
import side_scheduler
from drawn import CONTEXT, Request

# Requests decode until they are aborted, and shall all be admitted, whatever they may come to.
ENVIRONMENT = {"TRUNKLINE_SGLANG": "flag", "HF_HUB_OFFLINE": "1", "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION": "128"}


def engine_arguments(given, model: str) -> dict:
    """Arguments of sglang.Engine: its defaults but for sizes. Graphs are captured for the batches that are timed."""
    token_bytes = models.kv_bytes_per_token(models.shape_of(given.model, given.layers))
    return {
        "model_path": model,
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "dtype": "bfloat16",
        "attention_backend": "fa3",
        "sampling_backend": "pytorch",
        "page_size": given.page_size,
        "context_length": CONTEXT,
        "max_running_requests": max(given.batches),
        "max_total_tokens": int(given.kv_gib * 2**30) // token_bytes // given.page_size * given.page_size,
        "mem_fraction_static": given.mem_fraction,
        "cuda_graph_bs_decode": sorted(given.batches),
        "disable_prefill_cuda_graph": True,
        "schedule_conservativeness": 0.05,
        "random_seed": 0,
        "log_level": "info",
    }


class SglangEngine:
    """One engine. Requests are named; their answers are not kept."""

    def __init__(self, given):
        os.environ.update(ENVIRONMENT)
        folder = models.write_model(
            pathlib.Path(given.scratch) / f"sglang_{given.model}", models.shape_of(given.model, given.layers)
        )
        from sglang.srt.entrypoints import engine

        class Engine(engine.Engine):
            run_scheduler_process_func = staticmethod(side_scheduler.run)

        self._replies = pathlib.Path(tempfile.mkdtemp())
        self._count = itertools.count()
        self._tasks: dict[str, asyncio.Task] = {}
        self.engine = Engine(**engine_arguments(given, str(folder)))
        self.parameters = self.ask("draw", std=given.std)
        self.kv_tokens = int(self.ask("info")["kv_tokens"])
        self.flush()

    def ask(self, do: str, within_s: float = 120.0, **given):
        """A command's result."""
        reply = self._replies / str(next(self._count))
        self.engine.collective_rpc("bench", do=do, reply=str(reply), **given)
        end = time.monotonic() + within_s
        while not reply.exists():
            if time.monotonic() > end:
                raise TimeoutError(f"the scheduler did not answer {do} in {within_s:.0f} s")
            time.sleep(0.001)
        found = json.loads(reply.read_text())
        reply.unlink()
        return found

    def let_run(self, seconds: float) -> None:
        """Lets this process take in what the engine has sent."""
        self.engine.loop.run_until_complete(asyncio.sleep(seconds))

    def add(self, name: str, request: Request, temperature: float, max_tokens: int | None = None) -> None:
        room = CONTEXT - len(request.prompt) - 1
        sampling = {"max_new_tokens": min(max_tokens or request.max_tokens, room), "ignore_eos": True}
        sampling["temperature"] = temperature

        async def answer():
            return await self.engine.async_generate(input_ids=request.prompt, sampling_params=sampling, rid=name)

        self._tasks[name] = self.engine.loop.create_task(answer())

    def raise_ended(self) -> None:
        """Raises where a request has ended that was to go on: what it ended with."""
        for name, task in self._tasks.items():
            if task.done():
                raise RuntimeError(f"{name} has ended: {task.exception() or task.result()['meta_info']}")

    def all_answers(self, within_s: float) -> dict[str, dict]:
        """Waits for all requests; their last answers by name."""

        async def gather():
            return await asyncio.wait_for(asyncio.gather(*self._tasks.values()), within_s)

        found = dict(zip(self._tasks, self.engine.loop.run_until_complete(gather()), strict=True))
        self._tasks.clear()
        return found

    def abort_all(self, within_s: float = 30.0) -> None:
        self.engine.tokenizer_manager.abort_request(abort_all=True)

        async def ended():
            await asyncio.wait_for(asyncio.gather(*self._tasks.values(), return_exceptions=True), within_s)

        with contextlib.suppress(asyncio.TimeoutError):
            self.engine.loop.run_until_complete(ended())
        self._tasks.clear()
        end = time.monotonic() + within_s
        while any(self.ask("live").values()):
            if time.monotonic() > end:
                raise TimeoutError(f"requests are left after an abort of all: {self.ask('live')}")
            self.let_run(0.05)

    def flush(self) -> None:
        """Empties the prefix cache, which the scheduler refuses while it still frees what has ended."""
        for _ in range(100):
            if self.engine.flush_cache().success:
                return
            self.let_run(0.05)
        raise TimeoutError("the prefix cache was not emptied in 5 s")

    def shutdown(self) -> None:
        self.engine.shutdown()
