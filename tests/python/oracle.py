"""Plain attention in fp64, by gathering each request's keys and values: knows nothing of sharing or plans."""

from __future__ import annotations

import numpy as np


def visible(kv_len, queries, token, parents):
    """Which of a request's tokens query token `token` of `queries` sees."""
    past = kv_len - queries
    if parents is None:
        return np.arange(kv_len) <= past + token
    seen = np.arange(kv_len) < past
    while token >= 0:
        seen[past + token] = True
        token = parents[token]
    return seen


def attention(q, k, v, rows, kv_lens, *, query_start=None, parents=None, scale=None, base_two=False):
    """q [T, Hq, d]; k, v [pages, P, Hkv, d]; rows: each request's page ids. Returns (out [T, Hq, d], lse [T, Hq])."""
    q, k, v = (np.asarray(x).astype(np.float64) for x in (q, k, v))
    count, q_heads, head_dim = q.shape
    group = q_heads // k.shape[2]
    starts = np.arange(len(rows) + 1) if query_start is None else np.asarray(query_start)
    out, lse = np.zeros(q.shape), np.full((count, q_heads), -np.inf)
    for row, (pages, length) in enumerate(zip(rows, kv_lens)):
        length = int(length)
        pages = np.asarray(pages[: -(-length // k.shape[1])], np.int64)
        keys = k[pages].reshape(-1, *k.shape[2:])[:length].repeat(group, axis=1)
        values = v[pages].reshape(-1, *v.shape[2:])[:length].repeat(group, axis=1)
        own = None if parents is None else np.asarray(parents)[starts[row] : starts[row + 1]]
        queries = starts[row + 1] - starts[row]
        for token in range(queries):
            seen = visible(length, queries, token, own) if length else np.zeros(0, bool)
            if not seen.any():
                continue
            at = starts[row] + token
            logits = np.einsum("hd,thd->ht", q[at], keys[seen]) * (head_dim**-0.5 if scale is None else scale)
            most = logits.max(axis=1, keepdims=True)
            weights = np.exp(logits - most)
            total = weights.sum(axis=1, keepdims=True)
            out[at] = np.einsum("ht,thd->hd", weights / total, values[seen])
            lse[at] = (most + np.log(total))[:, 0]
    return out, lse / np.log(2) if base_two else lse
