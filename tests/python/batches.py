"""Random decode steps whose requests share prefixes, as hypothesis strategies and as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

TOLERANCE = {"float32": 2e-5, "float16": 3e-3, "bfloat16": 2.5e-2}


def dtype_of(name):
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


@dataclass
class Case:
    page_size: int
    q_heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    rows: list[list[int]]
    kv_lens: list[int]
    num_pages: int
    query_start: list[int] | None
    parents: list[int] | None
    seed: int

    @property
    def queries(self):
        return self.query_start[-1] if self.query_start else len(self.rows)

    def table(self, dtype=np.int32):
        """Dense; entries past a row's end are far outside the pool."""
        width = max((len(pages) for pages in self.rows), default=0) + 1
        table = np.full((len(self.rows), width), 2**30, dtype)
        for row, pages in enumerate(self.rows):
            table[row, : len(pages)] = pages
        return table

    def csr(self):
        indptr = np.cumsum([0] + [len(pages) for pages in self.rows]).astype(np.int32)
        indices = np.array([page for pages in self.rows for page in pages], np.int32)
        last = [(length - 1) % self.page_size + 1 for length in self.kv_lens]
        return indptr, indices, np.array(last, np.int32)

    def tensors(self):
        """q, k, v; pages that no request uses are NaN."""
        random = np.random.default_rng(self.seed)
        shape = (self.num_pages, self.page_size, self.kv_heads, self.head_dim)
        k, v = (random.standard_normal(shape).astype(np.float32) for _ in range(2))
        unused = np.setdiff1d(np.arange(self.num_pages), np.concatenate([[], *self.rows]).astype(int))
        k[unused] = v[unused] = np.nan
        q = random.standard_normal((self.queries, self.q_heads, self.head_dim)).astype(np.float32)
        return [x.astype(dtype_of(self.dtype)) for x in (q, k, v)]


@st.composite
def cases(draw, several_queries=True, page_sizes=(1, 3, 16, 24), dtypes=("float32", "float16", "bfloat16")):
    page_size = draw(st.sampled_from(page_sizes))
    kv_heads = draw(st.integers(1, 3))
    group = draw(st.sampled_from([1, 2, 3, 4, 7, 16]))
    num_pages = 200
    order = np.random.default_rng(draw(st.integers(0, 2**16))).permutation(num_pages).tolist()
    rows: list[list[int]] = []
    kv_lens: list[int] = []
    for _ in range(draw(st.integers(1, 7))):
        shared: list[int] = []
        if rows and draw(st.booleans()):
            parent = rows[draw(st.integers(0, len(rows) - 1))]
            shared = parent[: draw(st.integers(0, len(parent)))]
        own = draw(st.integers(0, 4))
        pages = shared + [order.pop() for _ in range(own)]
        rows.append(pages)
        kv_lens.append(len(pages) * page_size - (draw(st.integers(0, page_size - 1)) if pages else 0))
    starts, parents = None, None
    if several_queries and draw(st.booleans()):
        counts = [draw(st.integers(1, min(5, length))) if length else 1 for length in kv_lens]
        starts = np.cumsum([0, *counts]).tolist()
        if draw(st.booleans()):
            parents = []
            for count in counts:
                parents += [-1] + [draw(st.integers(0, token - 1)) for token in range(1, count)]
    return Case(
        page_size,
        kv_heads * group,
        kv_heads,
        draw(st.sampled_from([64, 128])),
        draw(st.sampled_from(dtypes)),
        rows,
        kv_lens,
        num_pages,
        starts,
        parents,
        draw(st.integers(0, 2**16)),
    )
