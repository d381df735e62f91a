"""Searches by TreeGenerator beside Transformers' generate(): beam search, best-of-n, Monte Carlo tree search."""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import trunkline
from clock import Clock, now
from references import LOG_PROBABILITY_TOLERANCE, larger, token_log_probabilities
from rows import median_with_interval
from stepping import WrongResult, turn_order
from transformers import AttentionInterface, LogitsProcessor, LogitsProcessorList
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

TEXT = """Here is how a language model serves many users at once. The model reads a prompt, and keeps a key and a value
of each token in a cache. Then it writes an answer token by token, and for each it reads the whole cache again. When
several answers to one prompt are wanted, their caches begin alike: the prompt is the same for all of them. A program
that knows this reads the common part once for all answers, and only the parts that differ one by one. Reading memory is
what takes the time, so this is faster, and the answers stay the same. Explain to a child, with an example from a
school, why this is faster."""
SIDES = ("trunk", "generate")
WIDTH, STEP_TOKENS = 4, 4  # of Monte Carlo tree search
_EXPANSIONS = 8  # of it that generate() is timed for
_CHECKED = 4  # results whose scores are compared with forced log-probabilities
_SDPA = "timed_sdpa"
_clock: list[Clock] = []


def _timed_sdpa(*arguments: Any, **options: Any) -> Any:
    with _clock[-1].part("attention"):
        return sdpa_attention_forward(*arguments, **options)


AttentionInterface.register(_SDPA, _timed_sdpa)
AttentionMaskInterface.register(_SDPA, sdpa_mask)


class _Stamps(LogitsProcessor):
    """When each step's logits were there."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if scores.is_cuda:
            torch.cuda.synchronize()
        self.at.append(now())
        return scores


class _TimedAttention:
    """A session's attention, whose runs are a part of the clock's."""

    def __init__(self, inner: Any, clock: Clock) -> None:
        self._inner, self._clock = inner, clock
        self.close = inner.close

    def plan_live(self, live: Any) -> str:
        with self._clock.part("plan"):
            return self._inner.plan_live(live)

    def run(self, *arguments: Any, **options: Any) -> Any:
        with self._clock.part("attention"):
            return self._inner.run(*arguments, **options)


class Run(argparse.Namespace):
    """One side's run: results (tokens, score), seconds, first_s (until the first step's logits), step_ms, attention_ms
    and kv_bytes. Of TreeGenerator also scored (tokens, log-probability), paths (texts that a tree search expanded) and
    held (tokens of all sequences without children)."""


def by_trunk(model: Any, given: Any, controller: Any, prompt: list[int], max_tokens: int) -> Run:
    clock = Clock(torch.device(model.device))
    with trunkline.TreeGenerator(
        model.model, None, controller, max_tokens=max_tokens, cache_prompts=False, policy="trunk",
        workers=given.workers, profile=given.profile,
    ) as generator:  # fmt: skip
        session = generator.session
        session.attention = _TimedAttention(session.attention, clock)
        stamps: list[float] = []
        inner = session.step

        def step(*arguments: Any, **options: Any) -> Any:
            logits = inner(*arguments, **options)
            stamps.append(now())
            return logits

        session.step = step
        began = now()
        with clock.whole() as parts:
            results = generator.generate(prompt)
        tree = session.tree
        return Run(
            results=[(result.tokens, result.score) for result in results],
            scored=_finished(tree, len(prompt)),
            kv_bytes=session.counts["max_pages"] * tree.page_size * token_bytes(model),
            paths=_expanded(tree) if isinstance(controller, trunkline.MonteCarloTreeSearch) else [],
            held=_held(tree, len(prompt)),
            **_times(parts, began, stamps),
        )


def by_generate(model: Any, prompt: list[int], **options: Any) -> Run:
    """Transformers' generate() with scaled_dot_product_attention."""
    clock, stamps = Clock(torch.device(model.device)), _Stamps()
    _clock.append(clock)
    before = model.model.config._attn_implementation
    ids = torch.as_tensor([prompt], device=model.device)
    began = now()
    try:
        model.model.config._attn_implementation = _SDPA
        with clock.whole() as parts, torch.no_grad():
            found = model.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                return_dict_in_generate=True,
                logits_processor=LogitsProcessorList([stamps]),
                **options,
            )
    finally:
        model.model.config._attn_implementation = before
        _clock.pop()
    tokens = found.sequences[:, len(prompt) :].tolist()
    scores = getattr(found, "sequences_scores", None)
    scores = [0.0] * len(tokens) if scores is None else scores.tolist()
    layers = (found.cache if "cache" in found else found.past_key_values).layers  # 5.24 has `cache`
    kv_bytes = sum(part.numel() * part.element_size() for layer in layers for part in (layer.keys, layer.values))
    return Run(results=list(zip(tokens, scores)), kv_bytes=kv_bytes, **_times(parts, began, stamps.at))


