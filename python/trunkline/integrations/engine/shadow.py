"""Shadow mode: every layer runs both Trunkline's kernels and the engine's, and compares the results without waiting.

A head's vector is compared at the scale of its largest value, as the output and the probabilities are rounded:
|found - expected| <= tolerance * max |expected| over the vector, where `found` is Trunkline's result and `expected` the
engine's. Where the engine's vector is not finite, as after an overflow of a request's activations, Trunkline's must not
be finite, either.
"""

from __future__ import annotations

from typing import Any

from ... import errors
from .arrays import Arrays
from .tables import Tables

# By the type of K and V, to which a kernel rounds probabilities before it multiplies them with V: four steps of the
# type's precision. Results have K's and V's type, too, if it has 16 bits. Beside 8 bits ours keeps probabilities of 16,
# and FlashAttention 3 does not, as its product takes two operands of one type. float32: sums of 2^20 terms in any order
# differ by about sqrt(2^20) steps of 2^-24.
TOLERANCE = {
    "bfloat16": 4 * 2.0**-8,
    "float16": 4 * 2.0**-11,
    "float32": 2.0**-14,
    "float8_e4m3fn": 4 * 2.0**-4,
    "float8_e5m2": 4 * 2.0**-3,
}


class Shadow:
    """Counts on the device: vectors compared, vectors beyond the tolerance, vectors that the engine computed as not
    finite, and the largest relative difference of those that are.

    kv_dtype: of K and V. max_rows: requests of a step. max_tokens: query tokens of a step, prefill included.
    """

    def __init__(self, arrays: Arrays, kv_dtype: str, max_rows: int, max_tokens: int) -> None:
        self._arrays = arrays
        self._tolerance = TOLERANCE[kv_dtype]
        self._counts = arrays.zeros(3, "float64")
        self._live = arrays.zeros(max_tokens, "bool")
        self._positions = arrays.zeros(max_tokens, "int32")
        arrays.copy(self._positions, arrays.module.arange(max_tokens))
        self._live_rows = arrays.zeros(max_rows + 1, "bool")
        self._starts = arrays.zeros(max_rows + 1, "int32")
        self._tokens = 0
        self._is_planned = False
        self._max = arrays.zeros(1, "float32")

    def live(self, tables: Tables, query_start_loc: Any, rows: int, tokens: int) -> None:
        """Once a step, by DecodeSteps.plan: marks the query tokens of rows that have a length. Padding is not compared:
        rows of length 0, and query tokens behind the last row. The marks are in the same memory in every step, as
        captured comparisons read it."""
        arrays, module = self._arrays, self._arrays.module
        live = self._live[:tokens]
        if query_start_loc is None:
            tables.first(rows).mark_live(module, live)
        else:
            tables.first(rows).mark_live(module, self._live_rows[:rows])
            self._live_rows[rows] = False  # stands for the query tokens behind the last row
            starts = self._starts[: rows + 1]
            arrays.copy(starts, query_start_loc[: rows + 1])
            row_of_token = module.searchsorted(starts, self._positions[:tokens], side="right") - 1
            arrays.copy(live, arrays.rows_of(self._live_rows, row_of_token))
        self._tokens = tokens
        self._is_planned = True

    def whole(self, tokens: int) -> None:
        """Once a step, after DecodeSteps.plan, which begins the marks anew: the step has so many query tokens in all.
        Those behind the planned ones are of prefill, and are all compared."""
        if not self._is_planned:
            raise errors.InvalidArgumentError(
                f"whole({tokens}) is called before the step's plan(); expected: once a step, after plan()"
            )
        self._is_planned = False
        if tokens > self._tokens:
            self._live[self._tokens : tokens] = True
            self._tokens = tokens

    def compare(self, found: Any, expected: Any) -> None:
        """found, expected [T, Hq, d], T padded: the layer's results with Trunkline, and by the engine's kernel alone.
        May be captured in a graph."""
        module, float32 = self._arrays.module, self._arrays.float32
        found, expected = float32(found[: self._tokens]), float32(expected[: self._tokens])
        scale = module.clip(module.amax(module.abs(expected), -1), 1e-20, None)
        relative = module.amax(module.abs(found - expected), -1) / scale
        live = module.broadcast_to(self._live[: self._tokens, None], relative.shape)
        finite = module.all(module.isfinite(expected), -1)
        # A NaN found where a finite value is expected must count: comparisons with NaN are false.
        right = module.where(finite, relative <= self._tolerance, ~module.all(module.isfinite(found), -1))
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
