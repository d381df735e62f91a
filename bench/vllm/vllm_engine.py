"""vLLM 0.26 in this process, as the measuring loops see an engine."""

import gc
import os
import pathlib
import sys

from drawn import CONTEXT, Request
from host_times import HostTimes
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
}  # fmt: skip
BATCHED_TOKENS = 8192  # vllm serve's default on such GPUs


def engine_arguments(configuration: str, compilation: str, model: str, kv_gib: float, max_num_seqs: int) -> dict:
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
        "seed": 0,
        "disable_log_stats": True,
        **COMPILATIONS[compilation],
        **CONFIGURATIONS[configuration][0],
    }


def draw_weights(model, std: float) -> int:
    """N(0, std) for matrices, the same in all engines, and 1 for norms: vLLM's dummy weights of +-1e-3 make all keys
    weigh the same, so that an error in attention would not show."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            parameter.data.normal_(0, std, generator=generator)
        else:
            parameter.data.fill_(1)
    return count_weights(model)


def reload_drawn(worker, std: float, number: int, change: float) -> None:
    """Loads draw_weights' weights plus N(0, std * change) drawn for this number. All are drawn anew, because a sleep of
    level 2 keeps none."""
    import torch

    model = worker.model_runner.get_model()
    base, changes = (torch.Generator(device="cuda").manual_seed(seed) for seed in (1, 1000 + number))

    def drawn():
        for name, parameter in model.named_parameters():
            made = torch.ones_like(parameter.data)
            if parameter.dim() >= 2:
                made.normal_(0, std, generator=base)
                made += torch.empty_like(made).normal_(0, std * change, generator=changes)
            yield name, made

    with torch.no_grad():  # the loader copies into parameters, and those of norms require gradients
        worker.reload_weights(weights_iterator=drawn(), is_checkpoint_format=False)


def count_weights(model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


class VllmEngine:
    """One LLM. Starting it takes the whole of the model's memory and of the KV cache's."""

    def __init__(self, given, **more):
        """more: further arguments of LLM."""
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
            share(pathlib.Path(given.weights), given.owner, lambda model: draw_weights(model, given.std))
        chosen = engine_arguments(given.config, given.compilation, str(folder), given.kv_gib, given.max_num_seqs)
        self.llm = vllm.LLM(**chosen | more)
        self.engine = self.llm.llm_engine
        drawn = count_weights if given.weights else lambda model: draw_weights(model, given.std)
        self.parameters = self.llm.apply_model(drawn)[0]
        self.std = given.std
        self.host, self.done = HostTimes(), Scheduled()
        self.llm.apply_model(self.host.watch_builds)
        self.llm.collective_rpc(lambda worker: self.host.watch_preparing(worker.model_runner))
        torch.cuda.synchronize()
        gc.collect()
        gc.freeze()  # as vLLM's own engine process does

    def info(self) -> dict:
        config = self.engine.vllm_config
        return {
            "device": self.torch.cuda.get_device_name(),
            "vllm": self.vllm.__version__,
            "torch": self.torch.__version__,
            "cuda": self.torch.version.cuda,
            "runner": "V2" if config.use_v2_model_runner else "V1",
            "compilation_mode": int(config.compilation_config.mode or 0),
            "graphs": str(config.compilation_config.cudagraph_mode).rpartition(".")[2],
            "async_scheduling": bool(config.scheduler_config.async_scheduling),
            "cascade": not config.model_config.disable_cascade_attn,
            "backend": self.backend(),
            "block_size": config.cache_config.block_size,
            "kv_blocks": config.cache_config.num_gpu_blocks,
            "parameters": self.parameters,
            "layers": self.shape["num_hidden_layers"],
        }

    def backend(self) -> str:
        """The class that computes attention in the first layer."""

        def first(model):
            found = (type(m.impl) for m in model.modules() if hasattr(m, "impl") and hasattr(m, "kv_cache_dtype"))
            return next((f"{kind.__module__}.{kind.__qualname__}" for kind in found), "unknown")

        return self.llm.apply_model(first)[0]

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
        self.torch.cuda.synchronize()

    def forget(self) -> bool:
        """Empties the prefix cache; False where requests still hold pages."""
        self.abort([])
        return bool(self.llm.reset_prefix_cache())

    def watch_steps(self) -> None:
        """Begins the record of steps in `done`."""
        self.done.watch(self.engine.engine_core.engine_core.scheduler)

    def free_bytes(self) -> int:
        """Free memory of the GPU."""
        return self.torch.cuda.mem_get_info()[0]

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
        self.llm.collective_rpc(reload_drawn, args=(self.std, number, change))
        self.synchronize()

    def kernels(self, step, steps: int) -> dict[str, float]:
        """GPU microseconds by kernel while `step` is called until `steps` steps had output."""
        from torch.profiler import ProfilerActivity, profile

        self.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as recorded:
            done = 0
            while done < steps:
                done += bool(step())
            self.synchronize()
        found: dict[str, float] = {}
        for event in recorded.events():
            if "CUDA" in str(event.device_type):
                found[event.name] = found.get(event.name, 0.0) + event.time_range.elapsed_us()
        return found

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

    def statistics(self) -> dict:
        """The plug-in's counters, where it is loaded and keeps some; of the port of FCA, its steps by path."""
        forest = sys.modules.get("forest_cascade.backend")
        if forest:
            return {"forest_cascade": dict(forest.counters)}
        module = sys.modules.get("trunkline.integrations.vllm")
        return module.statistics() if hasattr(module, "statistics") else {}
