"""The decode rows of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np


def leading_decode_rows(query_start_loc: Any, rows: int, longest_query: int) -> tuple[int, int]:
    """How many requests at the batch's begin have 1 to longest_query query tokens, and how many tokens these have.

    query_start_loc [rows + 1 and more]: prefix sums of query tokens, on the host. Engines that put decode rows first
    give them all to Trunkline; those behind a prefill row stay the engine's. Requests without query tokens at the end
    of the batch are padding of the decode rows before them, and count with these: a padded decode step is not a mixed
    one. Elsewhere a request without a query token ends the decode rows.
    """
    starts = np.asarray(query_start_loc)
    counts = starts[1 : rows + 1] - starts[:rows]
    is_other = (counts > longest_query) | (counts < 1)
    found = int(is_other.argmax()) if is_other.any() else rows
    if found > 0 and starts[found] == starts[rows]:
        found = rows
    return found, int(starts[found])
