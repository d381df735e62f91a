"""Limits of a plan's lists where a CUDA graph, or a planner on the GPU, needs memory of a fixed size."""

from __future__ import annotations

from . import _abi, errors
from ._arguments import INT32_MAX
from .plans import PlanOptions


def partials_of_a_round(workers: int, shape: _abi.Shape) -> int:
    """The partials of a full tile of 128 rows for each worker, which `trunk` may always make."""
    tile = max(128 * shape.kv_heads // shape.q_heads, 1)
    return -(-workers // shape.kv_heads) * tile


def with_capacities(options: PlanOptions, queries: int, workers: int, shape: _abi.Shape) -> PlanOptions:
    """Limits for graphs where the caller has set none: room for `trunk` on any batch of the size that is not built to
    break them; beyond, a plan falls back to `flat`, which always fits."""
    if queries < 1:
        raise errors.InvalidArgumentError(f"max_queries is {queries}; expected with use_cuda_graph: at least 1")
    items = options.capacity_items or 2 * queries + 4 * workers
    partials = max(4 * workers, partials_of_a_round(workers, shape))
    given = (options.capacity_items, options.capacity_spans, options.capacity_partials)
    if options.policy == "invariant" and not all(given):
        raise errors.InvalidArgumentError(
            "options.policy is 'invariant', whose plans grow with the requests and fall back to no other; expected "
            "with use_cuda_graph: options.capacity_items, capacity_spans and capacity_partials"
        )
    filled = {
        "capacity_queries": options.capacity_queries or queries,
        "capacity_items": min(items, INT32_MAX),
        "capacity_spans": options.capacity_spans or min(8 * items, INT32_MAX),
        "capacity_partials": options.capacity_partials or min(4 * queries + partials, INT32_MAX),
    }
    return PlanOptions(**{**options.__dict__, **filled})
