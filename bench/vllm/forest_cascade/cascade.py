"""A layer's attention in a step: the prefix call, the suffix call and the merge."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from .step import ForestStep


@dataclasses.dataclass(frozen=True)
class Call:
    """The sequences of one attention call. Queries are packed: a sequence's are starts[i] to starts[i + 1]."""

    starts: Any
    lens: Any
    table: Any
    max_queries: int
    max_tokens: int
    causal: bool
    splits: int
    schedule: Any


class Kernels(Protocol):
    def attend(self, query: Any, call: Call) -> tuple[Any, Any]:
        """query [T, Hq, d]. Returns the results [T, Hq, d] and their LSEs [Hq, T]; a query without keys has -inf."""

    def merge(self, output: Any, prefix: tuple[Any, Any], suffix: tuple[Any, Any]) -> None:
        """Writes into output [T, Hq, d]."""


def prefix_call(step: ForestStep) -> Call:
    """Not causal: each query of a group comes behind all of the group's keys."""
    return Call(
        starts=step.prefix_starts,
        lens=step.prefix_lens,
        table=step.prefix_table,
        max_queries=step.max_prefix_queries,
        max_tokens=step.max_prefix_tokens,
        causal=False,
        splits=0,
        schedule=step.prefix_schedule,
    )


def suffix_call(step: ForestStep) -> Call:
    """Causal in name only: a row has one query token, its last."""
    return Call(
        starts=step.suffix_starts,
        lens=step.suffix_lens,
        table=step.suffix_table,
        max_queries=1,
        max_tokens=step.max_suffix_tokens,
        causal=True,
        splits=step.suffix_splits,
        schedule=step.suffix_schedule,
    )


def attend(step: ForestStep, query: Any, output: Any, kernels: Kernels) -> None:
    """query and output [>= rows, Hq, d]; only the first step.rows are read and written."""
    query, output = query[: step.rows], output[: step.rows]
    packed = query if step.order is None else query.index_select(0, step.order)
    prefix = kernels.attend(packed, prefix_call(step))
    suffix = kernels.attend(packed, suffix_call(step))
    if step.order is None:
        kernels.merge(output, prefix, suffix)
        return
    merged = output.new_empty(output.shape)
    kernels.merge(merged, prefix, suffix)
    output.index_copy_(0, step.order, merged)
