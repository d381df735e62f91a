"""Whether decode rows that share a step with prefill rows are worth a launch of their own."""

from __future__ import annotations

from typing import Any

# Of a layer, what it costs to launch another attention kernel beside that of the prefill rows. Such steps run outside
# graphs: where little is prefilled, the host is the slower one, which takes 12 to 23 us for the launch and up to 60 in
# all (Llama-3-8B's shape on an H200); where much is, the GPU, which begins and ends a kernel.
HOST_US, GPU_US = 50.0, 5.0
MUCH = 1024  # tokens
LOOKED_AT = 8  # each so many such steps is planned, for there may be no other steps to learn from


class BesidePrefill:
    """Decides by what the last plan spared, as far as the GPU has told of it: the host knows of nothing that is shared.

    kv_bytes_per_token: of K and V of a layer. read_bytes_per_us: of the GPU's memory.
    """

    def __init__(self, kv_bytes_per_token: int, read_bytes_per_us: float) -> None:
        self._us_per_token = kv_bytes_per_token / read_bytes_per_us
        self._left = 0

    def pays(self, report: Any, prefill_tokens: int) -> bool:
        """report: of plans so far, a DevicePlanReport. prefill_tokens: of the step."""
        spared_us = (report.kv_tokens_total - report.kv_tokens_read) * self._us_per_token
        if spared_us < (GPU_US if prefill_tokens >= MUCH else HOST_US) and self._left + 1 < LOOKED_AT:
            self._left += 1
            return False
        self._left = 0
        return True
