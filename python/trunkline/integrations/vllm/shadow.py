"""Comparison of both kernels' results on the GPU, in every layer, without waiting: TRUNKLINE_VLLM_SHADOW=1.

A head's vector is compared at the scale of its largest value, which is what rounding of the output and of the
probabilities goes by: |ours - theirs| <= tolerance * max |theirs| over the vector. Where vLLM's vector is not finite,
as of a request whose activations overflowed, ours must not be, either.
"""

from __future__ import annotations

from typing import Any

import torch

from .capability import GroupFacts

# Both results are rounded to the output's type, and both kernels round probabilities to it before they multiply with V:
# four steps of the type's precision (2^-8 for bfloat16, 2^-11 for float16).
TOLERANCE = {"bfloat16": 4 * 2.0**-8, "float16": 4 * 2.0**-11}


class Shadow:
    """Counts on the GPU: vectors compared, vectors beyond the tolerance, vectors of vLLM's that are not finite, and the
    largest relative difference of those that are.

    most_tokens: query tokens of a step, prefill included.
    """

    def __init__(self, facts: GroupFacts, most_tokens: int, device: Any) -> None:
        self._tolerance = TOLERANCE[facts.dtype]
        self._counts = torch.zeros(3, dtype=torch.float64, device=device)
        self._live = torch.zeros(most_tokens, dtype=torch.bool, device=device)
        self._places = torch.arange(most_tokens, dtype=torch.int32, device=device)
        self._tokens = 0
        self._most = torch.zeros(1, dtype=torch.float32, device=device)

    def live(self, seq_lens: Any, query_start_loc: Any, tokens: int) -> None:
        """Of a step: which of the first query tokens somebody reads: not the padding's. The same memory in every step,
        as captured comparisons read it."""
        live = self._live[:tokens]
        if query_start_loc is None:
            torch.gt(seq_lens, 0, out=live)
        else:
            torch.lt(self._places[:tokens], query_start_loc[-1], out=live)
        self._tokens = tokens

    def whole(self, tokens: int) -> None:
        """The step has so many query tokens in all; those behind the first are of prefill, and all are read."""
        if tokens > self._tokens:
            self._live[self._tokens : tokens] = True
            self._tokens = tokens

    def compare(self, ours: Any, theirs: Any) -> None:
        """Results [T, Hq, d], T padded, with Trunkline and by vLLM alone. May be captured in a graph."""
        ours, theirs, live = ours[: self._tokens], theirs[: self._tokens], self._live[: self._tokens]
        theirs = theirs.float()
        scale = theirs.abs().amax(-1).clamp_min(1e-20)
        relative = (ours.float() - theirs).abs().amax(-1) / scale
        live = live[:, None].expand_as(relative)
        finite = theirs.isfinite().all(-1)
        # A NaN of ours where theirs is finite must count: comparisons with NaN are false.
        right = torch.where(finite, relative <= self._tolerance, ~ours.isfinite().all(-1))
        self._counts[0] += live.sum()
        self._counts[1] += (live & ~right).sum()
        self._counts[2] += (live & ~finite).sum()
        largest = torch.where(live & finite, relative, 0).nan_to_num(torch.inf).amax()
        torch.maximum(self._most, largest, out=self._most)

    def report(self) -> dict[str, float]:
        """Waits for the GPU."""
        compared, beyond, non_finite = self._counts.tolist()
        return {
            "compared": compared,
            "beyond": beyond,
            "non_finite": non_finite,
            "most": self._most.item(),
            "tolerance": self._tolerance,
        }
