"""Shadow mode: every layer runs the engine's kernel beside ours, and the results are compared without waiting.

A head's vector is compared at the scale of its largest value, as the output and the probabilities are rounded:
|ours - theirs| <= tolerance * max |theirs| over the vector. Where the engine's vector is not finite, as after an
overflow of a request's activations, ours must not be finite, either.
"""

from __future__ import annotations

from typing import Any

from .arrays import Arrays
from .tables import Tables

# Results are rounded to the output's type, and both kernels round probabilities to it before they multiply with V: four
# steps of the type's precision (2^-8 for bfloat16, 2^-11 for float16). float32: sums of 2^20 terms in any order differ
# by about sqrt(2^20) steps of 2^-24.
TOLERANCE = {"bfloat16": 4 * 2.0**-8, "float16": 4 * 2.0**-11, "float32": 2.0**-14}


class Shadow:
    """Counts on the device: vectors compared, vectors beyond the tolerance, vectors of the engine's that are not
    finite, and the largest relative difference of those that are.

    dtype: of the outputs. max_tokens: query tokens of a step, prefill included.
    """

    def __init__(self, arrays: Arrays, dtype: str, max_tokens: int) -> None:
        self._arrays = arrays
        self._tolerance = TOLERANCE[dtype]
        self._counts = arrays.zeros(3, "float64")
        self._live = arrays.zeros(max_tokens, "bool")
        self._places = arrays.zeros(max_tokens, "int32")
        arrays.copy(self._places, arrays.module.arange(max_tokens))
        self._tokens = 0
        self._max = arrays.zeros(1, "float32")

    def live(self, tables: Tables, query_start_loc: Any, rows: int, tokens: int) -> None:
        """Once a step: which of the first query tokens somebody reads. Padding's are not. They are marked in the same
        memory in every step, as captured comparisons read it."""
        live = self._live[:tokens]
        if query_start_loc is None:
            tables.first(rows).mark_live(self._arrays.module, live)
        else:
            self._arrays.module.less(self._places[:tokens], query_start_loc[rows], out=live)
        self._tokens = tokens

    def whole(self, tokens: int) -> None:
        """The step has so many query tokens in all; those behind the first are of prefill, and all are read."""
        if tokens > self._tokens:
            self._live[self._tokens : tokens] = True
            self._tokens = tokens

    def compare(self, ours: Any, theirs: Any) -> None:
        """Results [T, Hq, d], T padded, with Trunkline and by the engine alone. May be captured in a graph."""
        module, float32 = self._arrays.module, self._arrays.float32
        ours, theirs = float32(ours[: self._tokens]), float32(theirs[: self._tokens])
        scale = module.clip(module.amax(module.abs(theirs), -1), 1e-20, None)
        relative = module.amax(module.abs(ours - theirs), -1) / scale
        live = module.broadcast_to(self._live[: self._tokens, None], relative.shape)
        finite = module.all(module.isfinite(theirs), -1)
        # A NaN of ours where theirs is finite must count: comparisons with NaN are false.
        right = module.where(finite, relative <= self._tolerance, ~module.all(module.isfinite(ours), -1))
        self._counts[0] += live.sum()
        self._counts[1] += (live & ~right).sum()
        self._counts[2] += (live & ~finite).sum()
        compared = module.nan_to_num(module.where(live & finite, relative, 0.0), nan=float("inf"), posinf=float("inf"))
        module.maximum(module.amax(compared), self._max, out=self._max)

    def report(self) -> dict[str, float]:
        """The counts. Waits for the device."""
        compared, beyond, non_finite = self._counts.tolist()
        return {
            "compared": compared,
            "beyond": beyond,
            "non_finite": non_finite,
            "most": self._max.item(),
            "tolerance": self._tolerance,
        }
