"""Kernels on the CPU in the place of FlashAttention and vLLM's merge, and plain attention. Caches [pages, Hkv, P, 2 d],
K and V packed."""

import torch


def attend_rows(query, cache, pages, tokens: int, scale: float):
    """query [T, Hq, d] over the first tokens of these pages. Returns results [T, Hq, d] and LSEs [Hq, T]."""
    kv_heads, page_size, width = cache.shape[1:]
    if tokens == 0:
        return torch.zeros_like(query), query.new_full((query.shape[1], len(query)), -torch.inf)
    used = cache[pages[: -(-tokens // page_size)].long()]
    keys = used.transpose(0, 1).reshape(kv_heads, -1, width)[:, :tokens]
    keys = keys.repeat_interleave(query.shape[1] // kv_heads, dim=0)
    k, v = keys.split(width // 2, dim=-1)
    scores = torch.einsum("thd,hsd->hts", query, k) * scale
    lse = scores.logsumexp(-1)
    return torch.einsum("hts,hsd->thd", (scores - lse[..., None]).exp(), v), lse


def plain_attention(query, cache, table, lengths, scale: float):
    """One query token a row; rows of length 0 have zeros."""
    found = [
        attend_rows(query[i : i + 1], cache, torch.as_tensor(table[i]), int(lengths[i]), scale)[0]
        for i in range(len(lengths))
    ]
    return torch.cat(found)


class TorchKernels:
    """forest_cascade.cascade.Kernels. keys_read: of each call, the lengths of sequences that have queries."""

    def __init__(self, cache, scale: float):
        self.cache, self.scale = cache, scale
        self.keys_read: list[int] = []

    def attend(self, query, call):
        starts, lens = call.starts.tolist(), call.lens.tolist()
        assert starts[0] == 0 and starts[-1] == len(query), starts
        assert not call.causal or call.max_queries == 1
        parts, keys = [], 0
        for i, tokens in enumerate(lens):
            queries = query[starts[i] : starts[i + 1]]
            assert len(queries) <= call.max_queries, (len(queries), call.max_queries)
            assert 0 <= tokens <= min(call.max_tokens, call.table.shape[1] * self.cache.shape[2]), tokens
            parts.append(attend_rows(queries, self.cache, call.table[i], tokens, self.scale))
            keys += tokens * bool(len(queries))
        self.keys_read.append(keys)
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts], dim=1)

    def merge(self, output, prefix, suffix):
        (first, first_lse), (second, second_lse) = prefix, suffix
        largest = torch.maximum(first_lse, second_lse)
        largest = torch.where(largest == -torch.inf, 0.0, largest)
        weights = [(lse - largest).exp().T[..., None] for lse in (first_lse, second_lse)]
        total = sum(weights)
        output.copy_((first * weights[0] + second * weights[1]) / torch.where(total == 0, 1.0, total))
