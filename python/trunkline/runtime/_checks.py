"""What controllers check and compute of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import errors
from .._arguments import int32


def log_probabilities(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Log-softmax of the last dimension, in double precision."""
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=-1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(axis=-1, keepdims=True))
    return exact


def end_tokens_of(tokens: int | Sequence[int] | None) -> frozenset[int]:
    """Tokens that end a sequence, as callers give them."""
    if tokens is None:
        return frozenset()
    if isinstance(tokens, int):
        tokens = [tokens]
    return frozenset(int32(token, f"end_tokens[{i}]", 0) for i, token in enumerate(tokens))


def positive(value: Any, name: str) -> int:
    return int32(value, name, 1)


def refuse_logits(logits: npt.NDArray[Any], rows: int) -> None:
    if logits.ndim != 2 or logits.shape[0] != rows:
        raise errors.InvalidArgumentError(f"logits has shape {list(logits.shape)}; expected: [{rows}, vocabulary]")
