"""Drives a real SGLang engine with the plug-in in shadow mode, and fails where its results differ from SGLang's own.

One configuration a process, on a machine with a GPU, SGLang and the trunkline wheel:
    python tests/sglang/engine_check.py --page-size 1
A small model with random weights is made on the spot. Requests come and go while others decode: shared prefixes at
several depths, chunked prefill, aborts, a KV cache too small for all (retraction, eviction, slots used anew at once);
then groups of samples of one prompt, a rollout, and prompts that share nothing. Prints one JSON line; the exit status
is 1 where something is wrong.
"""

import argparse
import asyncio
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "engine"))
import judging  # noqa: E402
import small_model  # noqa: E402
from traffic import Traffic  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--page-size", type=int, default=1)
    parser.add_argument("--eager", action="store_true", help="without graphs")
    parser.add_argument("--no-overlap", action="store_true", help="without overlap scheduling")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--kv-cache-dtype", default="auto", help="fp8_e4m3, the one type of 8 bits that fa3 has")
    parser.add_argument("--heads", type=int, nargs=2, default=[32, 8], metavar=("QO", "KV"))
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument("--requests", type=int, default=160, help="that come and go")
    parser.add_argument("--samples", type=int, default=24, help="of the group that shares one prompt")
    parser.add_argument("--kv-tokens", type=int, default=16384, help="of the KV cache")
    parser.add_argument("--scale", type=float, default=1.0, help="of the prompts' lengths")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ngram", action="store_true", help="drafts in chains, without a model")
    parser.add_argument("--beams", action="store_true", help="two searches by beams, too; SGLang wants --page-size 1")
    parser.add_argument("--override", action="store_true", help="in place of fa3, without a flag")
    parser.add_argument("--no-shadow", action="store_true", help="serve Trunkline's results, without a comparison")
    parser.add_argument("--limit-s", type=float, default=240.0, help="of all requests together")
    return parser.parse_args()


def environment(options: argparse.Namespace) -> None:
    os.environ.update(
        {
            "TRUNKLINE_SGLANG": "override" if options.override else "flag",
            "TRUNKLINE_SGLANG_SHADOW": "0" if options.no_shadow else "1",
            "TRUNKLINE_SGLANG_LOG_SECONDS": "2",
            "TRUNKLINE_SGLANG_FP8_KV": "1",
            "HF_HUB_OFFLINE": "1",
        }
    )


def engine_arguments(options: argparse.Namespace, model: str) -> dict:
    drafts = {
        "speculative_algorithm": "NGRAM",
        "speculative_num_draft_tokens": 4,
        "speculative_ngram_max_bfs_breadth": 1,
    }
    return {
        "model_path": model,
        "device": "cuda",
        "skip_tokenizer_init": True,
        "dtype": options.dtype,
        "kv_cache_dtype": options.kv_cache_dtype,
        "attention_backend": "fa3" if options.override else "trunkline",
        "sampling_backend": "pytorch",
        "page_size": options.page_size,
        "context_length": 8192,
        "max_running_requests": 64,
        "max_total_tokens": options.kv_tokens,
        "mem_fraction_static": 0.5,
        "chunked_prefill_size": 1024,
        "schedule_conservativeness": 0.1,  # admits more than fits, so that requests are retracted
        "cuda_graph_max_bs_decode": 64,
        "disable_cuda_graph": options.eager,
        "disable_overlap_schedule": options.no_overlap,
        "tp_size": options.tensor_parallel,
        "random_seed": options.seed,
        "log_level": "info",
        **(drafts if options.ngram else {}),
    }


