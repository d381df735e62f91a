"""Limits of a plan's lists where a CUDA graph, or a planner on the GPU, needs memory of a fixed size."""

from __future__ import annotations

from . import _abi, errors
from ._arguments import INT32_MAX
from .plans import PlanOptions

#: Spans beside those of the requests' own tokens: a shared prefix is a span for each 64 tokens in each tile of up to
#: 128 rows that reads it, so that these are enough for 131,072 tokens in 32 tiles, or a million in four.
PREFIX_SPANS = 65536
_PARTS_OF_A_WORKER = 4  # CutChoice::cost_cap_of: parts that cost a quarter of a worker's share


def partials_of_cuts(workers: int, shape: _abi.Shape) -> int:
    """The partials of full tiles of 128 rows, cut as finely as `trunk` cuts them."""
    tile = max(128 * shape.kv_heads // shape.q_heads, 1)
    return _PARTS_OF_A_WORKER * -(-workers // shape.kv_heads) * tile


def with_capacities(options: PlanOptions, queries: int, workers: int, shape: _abi.Shape) -> PlanOptions:
    """Limits for graphs where the caller has set none: room for `trunk` on batches of the size whose shared prefixes
    need up to PREFIX_SPANS; beyond, a plan falls back to `flat`, which always fits."""
    if queries < 1:
        raise errors.InvalidArgumentError(f"max_queries is {queries}; expected with use_cuda_graph: at least 1")
    items = options.capacity_items or 2 * queries + 4 * workers
    partials = max(4 * workers, partials_of_cuts(workers, shape))
    given = (options.capacity_items, options.capacity_spans, options.capacity_partials)
    if options.policy == "invariant" and not all(given):
        raise errors.InvalidArgumentError(
            "options.policy is 'invariant', whose plans grow with the requests and fall back to no other; expected "
            "with use_cuda_graph: options.capacity_items, capacity_spans and capacity_partials"
        )
    filled = {
        "capacity_queries": options.capacity_queries or queries,
        "capacity_items": min(items, INT32_MAX),
        "capacity_spans": options.capacity_spans or min(8 * items + PREFIX_SPANS, INT32_MAX),
        "capacity_partials": options.capacity_partials or min(4 * queries + partials, INT32_MAX),
    }
    return PlanOptions(**{**options.__dict__, **filled})
