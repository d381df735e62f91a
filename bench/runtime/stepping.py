"""One tree, one paged cache, several methods: each step of the tree is run by all methods, in turns."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import trunkline
from clock import Clock
from methods import Method
from references import ATTENTION_TOLERANCE, attention_error, larger
from trunkline.runtime.kv_cache import KVCache
from visible import Step

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "vllm"))
from pairing import turn_order  # noqa: E402


class WrongResult(Exception):
    """A method's output differs from the reference."""


class SteppedTree:
    """A sequence tree whose steps are forced: the caller names their tokens.

    filled: keys and values of the whole pool are drawn, so that trees can be walked without computing all that comes
    before the steps that are timed. False: zeros, for runs that compute every token.
    """

    def __init__(
        self, model: Any, methods: Sequence[Method], *, num_pages: int, page_size: int = 16, filled: bool = True
    ) -> None:
        self.model, self.methods = model, list(methods)
        self.tree = trunkline.SequenceTree(page_size=page_size, num_pages=num_pages)
        shape = (num_pages, page_size, model.num_kv_heads, model.head_dim)
        layers = [(model.new_cache(shape), model.new_cache(shape)) for _ in range(model.num_layers)]
        if filled:
            torch.manual_seed(1)
            first = [part.normal_() for part in layers[0]]
            for pair in layers[1:]:
                for part, source in zip(pair, first):
                    part.copy_(source)
        self.cache = KVCache(layers)
        self._clock = Clock(torch.device(model.device))
        self._turn = 0
        #: The largest difference from attention in fp64 that was found, by method.
        self.errors = {method.name: 0.0 for method in self.methods}

    def begin(self, leaves: Sequence[Any], parents: dict[int, list[int]] | None = None) -> Step:
        """A step of the tree with its copies of part-filled pages; no model runs."""
        given = self.tree.step(leaves)
        self.cache.copy(given.copies)
        return Step(self.tree, given, self.cache, parents or {})

    def run(self, step: Step, method: Method, *, last: int = 1, check: bool = False) -> tuple[Any, dict[str, float]]:
        """The step by one method: logits of the last `last` query tokens of each row, and milliseconds by part."""
        given, clock = step.given, self._clock
        rows = (given.query_start[1:][:, None] - np.arange(last, 0, -1)[None, :]).reshape(-1)
        checked = {0, self.model.num_layers - 1} if check else set()

        def attend(layer: int, q: Any, k: Any, v: Any, scale: float | None = None) -> Any:
            with clock.part("write"):
                self.cache.write(layer, index, k, v)
            out = method.attend(layer, q, k, v, clock)
            if layer in checked:
                self._compare(step, method, layer, q, out)
            return out

        with clock.whole() as parts:
            with clock.part("plan"):
                method.plan(step)
            index = self.cache.index(given.slot_mapping)
            logits = self.model.forward(given.tokens, given.positions, attend, rows)
        return logits, parts

    def measure(self, step: Step, *, last: int = 1, check: bool = False) -> dict[str, dict[str, float]]:
        """The step by all methods, the order of which changes from call to call. With `check` nothing is timed."""
        by_name = {method.name: method for method in self.methods}
        names = turn_order(list(by_name), self._turn)
        if check:
            for name in names:
                self.run(step, by_name[name], last=last, check=True)
            return {}
        self._turn += 1
        return {name: self.run(step, by_name[name], last=last)[1] for name in names}

    def close(self) -> None:
        self.tree.close()

    def _compare(self, step: Step, method: Method, layer: int, q: Any, out: Any) -> None:
        error = attention_error(step, layer, q, out)
        self.errors[method.name] = larger(self.errors[method.name], error)
        tolerance = ATTENTION_TOLERANCE[self.model.dtype]
        if not error < tolerance:
            raise WrongResult(f"{method.name}, layer {layer}: differs from fp64 by {error}; tolerance: {tolerance}")
