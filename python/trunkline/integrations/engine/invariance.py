"""Plans that give a request the same bits in any batch, and the memory that they need."""

from __future__ import annotations

from dataclasses import dataclass

from ... import PlanOptions

SHORTEST_CHUNK = (
    1024  # tokens; about the least of what is read again at forks and of partials (docs/concepts/policies.md)
)
MAX_CHUNKS = 32  # a request; a partial of each is in memory for each request


@dataclass(frozen=True)
class InvariantPlans:
    """Of policy `invariant`, for at most max_rows requests of at most max_kv_len tokens, a query token each.

    Chunks follow from max_kv_len alone, so bits change with the engine's limit of a request's length, and with nothing
    that comes and goes. A chunk has the fewest tokens, a power of two and 1,024 or more, by which a request has at most
    32 of them.
    """

    max_rows: int
    max_kv_len: int

    @property
    def chunk(self) -> int:
        chunk = SHORTEST_CHUNK
        while chunk * MAX_CHUNKS < self.max_kv_len:
            chunk *= 2
        return chunk

    @property
    def options(self) -> PlanOptions:
        return PlanOptions("invariant", invariant_chunk=self.chunk)

    @property
    def capacities(self) -> dict[str, int]:
        """Room for every batch, as these plans fall back to no other: an item and a partial for each chunk of each
        request, where nothing is shared."""
        chunks = self.max_rows * -(-self.max_kv_len // self.chunk)
        return {"capacity_items": chunks, "capacity_partials": chunks}