def token_bytes(model: Any) -> int:
    return 2 * model.num_layers * model.num_kv_heads * model.head_dim * model.dtype.itemsize


def searches(model: Any, given: Any) -> Iterator[dict]:
    model.model.generation_config.eos_token_id = None
    prompt = given.tokenizer.encode(TEXT)[: given.search_prompt] if given.tokenizer else drawn(model, given)
    for beams in given.beams:
        yield from _beams(model, given, prompt, beams)
        gc.collect()
    yield from _best_of(model, given, prompt)
    gc.collect()
    yield from _tree_search(model, given, prompt)


SUITES: dict[str, Callable[[Any, Any], Iterator[dict]]] = {"searches": searches}


def drawn(model: Any, given: Any) -> list[int]:
    """A prompt for a model with drawn weights."""
    return np.random.default_rng(5).integers(0, model.model.config.vocab_size, given.search_prompt).tolist()


def _beams(model: Any, given: Any, prompt: list[int], beams: int) -> Iterator[dict]:
    room = len(prompt) + beams * (given.new_tokens + 32) + 64
    runs = _by_turns(
        given.repeat,
        lambda: by_trunk(model, given, trunkline.BeamSearch(beams, given.new_tokens), prompt, room),
        lambda: by_generate(
            model, prompt, num_beams=beams, num_return_sequences=beams, max_new_tokens=given.new_tokens,
            do_sample=False, output_scores=True,
        ),
    )  # fmt: skip
    ours, theirs = (runs[side][0].results for side in SIDES)
    difference = float(np.max([abs(a - b) for (_, a), (_, b) in zip(ours, theirs, strict=True)]))
    same = len({tuple(tokens) for tokens, _ in ours} & {tuple(tokens) for tokens, _ in theirs})
    exact = model.dtype == torch.float32 and torch.device(model.device).type == "cpu"
    if exact and (not difference < 1e-4 or tuple(ours[0][0]) != tuple(theirs[0][0])):
        raise WrongResult(f"{beams} beams: scores differ by {difference}, {same} of {beams} sequences are the same")
    error = _forced_error(model, prompt, runs["trunk"][0].scored)
    fields = {"case": f"beams={beams}", "beams": beams, "score_err": difference, "same_sequences": same}
    yield from _rows(given, prompt, runs, fields | {"log_probability_err": error})


def _best_of(model: Any, given: Any, prompt: list[int]) -> Iterator[dict]:
    samples = given.samples
    room = len(prompt) + samples * (given.new_tokens + 32) + 64
    runs = _by_turns(
        given.repeat,
        lambda: by_trunk(model, given, trunkline.Samples(samples, given.new_tokens), prompt, room),
        lambda: by_generate(
            model, prompt, num_return_sequences=samples, max_new_tokens=given.new_tokens, do_sample=True, top_k=0,
            top_p=1.0, temperature=1.0,
        ),
    )  # fmt: skip
    error = _forced_error(model, prompt, runs["trunk"][0].scored)
    yield from _rows(given, prompt, runs, {"case": f"best of {samples}", "log_probability_err": error})


