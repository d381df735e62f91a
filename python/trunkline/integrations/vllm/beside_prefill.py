"""Whether decode rows that share a step with prefill rows are worth a launch of their own."""

from __future__ import annotations

from typing import Any

# Of a layer: what it costs to launch another attention kernel beside that of the prefill rows. Such steps run outside
# graphs, where a small model's or a small prefill's time is the host's.
LAUNCH_US = 15.0
LOOKED_AT = 8  # each so many such steps is planned, for there may be no other steps to learn from


class BesidePrefill:
    """Decides by what the last plan spared, as far as the GPU has told of it: the host knows of nothing that is shared.

    kv_bytes_per_token: of K and V of a layer. read_bytes_per_us: of the GPU's memory.
    """

    def __init__(self, kv_bytes_per_token: int, read_bytes_per_us: float) -> None:
        self._least_tokens = LAUNCH_US * read_bytes_per_us / kv_bytes_per_token
        self._left = 0

    def pays(self, report: Any) -> bool:
        """report: of plans so far, a DevicePlanReport."""
        spared = report.kv_tokens_total - report.kv_tokens_read
        if spared < self._least_tokens and self._left + 1 < LOOKED_AT:
            self._left += 1
            return False
        self._left = 0
        return True
