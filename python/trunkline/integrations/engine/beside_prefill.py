"""Whether decode rows that share a step with prefill rows are worth a launch of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PrefillRule:
    """Microseconds that sharing must save in a layer to pay for a second attention kernel in a step with prefill rows.

    Such steps run outside graphs. Where little is prefilled, the host is the slower one, and a launch takes it 12 to
    23 us, up to 60 in all: host_us. Where large_prefill tokens and more are, it is the GPU, which begins and ends a
    kernel: gpu_us. Measured in vLLM 0.26 with Llama-3-8B's shape on an H200 (bench/results/vllm). Every
    probe_every-th such step is planned whatever the last plan saved, as there may be no other steps to learn from.
    """

    host_us: float = 50.0
    gpu_us: float = 5.0
    large_prefill: int = 1024
    probe_every: int = 8


class BesidePrefill:
    """Decides by the savings of the last plan that the device has reported: the host does not know which pages are
    shared.

    Ranks of a model that is split over GPUs decide by their own device's report. Plans are equal, but a report may have
    arrived on one rank and not yet on another, so that for some steps they decide differently. Probes are counted over
    all steps with prefill, which are the same on all ranks: so ranks probe in the same step, and agree after it.

    kv_bytes_per_token: K and V of a layer. read_bytes_per_us: the bandwidth of the device's memory.
    """

    def __init__(self, rule: PrefillRule, kv_bytes_per_token: int, read_bytes_per_us: float) -> None:
        self._rule = rule
        self._us_per_token = kv_bytes_per_token / read_bytes_per_us
        self._steps = 0

    def pays(self, report: Any, prefill_tokens: int) -> bool:
        """report: a DevicePlanReport or a HostReport. prefill_tokens: of the step."""
        rule = self._rule
        saved_us = (report.kv_tokens_total - report.kv_tokens_read) * self._us_per_token
        needed_us = rule.gpu_us if prefill_tokens >= rule.large_prefill else rule.host_us
        self._steps += 1
        return saved_us >= needed_us or self._steps % rule.probe_every == 0
