"""Packages on the CPU by the interfaces of trunkline, vLLM's FlashAttention and FlashInfer, as bench/peers calls them.

Each reads pages through the tables that it was given, so that a wrong table shows.
"""

import dataclasses
import importlib
import types

import torch

CALLS = []  # keywords of FlashAttention's calls


def attend(query, kv, pages, tokens):
    """query [Hq, d]; kv: K and V, [pages, P, Hkv, d]. The output [Hq, d] and the LSE [Hq]."""
    group = query.shape[0] // kv[0].shape[2]
    k, v = (part[pages.long()].flatten(0, 1)[:tokens].float().repeat_interleave(group, 1) for part in kv)
    scores = torch.einsum("hd,thd->ht", query.float(), k) * query.shape[1] ** -0.5
    return torch.einsum("ht,thd->hd", scores.softmax(-1), v), scores.logsumexp(-1)


class DecodeAttention:
    def __init__(self, q_heads, kv_heads, head_dim, page_size, **options):
        self.page_size = page_size
        self.statistics = types.SimpleNamespace(kv_tokens_total=3, kv_tokens_distinct=2, bound_us=7.5)

    def plan(self, table, kv_lens, *, num_pages, device_tables=None):
        self.table, self.kv_lens = table, kv_lens

    def run(self, q, kv, out):
        for row, tokens in enumerate(self.kv_lens.tolist()):
            out[row] = attend(q[row], kv, self.table[row, : -(-tokens // self.page_size)], tokens)[0]
        return out

    def resolve(self):
        pass


class Profile:
    info = {"read_bytes_per_us": 3.12e6, "flops_per_us": 790e6, "launch_us": 4.4}

    @classmethod
    def cuda(cls, *shape, **options):
        return cls()


class BatchDecodeWithPagedKVCacheWrapper:
    def __init__(
        self, workspace, layout, *, use_cuda_graph, use_tensor_cores, paged_kv_indptr_buffer, paged_kv_indices_buffer,
        paged_kv_last_page_len_buffer,
    ):  # fmt: skip
        assert layout == "NHD" and use_cuda_graph
        self.begins, self.pages = paged_kv_indptr_buffer, paged_kv_indices_buffer
        self.last = paged_kv_last_page_len_buffer

    def plan(self, begins, pages, last, q_heads, kv_heads, head_dim, page_size, *, q_data_type, kv_data_type):
        self.begins.copy_(begins)
        self.pages[: len(pages)].copy_(pages)
        self.last.copy_(last)
        self.page_size = page_size

    def run(self, q, kv, out):
        for row, (begin, end) in enumerate(zip(self.begins[:-1].tolist(), self.begins[1:].tolist(), strict=True)):
            tokens = (end - begin - 1) * self.page_size + int(self.last[row])
            out[row] = attend(q[row], kv, self.pages[begin:end], tokens)[0]
        return out


class MultiLevelCascadeAttentionWrapper:
    def __init__(
        self, levels, workspace, layout, *, use_cuda_graph, qo_indptr_buf_arr, paged_kv_indptr_buf_arr,
        paged_kv_indices_buf_arr, paged_kv_last_page_len_buf_arr,
    ):  # fmt: skip
        assert layout == "NHD" and use_cuda_graph
        self.buffers = [
            qo_indptr_buf_arr, paged_kv_indptr_buf_arr, paged_kv_indices_buf_arr, paged_kv_last_page_len_buf_arr,
        ]  # fmt: skip
        assert all(len(buffers) == levels for buffers in self.buffers)

    def plan(self, *given, q_data_type, kv_data_type):
        *lists, _, _, _, self.page_size = given
        for buffers, values in zip(self.buffers, lists, strict=True):
            for buffer, value in zip(buffers, values, strict=True):
                buffer[: len(value)].copy_(value)

    def run(self, q, kv):
        parts = [[] for _ in q]
        for queries, begins, pages, last in zip(*self.buffers, strict=True):
            for run, tail in enumerate(last.tolist()):
                begin, end = begins[run : run + 2].tolist()
                tokens = (end - begin - 1) * self.page_size + tail
                for row in range(*queries[run : run + 2].tolist()):
                    parts[row].append(attend(q[row], kv, pages[begin:end], tokens))
        out = torch.empty_like(q)
        for row, found in enumerate(parts):
            outputs, lses = (torch.stack(values) for values in zip(*found, strict=True))
            out[row] = (lses.softmax(0)[..., None] * outputs).sum(0)
        return out


def flash_attn_varlen_func(**given):
    CALLS.append(given)
    query, kv, table = given["q"], (given["k"], given["v"]), given["block_table"]
    page_size = kv[0].shape[1]
    for row, tokens in enumerate(given["seqused_k"].tolist()):
        pages = table[row, : -(-tokens // page_size)]
        given["out"][row] = attend(query[row], kv, pages, tokens)[0]
    return given["out"], None


def attention(query, key, value, call, *, scale, version, out):
    """forest_cascade.flash's, on the call above."""
    return flash_attn_varlen_func(
        q=query, k=key, v=value, block_table=call.table, seqused_k=call.lens, out=out, num_splits=call.splits,
        scheduler_metadata=call.schedule,
    )  # fmt: skip


@dataclasses.dataclass
class Call:
    starts: object
    lens: object
    table: object
    max_queries: int
    max_tokens: int
    causal: bool
    splits: int
    schedule: object


def modules():
    """By name, for sys.modules."""
    flash = types.SimpleNamespace(
        Heads=lambda *of: of,
        attention=attention,
        flash_attention=lambda: 3,
        scheduled=lambda call, heads: f"schedule of {call.splits}",
    )
    return {
        "trunkline": types.SimpleNamespace(DecodeAttention=DecodeAttention, Profile=Profile, version=lambda: "0"),
        "vllm": types.SimpleNamespace(__version__="0"),
        "flashinfer": types.SimpleNamespace(
            BatchDecodeWithPagedKVCacheWrapper=BatchDecodeWithPagedKVCacheWrapper,
            MultiLevelCascadeAttentionWrapper=MultiLevelCascadeAttentionWrapper,
            __version__="0",
        ),
        "forest_cascade": types.SimpleNamespace(),
        "forest_cascade.cascade": types.SimpleNamespace(Call=Call),
        "forest_cascade.flash": flash,
    }


def makers(names):
    """The comparison's own, which the packages above serve."""
    found = {}
    for name in names:
        module = importlib.import_module(importlib.import_module("peer_method").MODULES[name])
        found[name] = module.METHODS[name]
    if "trunkline" in found:
        made = found["trunkline"]
        found["trunkline"] = lambda case, chosen: moved_by_table(made(case, chosen), case)
    return found


def moved_by_table(ours, case):
    """On a CPU there are no device tables to move."""
    first = ours._table
    ours.move = lambda copy: setattr(ours.attention, "table", first + copy * case.batch.num_pages)
    return ours
