"""Trunkline in the comparison: DecodeAttention, planned on the host from page tables alone."""

from __future__ import annotations

import trunkline
from cuda_case import Case, Ours
from peer_cases import PeerCase


def made(case: Case, _: PeerCase) -> Ours:
    return Ours(case, "auto")


def facts(case: Case, ours: Ours) -> dict:
    """What is known of a case by Trunkline's plan and the profile of the GPU that runs."""
    found = ours.attention.statistics
    known = {"kv_tokens_total": found.kv_tokens_total, "kv_tokens_distinct": found.kv_tokens_distinct}
    known["floor_us"] = round(found.bound_us, 3)
    if case.device.type == "cuda":
        shape = case.q_heads, case.kv_heads, case.head_dim, case.page_size
        profile = trunkline.Profile.cuda(*shape, dtype=case.dtype, device=case.device).info
        known |= {name: profile[name] for name in ("read_bytes_per_us", "flops_per_us", "launch_us")}
    return known


def version() -> str:
    return trunkline.version()


METHODS = {"trunkline": made}
