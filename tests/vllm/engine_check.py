"""Drives a real vLLM engine with the plug-in in shadow mode, and fails where its results differ from vLLM's own.

One configuration a process, on a machine with a GPU, vLLM and the trunkline wheel:
    python tests/vllm/engine_check.py --runner V2 --compilation default
A small model with random weights is made on the spot. Requests come and go while others decode: shared prefixes at
several depths, chunked prefill, aborts, a KV cache too small for all (preemption, eviction, pages used anew at once).
Prints one JSON line; the exit status is 1 where something is wrong.
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "engine"))
import judging  # noqa: E402
import small_model  # noqa: E402
from small_model import LAYERS  # noqa: E402
from traffic import OVERFLOWING_TOKEN, Traffic  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runner", choices=["V1", "V2"], default="V2")
    parser.add_argument("--compilation", choices=["eager", "fulldecode", "default"], default="fulldecode")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument(
        "--kv-cache-dtype", default="auto", help="fp8: e4m3, the one type of 8 bits that vLLM's kernel has"
    )
    parser.add_argument("--heads", type=int, nargs=2, default=[32, 8], metavar=("QO", "KV"))
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--blocks", type=int, default=900, help="pages of 16 tokens")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speculative", default="", help="a method that drafts without a model: ngram, ngram_gpu")
    parser.add_argument("--sleep", action="store_true", help="sleep and wake up in the middle, as RL trainers do")
    parser.add_argument("--override", action="store_true", help="in place of FLASH_ATTN, without a flag")
    parser.add_argument(
        "--overflow", action="store_true", help="one request in ten has a token of infinite activations"
    )
    parser.add_argument("--no-shadow", action="store_true", help="serve Trunkline's results, without a comparison")
    return parser.parse_args()


def environment(options: argparse.Namespace) -> None:
    os.environ.update(
        {
            "TRUNKLINE_VLLM": "override" if options.override else "custom",
            "TRUNKLINE_VLLM_SHADOW": "0" if options.no_shadow else "1",
            "TRUNKLINE_VLLM_LOG_SECONDS": "2",
            "TRUNKLINE_VLLM_FP8_KV": "1",
            "VLLM_USE_V2_MODEL_RUNNER": "1" if options.runner == "V2" else "0",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
    )


def spread_weights(model) -> bool:
    """vLLM's dummy weights are so small that attention is all but uniform."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data.normal_(0, 0.05, generator=generator)
        else:
            parameter.data.fill_(1)
    return True


def write_scales(model) -> bool:
    """Scales as a checkpoint may have them, after graphs were captured: they are read where they are."""
    for module in model.modules():
        if hasattr(module, "_k_scale"):
            for name, value in (("_q_scale", 0.5), ("_k_scale", 0.25), ("_v_scale", 0.125)):
                getattr(module, name).fill_(value)
    return True


def overflow_token(model) -> bool:
    model.model.embed_tokens.weight.data[OVERFLOWING_TOKEN] = float("inf")
    return True


def drive(engine, traffic: Traffic, steps: int) -> dict:
    from vllm import SamplingParams

    live: dict[str, int] = {}
    prefix = f"r{time.monotonic_ns()}."
    made = finished = aborted = most = tokens = 0
    for step in range(steps):
        while len(live) < 48 and (step % 100 < 60) and traffic.event() < 0.6:
            wanted, name = traffic.wanted(), f"{prefix}{made}"
            made += 1
            sampling = SamplingParams(max_tokens=wanted, temperature=0.0, ignore_eos=True, detokenize=False)
            engine.add_request(name, {"prompt_token_ids": traffic.prompt()}, sampling)
            live[name] = wanted
        if live and traffic.event() < 0.05:
            gone = traffic.pick(sorted(live))
            engine.abort_request([gone])
            del live[gone]
            aborted += 1
        most = max(most, len(live))
        for output in engine.step():
            if output.finished and output.request_id in live:
                got = len(output.outputs[0].token_ids)
                assert got == live.pop(output.request_id), "a request ended early"
                finished += 1
                tokens += got
    engine.abort_request(sorted(live))
    while engine.has_unfinished_requests():
        engine.step()
    return {"requests": made, "finished": finished, "aborted": aborted, "most_at_once": most, "tokens": tokens}


def block_bytes(options: argparse.Namespace) -> int:
    """Of a page of 16 tokens in all layers."""
    element = 1 if options.kv_cache_dtype.startswith("fp8") else 2
    return 16 * options.heads[1] * options.head_dim * 2 * element * LAYERS


def drafts(method: str) -> dict:
    return {"method": method, "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}


def main() -> int:
    options = arguments()
    environment(options)
    from vllm import LLM

    if options.overflow:
        from overflow import compare_sound_rows

        compare_sound_rows()

    compilation = {
        "eager": {"enforce_eager": True},
        "fulldecode": {"compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}},
        "default": {},
    }[options.compilation]
    llm = LLM(
        model=str(small_model.folder(options.heads, options.head_dim, options.dtype)),
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype=options.dtype,
        kv_cache_dtype=options.kv_cache_dtype,
        max_model_len=8192,
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        kv_cache_memory_bytes=options.blocks * block_bytes(options),
        gpu_memory_utilization=0.2,
        disable_log_stats=False,
        tensor_parallel_size=options.tensor_parallel,
        **({"speculative_config": drafts(options.speculative)} if options.speculative else {}),
        **({"enable_sleep_mode": True} if options.sleep else {}),
        **({} if options.override else {"attention_backend": "CUSTOM"}),
        **compilation,
    )
    llm.apply_model(spread_weights)
    if options.kv_cache_dtype.startswith("fp8"):
        llm.apply_model(write_scales)
    if options.overflow:
        llm.apply_model(overflow_token)
    traffic = Traffic(options.seed, options.overflow)
    done = drive(llm.llm_engine, traffic, options.steps)
    if options.sleep:
        llm.sleep(level=1)
        llm.wake_up()
        done = {"before_sleep": done, **drive(llm.llm_engine, traffic, options.steps)}
    found = statistics_of(llm)
    wrong = judge(found, options)
    preemptions = next((m.value for m in llm.get_metrics() if m.name == "vllm:num_preemptions"), None)
    told = {"preemptions": preemptions, "ranks_differ": ranks_differ(found), "statistics": found, "wrong": wrong}
    print(json.dumps({**vars(options), **done, **told}))
    return int(bool(wrong))


def worker_statistics(worker) -> dict:
    from trunkline.integrations.vllm import statistics

    return statistics()


def statistics_of(llm) -> list[dict]:
    return llm.collective_rpc(worker_statistics)


def ranks_differ(found: list[dict]) -> dict[str, int]:
    """The largest count of all ranks less the smallest, over all groups of layers: at least as many steps were decided
    differently. No fault: each rank decides by its own GPU's report."""
    made = {}
    for name in ("mixed_steps", "engine_steps"):
        counts = [sum(counted[name] for counted in groups.values()) for groups in found]
        made[name] = max(counts, default=0) - min(counts, default=0)
    return made


def judge(found: list[dict], options: argparse.Namespace) -> list[str]:
    return judging.judge(found, shadow=not options.no_shadow, overflow=options.overflow)


if __name__ == "__main__":
    sys.exit(main())