class Run:
    """Requests in one engine, and what became of them."""

    def __init__(self, engine, limit_s: float) -> None:
        self._engine, self._end = engine, time.monotonic() + limit_s
        self._made = 0
        self._wanted: dict[str, int] = {}
        self.live: dict[str, asyncio.Task] = {}
        self.finished = self.aborted = self.tokens = self.most = 0

    def begin(self, prompt: list[int], wanted: int, temperature: float = 0.0, beams: int = 1) -> str:
        name = f"r{self._made}"
        self._made += 1
        self._wanted[name] = wanted
        self.live[name] = asyncio.get_running_loop().create_task(
            self._request(name, prompt, wanted, temperature, beams)
        )
        self.most = max(self.most, len(self.live))
        return name

    async def _request(self, name: str, prompt: list[int], wanted: int, temperature: float, beams: int) -> None:
        sampling = {"max_new_tokens": wanted, "temperature": temperature, "ignore_eos": True}
        sampling |= {"beam_width": beams} if beams > 1 else {}
        answer = await self._engine.async_generate(input_ids=prompt, sampling_params=sampling, rid=name)
        meta = answer["meta_info"]
        del self.live[name]
        if (meta.get("finish_reason") or {}).get("type") == "abort":
            self.aborted += 1
            return
        assert meta["completion_tokens"] == wanted, f"{name} ended early: {meta}"
        self.finished += 1
        self.tokens += wanted

    def abort(self, name: str) -> None:
        self._engine.tokenizer_manager.abort_request(rid=name)

    async def all_done(self) -> None:
        while self.live:
            done, _ = await asyncio.wait(list(self.live.values()), timeout=1.0)
            for task in done:
                task.result()
            if time.monotonic() > self._end:
                raise TimeoutError(f"{len(self.live)} requests have not ended in time: {sorted(self.live)[:5]}")

    async def come_and_go(self, traffic: Traffic, requests: int) -> None:
        """So many requests, at most 48 at once, one in six aborted while it waits or runs."""
        for number in range(requests):
            while len(self.live) >= 48:
                await asyncio.wait(list(self.live.values()), return_when=asyncio.FIRST_COMPLETED, timeout=1.0)
                if time.monotonic() > self._end:
                    raise TimeoutError("requests do not end")
            self.begin(traffic.prompt(), traffic.wanted())
            if traffic.event() < 0.3:
                await asyncio.sleep(0.02)
            # The last one may not have been sent yet; short ones may end before they hear of it.
            long = [name for name in list(self.live)[:-1] if self._wanted[name] > 40]
            if number % 6 == 5 and long:
                self.abort(traffic.pick(long))
        await self.all_done()

    async def groups(self, traffic: Traffic, samples: int, with_beams: bool) -> None:
        """Samples of one prompt; a rollout of a third as many prompts; two searches by beams; prompts that share
        nothing."""
        prompt = traffic.prompt() + traffic.prompt()
        for _ in range(samples):
            self.begin(prompt, 60, temperature=1.0)
        await self.all_done()
        for prompt in [traffic.prompt() for _ in range(samples // 3)]:
            for sample in range(4):
                self.begin(prompt, 20 + 17 * sample, temperature=1.0)
        await self.all_done()
        for _ in range(2 * with_beams):
            self.begin(traffic.prompt(), 24, beams=max(2, samples // 3))
        await self.all_done()
        for seed in range(samples * 2 // 3):
            self.begin(Traffic(1000 + seed, scale=traffic.scale).prompt(), 40)
        await self.all_done()

    def told(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("finished", "aborted", "most", "tokens")}


def statistics_of(engine) -> list[dict]:
    """Of rank 0 of each replica, from what the scheduler tells of itself."""
    states = engine.get_server_info()["internal_states"]
    return [state.get("trunkline", {}) for state in states]


def main() -> int:
    options = arguments()
    environment(options)
    model = small_model.folder(options.heads, options.head_dim, options.dtype)
    small_model.write_weights(model, options.heads, options.head_dim, options.dtype)
    import sglang

    engine = sglang.Engine(**engine_arguments(options, str(model)))
    run, traffic = Run(engine, options.limit_s), Traffic(options.seed, scale=options.scale)
    began = time.monotonic()

    async def all_of_it() -> None:
        await run.come_and_go(traffic, options.requests)
        await run.groups(traffic, options.samples, options.beams)

    engine.loop.run_until_complete(all_of_it())
    found = statistics_of(engine)
    wrong = judging.judge(found, shadow=not options.no_shadow)
    if not run.finished or not run.aborted:
        wrong.append(f"{run.finished} requests finished and {run.aborted} were aborted; expected: some of each")
    told: dict = {"sglang": sglang.__version__, "seconds": round(time.monotonic() - began, 1), "statistics": found}
    print(json.dumps({**vars(options), **told, **run.told(), "wrong": wrong}), flush=True)
    engine.shutdown()
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
