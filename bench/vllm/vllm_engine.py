"""vLLM's engine in this process, as the measuring loops see it. Its workers are here, too, or a process a GPU."""

import gc
import os
import pathlib
from collections.abc import Callable

import on_rank
import weights
from drawn import CONTEXT, Request
from host_times import KINDS
from models import shape_of, write_model
from scheduled import Scheduled
from shared_weights import share

CONFIGURATIONS = {  # by name: arguments of LLM, environment
    "default": ({}, {}),
    "trunkline": ({"attention_backend": "CUSTOM"}, {}),
    "again": ({}, {}),  # what is said of equal engines
    "cascade": ({"disable_cascade_attn": False}, {"VLLM_USE_V2_MODEL_RUNNER": "0"}),
    # Our port of Forest Cascade Attention. Piecewise graphs are given, because an engine that turns to them only
    # after its builders are made splits the steps that are left to vLLM's kernel as for full graphs.
    "forest": (
        {"attention_backend": "CUSTOM", "compilation_config": {"cudagraph_mode": "PIECEWISE"}},
        {"TRUNKLINE_VLLM": "off"},
    ),
}
COMPILATIONS = {
    "default": {},
    "fulldecode": {"compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}},
    "eager": {"enforce_eager": True},
}
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "TRUNKLINE_VLLM_FP8_KV": "1",  # with --kv-cache-dtype; caches of 16 bits are Trunkline's without it
}  # fmt: skip
BATCHED_TOKENS = 8192  # vllm serve's default on such GPUs


def engine_arguments(
    configuration: str,
    compilation: str,
    model: str,
    kv_gib: float,
    max_num_seqs: int,
    tensor_parallel: int = 1,
    kv_cache_dtype: str = "auto",
) -> dict:
    """Arguments of LLM. The KV cache's size is given and the share of memory next to nothing, because vLLM would refuse
    to start, or size its cache by what other engines on the GPU happen to hold at that moment."""
    return {
        "model": model,
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "dtype": "bfloat16",
        "max_model_len": CONTEXT,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": BATCHED_TOKENS,
        "gpu_memory_utilization": 0.02,
        "kv_cache_memory_bytes": int(kv_gib * 2**30),
        "kv_cache_dtype": kv_cache_dtype,
        "tensor_parallel_size": tensor_parallel,
        "seed": 0,
        "disable_log_stats": True,
        **COMPILATIONS[compilation],
        **CONFIGURATIONS[configuration][0],
    }


class HostTimesOfRanks:
    """HostTimes in all workers of an engine."""

    def __init__(self, on_ranks: Callable[[Callable], list]):
        self.on_ranks = on_ranks
        on_ranks(on_rank.watch_host)

    def forget(self) -> None:
        self.on_ranks(on_rank.forget_host)

    def medians(self) -> dict[str, float | None]:
        """Those of the slowest rank, for which a step waits."""
        found = self.on_ranks(on_rank.host_medians)
        return {kind: max((times[kind] for times in found if times[kind]), default=None) for kind in KINDS}


def require_one_gpu(given) -> None:
    """Raises ValueError for a configuration that sets up the engine's process alone, where workers are others."""
    if given.tensor_parallel > 1 and (given.weights or given.config == "forest"):
        what = "--weights (engines that share weights)" if given.weights else "--config forest"
        raise ValueError(f"{what} with --tensor-parallel {given.tensor_parallel}; supported: 1")


