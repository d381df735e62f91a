"""Whether requests have the same tokens and log-probabilities, bit for bit, alone and in batches of vLLM.

On a machine with a GPU, vLLM and the trunkline wheel; --backend FLASH_ATTN asks the same of vLLM's own kernel:
    python tests/vllm/batch_invariance.py
VLLM_BATCH_INVARIANT makes all of the model independent of the batch, so that one bit of attention would show. Requests
of a few trees run each alone, all at once, and as they come and go beside prefills. Prints one JSON line; the exit
status is 1 where a bit differs, or where nothing was shared.

Prompts of 16 n + 1 tokens are cut by a token: where all but the last one are in the prefix cache, vLLM makes that one
a decode row, which Trunkline runs (docs/guides/vllm.md). --any-length keeps them.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable

import engine_check
import small_model  # of tests/engine, which engine_check puts into the path

PAGE_SIZE = 16
TOKENS = 40  # of an answer: some pass a multiple of 1,024, where plans begin another chunk


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="CUSTOM")
    parser.add_argument("--runner", choices=["V1", "V2"], default="V2")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3, help="of requests that come and go, each in another order")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--any-length", action="store_true")
    model = {"dtype": "bfloat16", "heads": [32, 8], "head_dim": 128}
    fixed = {"override": False, "no_shadow": True}
    return argparse.Namespace(**vars(parser.parse_args()), **model, **fixed)


def answers(engine, prompts: list[list[int]], arrivals: Iterable[int], at_once: int) -> dict[int, list]:
    """The tokens of each prompt with their log-probabilities. arrivals: prompts' indices in their order; at_once: that
    come in a step, as long as some are left."""
    from vllm import SamplingParams

    sampling = SamplingParams(max_tokens=TOKENS, temperature=0.0, ignore_eos=True, detokenize=False, logprobs=0)
    waiting, found = list(arrivals), {}
    while waiting or engine.has_unfinished_requests():
        for which in waiting[:at_once]:
            engine.add_request(str(which), {"prompt_token_ids": prompts[which]}, sampling)
        waiting = waiting[at_once:]
        for output in engine.step():
            if output.finished:
                answer = output.outputs[0]
                values = [entry[token].logprob for token, entry in zip(answer.token_ids, answer.logprobs, strict=True)]
                found[int(output.request_id.split("-")[0])] = list(zip(answer.token_ids, values, strict=True))
    return found


def differences(alone: dict[int, list], others: dict[int, list]) -> list[str]:
    """The first token that differs of each answer that does."""
    found = []
    for which, expected in alone.items():
        places = [i for i, (a, b) in enumerate(zip(expected, others[which], strict=True)) if a != b]
        if places:
            first = places[0]
            found.append(f"request {which}, token {first}: {others[which][first]}, alone {expected[first]}")
    return found


def main() -> int:
    options = arguments()
    engine_check.environment(options)
    os.environ["VLLM_BATCH_INVARIANT"] = "1"
    from vllm import LLM

    llm = LLM(
        model=str(small_model.folder(options.heads, options.head_dim, options.dtype)),
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype=options.dtype,
        max_model_len=8192,
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        kv_cache_memory_bytes=1 << 30,
        gpu_memory_utilization=0.2,
        attention_backend=options.backend,
        enforce_eager=options.eager,
    )
    llm.apply_model(engine_check.spread_weights)
    engine = llm.llm_engine
    traffic = engine_check.Traffic(options.seed)
    prompts = [traffic.prompt() for _ in range(options.requests)]
    if not options.any_length:
        prompts = [prompt[:-1] if len(prompt) % PAGE_SIZE == 1 < len(prompt) else prompt for prompt in prompts]
    alone: dict[int, list] = {}
    for which in range(len(prompts)):
        llm.reset_prefix_cache()
        alone |= answers(engine, prompts, [which], 1)
    wrong = []
    # The second time every prompt is in the prefix cache, so that all decode together from the first step on.
    for name, at_once in {"together": len(prompts), "cached": len(prompts)}.items():
        wrong += [f"{name}: {text}" for text in differences(alone, answers(engine, prompts, alone, at_once))]
    for round_ in range(options.rounds):
        llm.reset_prefix_cache()
        order = sorted(alone, key=lambda _: traffic.event())
        found = answers(engine, prompts, order, 1 + round_)
        wrong += [f"round {round_}: {text}" for text in differences(alone, found)]
    compared = (2 + options.rounds) * len(prompts) * TOKENS
    counted = engine_check.statistics_of(llm) if options.backend == "CUSTOM" else []
    for rank, groups in enumerate(counted):
        for name, group in groups.items():
            if not group["shared_steps"] or group["unplanned"]:
                wrong.append(
                    f"rank {rank}, {name}: {group['shared_steps']} steps share, {group['unplanned']} unplanned"
                )
    print(json.dumps({**vars(options), "tokens": compared, "statistics": counted, "wrong": wrong}))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
