"""What controllers check and compute of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .. import errors
from .._arguments import int32, number, wrong_type

_F = TypeVar("_F", bound=Callable[..., Any])


def log_probabilities(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Log-softmax of the last dimension, in double precision."""
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=-1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(axis=-1, keepdims=True))
    return exact


def end_tokens_of(tokens: int | Sequence[int] | None, name: str = "end_tokens") -> frozenset[int]:
    """Tokens that end a sequence, as callers give them."""
    if tokens is None:
        return frozenset()
    if isinstance(tokens, (int, np.integer)):
        return frozenset([int32(tokens, name, 0)])
    if not hasattr(tokens, "__iter__"):
        raise wrong_type(name, tokens, "a token id, several, or None")
    return frozenset(int32(token, f"{name}[{i}]", 0) for i, token in enumerate(tokens))


def function(value: _F, name: str) -> _F:
    """Refuses what cannot be called when a controller is made, as its first call comes late in a search."""
    if not callable(value):
        raise wrong_type(name, value, "a function of token ids")
    return value


def judged(judge: Callable[[list[int]], float], tokens: list[int], name: str) -> float:
    """A caller's score or value of a sequence. Refuses NaN, by which nothing can be sorted."""
    found = judge(tokens)
    return float(found) if isinstance(found, bool) else number(found, f"{name}(tokens)", -np.inf)


def positive(value: Any, name: str) -> int:
    return int32(value, name, 1)


def refuse_logits(logits: npt.NDArray[Any], rows: int) -> None:
    if logits.ndim != 2 or logits.shape[0] != rows:
        raise errors.InvalidArgumentError(f"logits has shape {list(logits.shape)}; expected: [{rows}, vocabulary]")
