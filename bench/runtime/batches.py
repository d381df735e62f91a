"""Samples of one prompt by Transformers' generate_batch, with and without Trunkline's attention."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers
from clock import now
from rows import median_with_interval
from stepping import WrongResult, turn_order
from trunkline.integrations.transformers import enable

SIDES = ("trunk", "generate_batch")
_OPTIONS = inspect.signature(transformers.ContinuousBatchingConfig).parameters
_PAGE_SIZE = "page_size" if "page_size" in _OPTIONS else "block_size"  # up to 5.17
_CHECKED_TOKENS = 4
_FLASH = "flash_attention_3"


def batches(model: Any, given: Any) -> Iterator[dict]:
    """Two lengths of answers a turn: what they differ by is decode steps alone, whatever prefill takes."""
    inner = model.model
    inner.set_attn_implementation(given.batch_attention or ("sdpa" if inner.device.type == "cpu" else _FLASH))
    generator = torch.Generator().manual_seed(7)
    prompt = torch.randint(0, inner.config.vocab_size, (given.batch_prompt,), generator=generator).tolist()
    checked = _check(inner, given, prompt)
    short, long = given.new_tokens, 4 * given.new_tokens
    seconds: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    read = {}
    for turn in range(-1, given.repeat):  # the first of each compiles, or captures graphs
        for side in turn_order(list(SIDES), turn):
            times, counts = _run(inner, given, prompt, (short, long), side == "trunk")
            if turn >= 0:
                seconds[side].append(times)
            read[side] = counts
    for side, found in seconds.items():
        steps = median_with_interval([1e3 * (b - a) / (long - short) for a, b in found])
        whole = median_with_interval([b for _, b in found])
        counts = read[side]
        yield {
            "suite": "batches",
            "case": f"{given.samples} samples of {given.batch_prompt:,} tokens",
            "method": side,
            "attention": inner.config._attn_implementation,
            "samples": given.samples,
            "prompt": given.batch_prompt,
            "new_tokens": [short, long],
            "page_size": given.batch_page,
            "repeat": given.repeat,
            **{f"whole_ms{name}": round(value, 3) for name, value in zip(("", "_lo", "_hi"), steps)},
            **{f"seconds{name}": round(value, 3) for name, value in zip(("", "_lo", "_hi"), whole)},
            "kv_tokens": counts.get("kv_tokens", 0),
            "kv_tokens_read": counts.get("kv_tokens_read", 0),
            "engine_steps": counts.get("engine_steps", 0),
            **(checked if side == "trunk" else {}),
        }


SUITES: dict[str, Callable[[Any, Any], Iterator[dict]]] = {"batches": batches}


def _check(inner: Any, given: Any, prompt: list[int]) -> dict:
    """Counts of shadow mode, by which both attentions compute each step of a short run."""
    with enable(shadow=True, log_seconds=0) as enabled:
        _generate(inner, given, prompt, _CHECKED_TOKENS)
        found = enabled.statistics()[type(inner).__name__]
    shadow = found.get("shadow") or {}
    if not shadow.get("compared") or shadow["beyond"]:
        raise WrongResult(f"shadow mode: {shadow.get('beyond')} of {shadow.get('compared')} vectors beyond; {found}")
    return {"compared": int(shadow["compared"]), "most": shadow["most"], "tolerance": shadow["tolerance"]}


def _run(
    inner: Any, given: Any, prompt: list[int], lengths: tuple[int, int], ours: bool
) -> tuple[tuple[float, float], dict]:
    def both() -> tuple[float, float]:
        return _generate(inner, given, prompt, lengths[0]), _generate(inner, given, prompt, lengths[1])

    if not ours:
        return both(), {}
    with enable(log_seconds=0) as enabled:
        times = both()
        return times, enabled.statistics()[type(inner).__name__]


def _generate(inner: Any, given: Any, prompt: list[int], new_tokens: int) -> float:
    """Seconds from the prompt to the last answer."""
    longest = -(-(len(prompt) + new_tokens) // given.batch_page) + 1
    # A step may read as many tokens as the cache has, shared ones once for each request: with a smaller cache samples
    # run one after another. A sixth stays free (FIFOScheduler).
    pages = given.samples * longest * 6 // 5
    config = transformers.ContinuousBatchingConfig(
        **{_PAGE_SIZE: given.batch_page},
        num_blocks=pages,
        max_batch_tokens=max(given.batch_tokens, given.samples),
        max_blocks_per_request=longest if inner.device.type == "cuda" else None,
    )
    options = transformers.GenerationConfig(
        max_new_tokens=new_tokens,
        do_sample=True,
        num_return_sequences=given.samples,
        eos_token_id=-1,
        pad_token_id=0,
    )
    began, left = now(), given.samples
    with inner.continuous_batching_context_manager(options, continuous_batching_config=config) as manager:
        manager.add_request(prompt, max_new_tokens=new_tokens, eos_token_id=-1)
        for result in manager:
            if result.error is not None or len(result.generated_tokens) != new_tokens:
                raise WrongResult(f"{result.request_id} ended with {result.error or len(result.generated_tokens)}")
            left -= 1
            if left == 0:
                break
        return now() - began
