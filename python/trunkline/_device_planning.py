"""Plans made on a GPU, as users see them: their options, what the GPU reports, and a step that is checked once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from . import _abi
from ._arguments import INT32_MAX, int32
from ._capacities import PREFIX_SPANS, partials_of_cuts
from ._device_tables import DeviceBatch
from ._library import NotCopied, new
from .plans import PlanOptions


@dataclass(frozen=True)
class DevicePlanning:
    """Has plans made on the GPU, where page tables and lengths are: see DecodeAttention.

    max_rows: the most requests of a step, padding of length 0 included. max_queries: the most query tokens; 0: one a
    request. capacity_*: upper limits of a plan's lists; 0: room for `trunk` while shared prefixes need up to 65,536
    spans, one for each 64 tokens in each tile of 128 rows. Beyond, a plan is `flat`, which DecodeAttention.plan_report
    counts. null_page: a page of the cache that stands for "no page" and is never shared. growth: a plan is kept while
    the same requests share the same pages and none has grown by more than so many tokens since it was made, or 16 or
    fewer where some item has the ends of more requests than the mean.
    """

    max_rows: int
    max_queries: int = 0
    capacity_items: int = 0
    capacity_spans: int = 0
    capacity_partials: int = 0
    null_page: int | None = None
    growth: int = 64

    @property
    def queries(self) -> int:
        """max_queries, or what stands for it."""
        return self.max_queries or self.max_rows

    def _struct(
        self, device_index: int, workers: int, shape: _abi.Shape, options: PlanOptions
    ) -> _abi.CudaPlannerOptions:
        for field in fields(self):
            value, least = getattr(self, field.name), int(field.name == "max_rows")
            if field.name != "null_page" or value is not None:
                int32(value, f"device_planning.{field.name}", least)
        items = self.capacity_items or 2 * self.queries + 8 * workers
        partials = max(16 * workers, partials_of_cuts(workers, shape))
        return new(
            _abi.CudaPlannerOptions,
            device=device_index,
            rows=self.max_rows,
            capacity_queries=self.queries,
            capacity_items=min(items, INT32_MAX),
            capacity_spans=self.capacity_spans or min(32 * self.queries + 8 * items + PREFIX_SPANS, INT32_MAX),
            capacity_partials=self.capacity_partials or min(4 * self.queries + partials, INT32_MAX),
            growth=self.growth or -1,  # 0 is the default there
            has_null_page=int(self.null_page is not None),
            null_page=self.null_page or 0,
            policy=_abi.POLICY_INVARIANT if options.policy == "invariant" else _abi.POLICY_TRUNK,
            invariant_chunk=int32(options.invariant_chunk, "options.invariant_chunk"),
        )


@dataclass(frozen=True)
class DevicePlanReport:
    """Results of planning on the GPU.

    planned, reused: steps that made a plan, and that reused one. The other fields are of the last plan that was made:
    tokens as in Statistics, items, spans, partials; fallbacks: 1 where a capacity forced it to `flat`; unplanned: 1
    where not even `flat` fitted, so that nothing is written to outputs; bad_lengths: requests whose length is negative
    or has no pages in the table, planned as empty, the first of them first_bad_length (-1: none), of length bad_length;
    bad_queries: requests whose query_start_loc is wrong (if any is, none has a query), the first of them
    first_bad_queries, with bad_query_start.
    """

    planned: int
    reused: int
    kv_tokens_total: int
    kv_tokens_distinct: int
    kv_tokens_read: int
    items: int
    spans: int
    partials: int
    fallbacks: int
    unplanned: int
    bad_lengths: int
    first_bad_length: int
    bad_length: int
    bad_queries: int
    first_bad_queries: int
    bad_query_start: int


@dataclass(frozen=True)
class PreparedStep(NotCopied):
    """A step that DecodeAttention.prepare has checked; for plan_prepared of the same object."""

    batch: DeviceBatch
    owner: object
