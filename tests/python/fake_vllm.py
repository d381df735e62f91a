"""As much of vLLM as the plug-in's builder and implementation touch, on the CPU; its FlashAttention is the oracle."""

from __future__ import annotations

import enum
import importlib
import sys
import types
from dataclasses import dataclass, replace
from typing import Any

import oracle
import torch

# What vLLM's caches are viewed as, which are of bytes. Its FlashAttention has e4m3 alone.
FP8 = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
OURS = [f"trunkline.integrations.vllm.{name}" for name in ("group_facts", "builder", "impl")]


class AttentionCGSupport(enum.Enum):
    NEVER = 0
    UNIFORM_SINGLE_TOKEN_DECODE = 1
    UNIFORM_BATCH = 2
    ALWAYS = 3


@dataclass
class FlashAttentionMetadata:
    num_actual_tokens: int
    max_query_len: int
    query_start_loc: Any
    max_seq_len: int
    seq_lens: Any
    block_table: Any
    slot_mapping: Any


class FlashAttentionMetadataBuilder:
    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any) -> None:
        self.layer_names, self.vllm_config, self.device = layer_names, vllm_config, device
        self.reorder_batch_threshold = None

    @classmethod
    def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> AttentionCGSupport:
        return AttentionCGSupport.ALWAYS

    def _init_reorder_batch_threshold(self, threshold: int, supports_spec_as_decode: bool) -> None:
        self.reorder_batch_threshold = threshold

    def build(self, common_prefix_len: int, common: Any, fast_build: bool = False) -> FlashAttentionMetadata:
        return FlashAttentionMetadata(
            num_actual_tokens=common.num_actual_tokens,
            max_query_len=common.max_query_len,
            query_start_loc=common.query_start_loc,
            max_seq_len=common.max_seq_len,
            seq_lens=common.seq_lens,
            block_table=common.block_table_tensor,
            slot_mapping=common.slot_mapping,
        )

    def build_for_cudagraph_capture(self, common: Any) -> Any:
        return self.build(0, common)


class Attention:
    """A layer with its scales: a number for all heads in a tensor without dimensions, or one for each KV head."""

    def __init__(self) -> None:
        self._q_scale, self._k_scale, self._v_scale = (torch.tensor(1.0) for _ in "qkv")

    def rounded(self, query: Any) -> Any:
        """Queries [T, Hq, d] as vLLM hands them to a backend whose cache is of fp8."""
        return (query / self.of_queries(query.shape[1])).to(torch.float8_e4m3fn)

    def of_queries(self, heads: int) -> Any:
        scale = self._q_scale.reshape(-1)
        return scale.repeat_interleave(heads // len(scale))[:, None]


class FlashAttentionImpl:
    """rows_run: requests in all calls."""

    sliding_window, logits_soft_cap, alibi_slopes, sinks = (-1, -1), 0, None, None
    kv_cache_dtype, attn_type = "auto", "decoder"

    def __init__(self, num_heads: int, num_kv_heads: int, head_size: int) -> None:
        self.num_heads, self.num_kv_heads, self.head_size = num_heads, num_kv_heads, head_size
        self.scale, self.rows_run = head_size**-0.5, 0

    def forward(self, layer: Any, query: Any, key: Any, value: Any, kv_cache: Any, found: Any, output: Any) -> Any:
        """kv_cache [pages, Hkv, P, 2 d], or [pages, 2, P, Hkv, d]."""
        starts, lengths = found.query_start_loc.numpy(), found.seq_lens.numpy()
        self.rows_run += len(lengths)
        scales = [1.0, 1.0]
        if self.kv_cache_dtype in FP8:
            kv_cache = kv_cache.view(FP8[self.kv_cache_dtype]).float()
            if query.dtype == torch.float8_e4m3fn:
                query = query.float() * layer.of_queries(self.num_heads)
            scales = [scale.reshape(-1, 1).numpy() for scale in (layer._k_scale, layer._v_scale)]
        if kv_cache.dim() == 5:
            k, v = (half.numpy() for half in kv_cache.unbind(1))
        else:
            k, v = (half.numpy().transpose(0, 2, 1, 3) for half in kv_cache.split(self.head_size, -1))
        k, v = k * scales[0], v * scales[1]
        tokens = slice(int(starts[0]), int(starts[-1]))
        expected, _ = oracle.attention(
            query[tokens].numpy(), k, v, found.block_table.numpy(), lengths, query_start=starts - starts[0]
        )
        output[tokens] = output.new_tensor(expected)
        return output


@dataclass
class Common:
    """vLLM's CommonAttentionMetadata."""

    query_start_loc: Any
    query_start_loc_cpu: Any
    seq_lens: Any
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    block_table_tensor: Any
    slot_mapping: Any
    causal: bool = True

    def replace(self, **changes: Any) -> Common:
        return replace(self, **changes)


def install(monkeypatch: Any, layers: dict[str, Any]) -> types.SimpleNamespace:
    """Puts modules in the place of vLLM's. Returns the plug-in's builder and impl modules, imported with them."""
    contents: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.envs": {"VLLM_BATCH_INVARIANT": False},
        "vllm.config": {"get_layers_from_vllm_config": lambda config, kind, names: {n: layers[n] for n in names}},
        "vllm.model_executor": {},
        "vllm.model_executor.layers": {},
        "vllm.model_executor.layers.attention": {"Attention": object},
        "vllm.v1": {},
        "vllm.v1.attention": {},
        "vllm.v1.attention.backend": {"AttentionCGSupport": AttentionCGSupport},
        "vllm.v1.attention.backends": {},
        "vllm.v1.attention.backends.flash_attn": {
            kind.__name__: kind for kind in (FlashAttentionMetadata, FlashAttentionMetadataBuilder, FlashAttentionImpl)
        },
    }
    for name, content in contents.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    for name in OURS:  # imported anew, and gone after the test, as their base classes are
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    found = [importlib.import_module(name) for name in OURS]
    return types.SimpleNamespace(builder=found[1], impl=found[2])
