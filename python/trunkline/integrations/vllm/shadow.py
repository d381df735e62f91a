"""Comparison of both kernels' results on the GPU, in every layer, without waiting: TRUNKLINE_VLLM_SHADOW=1.

A head's vector is compared at the scale of its largest value, which is what rounding of the output and of the
probabilities goes by: |ours - theirs| <= tolerance * max |theirs| over the vector.
"""

from __future__ import annotations

from typing import Any

import torch

from .capability import GroupFacts

# Both results are rounded to the output's type, and both kernels round probabilities to it before they multiply with V:
# four steps of the type's precision (2^-8 for bfloat16, 2^-11 for float16).
TOLERANCE = {"bfloat16": 4 * 2.0**-8, "float16": 4 * 2.0**-11}


class Shadow:
    """Counts on the GPU: vectors compared, vectors beyond the tolerance, the largest relative difference."""

    def __init__(self, facts: GroupFacts, device: Any) -> None:
        self._tolerance = TOLERANCE[facts.dtype]
        self._counts = torch.zeros(2, dtype=torch.float64, device=device)
        self._most = torch.zeros(1, dtype=torch.float32, device=device)

    def compare(self, ours: Any, theirs: Any, seq_lens: Any) -> None:
        """Of [B, Hq, d]; rows of length 0 are padding, whose results nobody reads. May be captured in a graph."""
        theirs = theirs.float()
        scale = theirs.abs().amax(-1).clamp_min(1e-20)
        relative = (ours.float() - theirs).abs().amax(-1) / scale
        live = (seq_lens > 0)[:, None].expand_as(relative)
        # A NaN of ours where theirs is finite must count: comparisons with NaN are false.
        beyond = live & ~(relative <= self._tolerance)
        self._counts[0] += live.sum()
        self._counts[1] += beyond.sum()
        torch.maximum(self._most, torch.where(live, relative, 0).nan_to_num(torch.inf).amax(), out=self._most)

    def report(self) -> dict[str, float]:
        """Waits for the GPU."""
        compared, beyond = self._counts.tolist()
        return {
            "compared": compared,
            "beyond": beyond,
            "most": self._most.item(),
            "tolerance": self._tolerance,
        }
