"""tests/sglang/engine_check.py without a GPU: SGLang's own engine on the CPU, its fa3 backend with a kernel in torch.

    python tests/sglang/on_cpu.py --page-size 1 --requests 20 --scale 0.1

Scheduler, radix cache, overlap, chunked prefill, retraction and aborts are SGLang's; Trunkline plans and runs on the
CPU. What needs a GPU is replaced in the scheduler's process: FlashAttention 3, by a computation in fp32, and a rotary
embedding. Graphs do not run; with --as-graphs decode steps have the metadata of graphs, and no graph around them.
Takes some minutes.
"""

import dataclasses
import os
import sys
import types
from typing import Any

import engine_check
import torch

AS_GRAPHS = "TRUNKLINE_TEST_AS_GRAPHS"
MOST_ROWS = 24
SMALL = {"--heads": ["4", "2"], "--head-dim": ["64"], "--eager": []}


def attention(
    q: Any, k_cache: Any, v_cache: Any, *, page_table: Any, cache_seqlens: Any, cu_seqlens_q: Any, **more: Any
):
    """FlashAttention 3's call: q [T, Hq, d], caches [pages, P, Hkv, d], causal at the end of each request. Results of
    fp8 have bfloat16."""
    output = torch.empty_like(q, dtype=torch.bfloat16 if q.dtype.itemsize == 1 else q.dtype)
    group, page_size = q.shape[1] // k_cache.shape[2], k_cache.shape[1]
    for row, length in enumerate(cache_seqlens.tolist()):
        begin, end = cu_seqlens_q[row : row + 2].tolist()
        pages = page_table[row, : -(-length // page_size)].long()
        keys, values = (
            cache[pages].flatten(0, 1)[:length].float().repeat_interleave(group, 1) for cache in (k_cache, v_cache)
        )
        logits = torch.einsum("qhd,khd->hqk", q[begin:end].float(), keys) * more["softmax_scale"]
        last = length - (end - begin) + torch.arange(end - begin)
        logits.masked_fill_(torch.arange(length) > last[:, None], float("-inf"))
        output[begin:end] = torch.einsum("hqk,khd->qhd", logits.softmax(-1), values).to(output.dtype)
    return output


def rotary_embedding(positions: Any, query: Any, key: Any, head_size: int, cos_sin: Any, is_neox: bool) -> None:
    """vLLM's, in place: SGLang takes it on the CPU."""
    cos, sin = (part[:, None].float() for part in cos_sin[positions.flatten()].chunk(2, -1))
    for tensor in (query, key):
        heads = tensor.view(len(tensor), -1, head_size)
        a, b = (half.float() for half in heads.chunk(2, -1))
        heads.copy_(torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(heads.dtype))


def decode_metadata(
    lengths: Any, starts: Any, page_table: Any, req_to_token: Any, rows: Any, pages: int, seq_lens: Any, delta: int,
    page_size: int, *_: Any, **__: Any,
) -> None:  # fmt: skip
    """Of graphs: the live pages alone are written, as SGLang's kernel does."""
    lengths.copy_(seq_lens + delta)
    starts[1:].copy_(lengths.cumsum(0))
    for row, length in enumerate(lengths.tolist()):
        live = req_to_token[rows[row], :length:page_size] // page_size
        page_table[row, : len(live)] = live


def with_graphs_metadata(backend: Any) -> None:
    """backend: the class. Decode steps are prepared as the capture of a graph is, and then as its replay."""
    eager = backend.init_forward_metadata

    def init_forward_metadata(self: Any, forward_batch: Any) -> None:
        if not forward_batch.forward_mode.is_decode() or forward_batch.rids is None:
            eager(self, forward_batch)
            return
        if not hasattr(self, "captured_sizes"):
            self.init_cuda_graph_state(MOST_ROWS, MOST_ROWS)
            self.captured_sizes = set()
        if forward_batch.batch_size not in self.captured_sizes:
            self.captured_sizes.add(forward_batch.batch_size)
            self.init_forward_metadata_out_graph(forward_batch, in_capture=True)
        self.init_forward_metadata_out_graph(forward_batch)

    backend.init_forward_metadata = init_forward_metadata


def module(name: str, **content: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(content)
    sys.modules[name] = made
    return made


def replace_kernels() -> None:
    module("vllm", _custom_ops=module("vllm._custom_ops", rotary_embedding=rotary_embedding))
    kernels = module("sgl_kernel", merge_state_v2=None)  # it does not load without a GPU
    kernels.flash_attn = module(
        "sgl_kernel.flash_attn",
        flash_attn_varlen_func=attention,
        flash_attn_with_kvcache=attention,
        get_scheduler_metadata=lambda **_: None,
    )
    from sglang.srt.layers.attention import attention_registry, flashattention_backend

    flashattention_backend.flash_attn_with_kvcache = attention
    flashattention_backend.get_device_capability = lambda *_: (9, 0)

    def create(runner: Any) -> Any:
        return flashattention_backend.FlashAttentionBackend(runner)

    create.__module__ = attention_registry.__name__
    attention_registry.ATTENTION_BACKENDS["fa3"] = create
    from trunkline.integrations.sglang import choice, runner_facts

    if os.environ.get(AS_GRAPHS) == "1":
        from trunkline.integrations.sglang import backend

        flashattention_backend.normal_decode_set_metadata = decode_metadata
        with_graphs_metadata(backend.TrunklineAttnBackend)
    facts_of = runner_facts.RunnerFacts.facts_of
    choice.runs_fa3 = lambda runner: True
    runner_facts.RunnerFacts.facts_of = lambda *given: dataclasses.replace(facts_of(*given), device="cpu")


def run_scheduler(*given: Any, **named: Any) -> None:
    """In the scheduler's process."""
    replace_kernels()
    from sglang.srt.managers import scheduler

    scheduler.run_scheduler_process(*given, **named)


def main() -> int:
    import sglang
    from sglang.srt.entrypoints import engine

    if "--as-graphs" in sys.argv:
        sys.argv.remove("--as-graphs")
        os.environ[AS_GRAPHS] = "1"
    for name, values in SMALL.items():
        if name not in sys.argv:
            sys.argv += [name, *values]
    of_gpu = engine_check.engine_arguments

    def of_cpu(options: Any, model: str) -> dict:
        changed = {"device": "cpu", "mem_fraction_static": 0.2, "max_running_requests": MOST_ROWS}
        return {name: value for name, value in of_gpu(options, model).items() if "graph_max" not in name} | changed

    engine_check.engine_arguments = of_cpu
    engine.Engine.run_scheduler_process_func = staticmethod(run_scheduler)
    sglang.Engine = engine.Engine
    return engine_check.main()


if __name__ == "__main__":
    sys.exit(main())
