"""A scheduler of SGLang whose decode steps have sides: graphs captured with fa3's kernel, and graphs with Trunkline's.

It runs in the scheduler's process, as the engine's run_scheduler_process_func. Commands come by Engine.collective_rpc,
whose arguments are plain values; each writes its result as JSON to a file that the caller names.
"""

import dataclasses
import json
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vllm"), str(HERE.parent)]
import weights  # noqa: E402

THEIRS, OURS, AGAIN, OURS_AGAIN = "default", "trunkline", "again", "trunkline_again"
SIDES = [THEIRS, OURS, AGAIN, OURS_AGAIN]
BACKENDS = {THEIRS: "fa3", AGAIN: "fa3", OURS: "trunkline", OURS_AGAIN: "trunkline"}


class Commands:
    """What the scheduler is asked for: methods whose names begin with `do_`."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.steps: list[tuple[float, int]] = []  # when each decode step's results were there, and its requests
        self.runners: dict = {}
        self.forced: dict[str, int] = {}
        self.told: list[tuple] = []
        self.profiler = None

    @property
    def runner(self):
        return self.scheduler.tp_worker.model_runner

    def note(self, batch) -> None:
        if batch.forward_mode.is_decode():
            self.steps.append((time.perf_counter(), batch.batch_size()))

    def do_info(self) -> dict:
        import sglang
        import torch

        return {
            "device": torch.cuda.get_device_name(),
            "sglang": sglang.__version__,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "page_size": self.runner.page_size,
            "kv_tokens": int(self.scheduler.max_total_num_tokens),
            "overlap": bool(self.scheduler.enable_overlap),
        }

    def do_draw(self, std: float) -> int:
        """SGLang's dummy weights are so small that attention is all but uniform."""
        import torch

        with torch.no_grad():
            return weights.draw_weights(self.runner.model, std)

    def do_capture(self) -> dict:
        """Captures the graphs of all sides, one after another and in the same way."""
        import torch
        from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS

        taken = {}
        with torch.no_grad():
            for side in SIDES:
                backend = ATTENTION_BACKENDS[BACKENDS[side]](self.runner)
                backend.prefill_attention_backend_str = backend.decode_attention_backend_str = "fa3"
                began = time.perf_counter()
                self.runners[side] = type(self.runner.decode_cuda_graph_runner)(self.runner, attn_backend=backend)
                taken[side] = round(time.perf_counter() - began, 2)
        if getattr(self.runners[OURS].attn_backend, "steps", None) is None:
            raise RuntimeError("no layer is Trunkline's; the log says why")
        torch.cuda.synchronize()
        return taken

    def do_use(self, side: str) -> str:
        self.runner.decode_cuda_graph_runner = self.runners[side]
        self.steps.clear()
        return side

    def do_steps(self) -> list:
        return self.steps

    def do_live(self) -> dict:
        scheduler = self.scheduler
        chunked = getattr(scheduler, "chunked_req", None)
        return {
            "running": scheduler.running_batch.batch_size() if scheduler.running_batch is not None else 0,
            "waiting": len(scheduler.waiting_queue) + (chunked is not None),
        }

    def do_force(self, tokens: str) -> int:
        """Has requests get a token of our choice in each step, and notes its log-probability. tokens: JSON, by request;
        "{}" ends it."""
        self.forced, self.told = json.loads(tokens), []
        runner = self.runner
        if self.forced:
            theirs = type(runner).sample

            def sample(logits_output, forward_batch):
                chosen = [self.forced.get(name) for name in forward_batch.rids]
                if None in chosen:
                    return theirs(runner, logits_output, forward_batch)
                return self._choose(logits_output, forward_batch, chosen)

            runner.sample = sample
        else:
            vars(runner).pop("sample", None)
        return len(self.forced)

    def _choose(self, logits_output, forward_batch, chosen):
        """Notes decode steps alone: a prompt that is cut into chunks is sampled after each."""
        import torch

        logits = logits_output.next_token_logits[: len(chosen)]
        wanted = torch.tensor(chosen, dtype=torch.int64, device=logits.device)
        if forward_batch.forward_mode.is_decode():
            found = logits.float().log_softmax(-1).gather(1, wanted[:, None])[:, 0]
            self.told.append((list(forward_batch.rids), found))
        return wanted

    def do_told(self) -> dict:
        """By request, the log-probabilities of its forced tokens so far."""
        found: dict[str, list[float]] = {}
        for names, values in self.told:
            for name, value in zip(names, values.tolist(), strict=True):
                found.setdefault(name, []).append(value)
        return found

    def do_statistics(self) -> dict:
        """Counters by side: the plug-in's statistics() has those of the backend that was made last."""
        found = {}
        for side in (OURS, OURS_AGAIN):
            steps = self.runners[side].attn_backend.steps
            steps.look()
            found[side] = dataclasses.asdict(steps.counters)
        return found

    def do_begin_profile(self) -> int:
        import torch
        from torch.profiler import ProfilerActivity, profile

        torch.cuda.synchronize()
        self.profiler = profile(activities=[ProfilerActivity.CUDA])
        self.profiler.start()
        self.steps.clear()
        return 0

    def do_end_profile(self) -> dict:
        """GPU microseconds by kernel since the begin, and the steps meanwhile."""
        import torch

        torch.cuda.synchronize()
        self.profiler.stop()
        found: dict[str, float] = {}
        for event in self.profiler.events():
            if "CUDA" in str(event.device_type):
                found[event.name] = found.get(event.name, 0.0) + event.time_range.elapsed_us()
        self.profiler = None
        return {"kernels": found, "steps": len(self.steps)}


def with_sides(base: type) -> type:
    """base: SGLang's Scheduler."""

    class SideScheduler(base):
        def __init__(self, *given, **named):
            self.commands = Commands(self)
            super().__init__(*given, **named)

        def process_batch_result(self, batch, result):
            super().process_batch_result(batch, result)
            self.commands.note(batch)

        def bench(self, do: str, reply: str, **given):
            found = getattr(self.commands, f"do_{do}")(**given)
            half = f"{reply}.half"
            pathlib.Path(half).write_text(json.dumps(found))
            os.replace(half, reply)

    return SideScheduler


def run(*given, **named):
    """In the place of SGLang's run_scheduler_process."""
    from sglang.srt.managers import scheduler

    scheduler.Scheduler = with_sides(scheduler.Scheduler)
    scheduler.run_scheduler_process(*given, **named)