def _tree_search(model: Any, given: Any, prompt: list[int]) -> Iterator[dict]:
    iterations = max(1, given.tree_nodes // WIDTH)
    limit = 64
    room = len(prompt) + given.tree_nodes * (STEP_TOKENS + 32) + 64

    def value(tokens: list[int]) -> float:
        return len(set(tokens)) / len(tokens)

    def search() -> Run:
        controller = trunkline.MonteCarloTreeSearch(iterations, WIDTH, STEP_TOKENS, value, max_new_tokens=limit)
        return by_trunk(model, given, controller, prompt, room)

    ours = [search() for _ in range(given.repeat)]
    paths = ours[0].paths
    some = [paths[i * (len(paths) - 1) // max(_EXPANSIONS - 1, 1)] for i in range(min(_EXPANSIONS, len(paths)))]
    options = {"num_return_sequences": WIDTH, "max_new_tokens": STEP_TOKENS, "do_sample": True, "top_k": 0}
    parts = [by_generate(model, path, **options) for path in some]
    theirs = Run(
        results=[],
        seconds=statistics.fmean(part.seconds for part in parts) * len(paths),
        first_s=statistics.fmean(part.first_s for part in parts) * len(paths),
        step_ms=[ms for part in parts for ms in part.step_ms],
        attention_ms=statistics.fmean(part.attention_ms for part in parts) * len(paths),
        kv_bytes=ours[0].held * token_bytes(model),
    )
    error = _forced_error(model, prompt, ours[0].scored)
    fields = {"case": f"tree search of {iterations * WIDTH} nodes", "expansions_timed": len(some)}
    fields["log_probability_err"] = error
    yield from _rows(given, prompt, {"trunk": ours, "generate": [theirs]}, fields)


def _by_turns(repeat: int, ours: Callable[[], Run], theirs: Callable[[], Run]) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {side: [] for side in SIDES}
    for turn in range(repeat):
        for side in turn_order(list(SIDES), turn):
            runs[side].append({"trunk": ours, "generate": theirs}[side]())
            gc.collect()
    return runs


def _forced_error(model: Any, prompt: list[int], results: list[tuple[list[int], float]]) -> float:
    """The largest difference of a result's log-probability from eager attention's, for each of its tokens."""
    if not results:
        raise WrongResult("a search has no results")
    worst = 0.0
    some = [results[i * (len(results) - 1) // max(_CHECKED - 1, 1)] for i in range(min(_CHECKED, len(results)))]
    for tokens, score in some:
        right = token_log_probabilities(model.model, prompt + tokens, len(prompt)).sum()
        worst = larger(worst, abs(score - float(right)) / len(tokens))
    tolerance = LOG_PROBABILITY_TOLERANCE[model.dtype]
    if not worst < tolerance:
        raise WrongResult(f"log-probabilities differ by {worst} a token; tolerance: {tolerance}")
    return worst


def _times(parts: dict[str, float], began: float, stamps: list[float]) -> dict[str, Any]:
    return {
        "seconds": parts["whole"] / 1e3,
        "attention_ms": parts.get("attention", 0.0),
        "plan_ms": parts.get("plan", 0.0),
        "first_s": stamps[0] - began,
        "step_ms": [1e3 * (b - a) for a, b in zip(stamps, stamps[1:])],
    }


def _finished(tree: Any, prompt: int) -> list[tuple[list[int], float]]:
    """The tokens and log-probabilities of all results."""
    found = [(node, info.score) for node in tree.nodes() if (info := tree.info(node)).state == "finished"]
    return [(tree.sequence(node)[prompt:], score) for node, score in found]


def _expanded(tree: Any) -> list[list[int]]:
    """The texts of all nodes that were expanded."""
    parents = sorted({info.parent for node in tree.nodes() if (info := tree.info(node)).parent is not None})
    return [tree.sequence(node) for node in parents]


def _held(tree: Any, prompt: int) -> int:
    """Tokens of all sequences that a search without sharing keeps KV of: those of the nodes without children."""
    nodes = tree.nodes()
    parents = {tree.info(node).parent for node in nodes}
    return sum(tree.info(node).end for node in nodes if node not in parents) or prompt


def _rows(given: Any, prompt: list[int], runs: dict[str, list[Run]], fields: dict) -> Iterator[dict]:
    for side, found in runs.items():
        seconds = median_with_interval([run.seconds for run in found])
        steps = median_with_interval([ms for run in found for ms in run.step_ms])
        yield fields | {
            "suite": "searches",
            "method": side,
            "prompt": len(prompt),
            "new_tokens": given.new_tokens,
            "repeat": len(found),
            **{f"seconds{name}": round(value, 3) for name, value in zip(("", "_lo", "_hi"), seconds)},
            **{f"whole_ms{name}": round(value, 3) for name, value in zip(("", "_lo", "_hi"), steps)},
            "first_s": round(statistics.median(run.first_s for run in found), 3),
            "attention_s": round(statistics.median(run.attention_ms for run in found) / 1e3, 3),
            "kv_bytes": found[0].kv_bytes,
        }