class VllmEngine:
    """One LLM. Starting it takes the whole of the model's memory and of the KV cache's."""

    def __init__(self, given, **more):
        """more: further arguments of LLM."""
        require_one_gpu(given)
        _, variables = CONFIGURATIONS[given.config]
        os.environ.update(ENVIRONMENT | variables)
        self.shape = shape_of(given.model, given.layers)
        folder = write_model(pathlib.Path(given.scratch) / f"{given.config}_model", self.shape)
        import torch
        import vllm

        if given.config == "forest":
            from forest_cascade.register import register

            register()
        self.torch, self.vllm = torch, vllm
        if given.weights:
            share(pathlib.Path(given.weights), given.owner, lambda model: weights.draw_weights(model, given.std))
        chosen = engine_arguments(
            given.config,
            given.compilation,
            str(folder),
            given.kv_gib,
            given.max_num_seqs,
            given.tensor_parallel,
            given.kv_cache_dtype,
        )
        self.llm = vllm.LLM(**chosen | more)
        self.engine = self.llm.llm_engine
        drawn = self.on_ranks(weights.count) if given.weights else self.on_ranks(weights.draw, given.std)
        self.parameters = sum(drawn)
        self.std = given.std
        self.host, self.done = HostTimesOfRanks(self.on_ranks), Scheduled()
        self.synchronize()
        self.on_ranks(on_rank.freeze_heap)
        gc.collect()
        gc.freeze()  # the heap of the process that schedules, where workers are others

    def on_ranks(self, function: Callable, *arguments) -> list:
        """Calls a function of a module in each worker, which it gets first; returns the results by rank."""
        return self.llm.collective_rpc(function, args=arguments)

    def info(self) -> dict:
        config, seen = self.engine.vllm_config, self.on_ranks(on_rank.describe)[0]
        return {
            "device": seen["device"],
            "vllm": self.vllm.__version__,
            "torch": self.torch.__version__,
            "cuda": self.torch.version.cuda,
            "runner": "V2" if config.use_v2_model_runner else "V1",
            "compilation_mode": int(config.compilation_config.mode or 0),
            "graphs": str(config.compilation_config.cudagraph_mode).rpartition(".")[2],
            "async_scheduling": bool(config.scheduler_config.async_scheduling),
            "cascade": not config.model_config.disable_cascade_attn,
            "backend": seen["backend"],
            "block_size": config.cache_config.block_size,
            "kv_blocks": config.cache_config.num_gpu_blocks,
            "parameters": self.parameters,
            "layers": self.shape["num_hidden_layers"],
            "tensor_parallel": config.parallel_config.tensor_parallel_size,
        }

    def add(self, key: str, request: Request, temperature: float) -> None:
        room = CONTEXT - len(request.prompt)
        if room < 1:
            raise ValueError(f"a prompt of {len(request.prompt)} tokens leaves none of {CONTEXT} for an answer")
        self.submit(key, request.prompt, temperature=temperature, max_tokens=min(request.max_tokens, room))

    def submit(self, key: str, prompt: list[int], **parameters) -> None:
        from vllm.sampling_params import RequestOutputKind

        sampling = self.vllm.SamplingParams(
            ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA, **parameters
        )
        self.engine.add_request(key, {"prompt_token_ids": prompt}, sampling)

    def step(self) -> list[tuple[str, list[int], bool]]:
        return [(out.request_id, list(out.outputs[0].token_ids), out.finished) for out in self.engine.step()]

    def abort(self, keys: list[str]) -> None:
        """Ends requests, and runs what was queued for them."""
        self.engine.abort_request(keys)
        core = self.engine.engine_core.engine_core
        for _ in range(64):
            if not core.scheduler.has_requests() and not core.batch_queue:
                break
            self.engine.step()
        self.synchronize()

    def synchronize(self) -> None:
        self.on_ranks(on_rank.synchronize)

    def forget(self) -> bool:
        """Empties the prefix cache; False where requests still hold pages."""
        self.abort([])
        return bool(self.llm.reset_prefix_cache())

    def watch_steps(self) -> None:
        """Begins the record of steps in `done`."""
        self.done.watch(self.engine.engine_core.engine_core.scheduler)

    def free_bytes(self) -> int:
        """Free memory of the GPU that has least."""
        return min(self.on_ranks(on_rank.free_bytes))

    def sleep(self, level: int) -> None:
        """Frees the memory of weights and KV cache, and empties the prefix cache. Level 1 keeps the weights in the
        host's memory, level 2 drops them."""
        self.abort([])
        self.llm.sleep(level=level)

    def wake_up(self, tag: str) -> None:
        """Allocates the memory of "weights" or "kv_cache" again; after both, requests are scheduled again."""
        self.llm.wake_up(tags=[tag])
        self.synchronize()

    def new_weights(self, number: int, change: float) -> None:
        """Loads the first weights plus a change that the number determines, through the engine's reload_weights. The
        engine's weight transfer is no option here: it needs a second process."""
        self.on_ranks(weights.reload_drawn, self.std, number, change)
        self.synchronize()

    def kernels(self, step, steps: int) -> list[dict[str, float]]:
        """By rank, the GPU's microseconds by kernel while `step` is called until `steps` steps had output."""
        self.on_ranks(on_rank.begin_profile)
        done = 0
        while done < steps:
            done += bool(step())
        return self.on_ranks(on_rank.end_profile)

    def log_probabilities(self, prompts: list[list[int]], forced: list[int], steps: int) -> list[list[float]]:
        """For each prompt, the log-probability before any mask of the forced token, `steps` times in a row: all engines
        get the same text, whatever they would have chosen."""
        found: list[list[float]] = [[] for _ in prompts]
        for i, (prompt, token) in enumerate(zip(prompts, forced, strict=True)):
            parameters = {"max_tokens": steps, "logprobs": 1, "allowed_token_ids": [token], "temperature": 0.0}
            self.submit(f"check.{i}", prompt, **parameters)
        while self.engine.has_unfinished_requests():
            for out in self.engine.step():
                i = int(out.request_id.partition(".")[2])
                for place in out.outputs[0].logprobs or []:
                    found[i].append(place[forced[i]].logprob)
        return found

    def statistics(self) -> list[dict]:
        """By rank, the plug-in's counters, where it is loaded and keeps some."""
        return self.on_ranks(on_rank.statistics)
