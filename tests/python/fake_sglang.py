"""As much of SGLang 0.5.23 as the plug-in touches, on the CPU; its fa3 backend is the oracle.

Its steps are as the real one's: tables of token slots in a pool whose rows the scheduler rewrites, graphs that read one
persistent page table, and eager steps whose page table is made anew.
"""

from __future__ import annotations

import enum
import importlib
import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracle
import torch

PACKAGE = "trunkline.integrations.sglang."
OURS = [PACKAGE + name for name in ("runner_facts", "cache_write", "backend", "choice")]


class ForwardMode(enum.Enum):
    EXTEND = 1
    DECODE = 2
    IDLE = 3
    TARGET_VERIFY = 4

    def is_decode(self) -> bool:
        return self is ForwardMode.DECODE

    def is_target_verify(self) -> bool:
        return self is ForwardMode.TARGET_VERIFY


class AttentionType(enum.Enum):
    DECODER = "decoder"
    ENCODER_ONLY = "encoder_only"


class RadixAttention(torch.nn.Module):
    def __init__(self, heads: int, kv_heads: int, dim: int, layer_id: int, **changes: Any) -> None:
        super().__init__()
        self.tp_q_head_num, self.tp_k_head_num, self.tp_v_head_num = heads, kv_heads, kv_heads
        self.head_dim = self.v_head_dim = dim
        self.scaling, self.layer_id, self.logit_cap, self.sliding_window_size = dim**-0.5, layer_id, 0.0, -1
        self.is_cross_attention, self.use_irope, self.xai_temperature_len = False, False, -1
        self.pos_encoding_mode, self.attn_type = "NONE", AttentionType.DECODER
        self.k_scale = self.v_scale = None
        vars(self).update(changes)


@dataclass
class KVWriteLoc:
    loc: Any

    @classmethod
    def for_layer(cls, forward_batch: Any, layer: Any, *, swa_loc: Any = None) -> KVWriteLoc:
        return cls(forward_batch.out_cache_loc)


class MHATokenToKVPool:
    """Slots of all layers; slot 0 is padding. hnd: pages with the heads outside, [pages, Hkv, P, d]. dtype: fp8 is
    stored as bytes."""

    def __init__(
        self, slots: int, page_size: int, kv_heads: int, dim: int, layers: int, hnd: bool, dtype: torch.dtype
    ) -> None:
        self.page_size, self.hnd, self.dtype = page_size, hnd, dtype
        self.store_dtype = torch.uint8 if dtype.itemsize == 1 else dtype
        shape = (slots // page_size, kv_heads, page_size, dim) if hnd else (slots, kv_heads, dim)
        random = np.random.default_rng(5)
        self.k, self.v = (
            [
                torch.from_numpy(random.standard_normal(shape, np.float32)).to(dtype).view(self.store_dtype)
                for _ in range(layers)
            ]
            for _ in "kv"
        )

    def get_kv_buffer(self, layer_id: int) -> tuple[Any, Any]:
        return self.k[layer_id].view(self.dtype), self.v[layer_id].view(self.dtype)

    def set_kv_buffer(self, layer: Any, place: Any, k: Any, v: Any, k_scale: Any = None, v_scale: Any = None) -> None:
        """Divides k and v in place where it rounds them, as the real one does."""
        slots = getattr(place, "loc", place)
        for buffer, new, scale in ((self.k[layer.layer_id], k, k_scale), (self.v[layer.layer_id], v, v_scale)):
            if new.dtype != self.dtype:
                if scale is not None:
                    new.div_(scale)
                new = new.to(self.dtype).view(self.store_dtype)
            if self.hnd:
                buffer[slots // self.page_size, :, slots % self.page_size] = new
            else:
                buffer[slots] = new


class SWAKVPool(MHATokenToKVPool):
    pass


class MHATokenToKVPoolMXFP8(MHATokenToKVPool):
    """Has scales of blocks beside K and V."""


@dataclass
class Metadata:
    cache_seqlens_int32: Any
    page_table: Any
    cu_seqlens_q: Any
    max_seq_len_q: int = 1
    scheduler_metadata: Any = None


class FlashAttentionBackend:
    """rows_run: requests in all calls of its kernel. aliases_rows: eager steps read the pool's rows in place, where
    the batch has consecutive ones: what a parent without a copy of its own would do."""

    aliases_rows = False

    def __init__(self, runner: Any) -> None:
        self.device, self.page_size, self.max_context_len = runner.device, runner.page_size, runner.context
        self.req_to_token = runner.req_to_token_pool.req_to_token
        self.token_to_kv_pool, self.kv_cache_dtype = runner.token_to_kv_pool, runner.kv_cache_dtype
        self.speculative_num_draft_tokens = runner.given.get("speculative_num_draft_tokens") or 1
        self.forward_metadata: Any = None
        self.rows_run = self.schedules = 0

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        pages = -(-self.max_context_len // self.page_size)
        self.decode_cuda_graph_metadata, self.target_verify_metadata = (
            {
                "page_table": torch.zeros(max_bs, pages, dtype=torch.int32),
                "cache_seqlens": torch.zeros(max_bs, dtype=torch.int32),
            }
            for _ in range(2)
        )

    def _compute_scheduler_metadata(self, *_: Any) -> Any:
        self.schedules += 1
        return object()

    def init_forward_metadata(self, batch: Any) -> None:
        a_row = self._queries(batch.forward_mode)
        lengths = (batch.seq_lens + (a_row if a_row > 1 else 0)).to(torch.int32)
        longest = int(lengths.max()) if len(lengths) else 0
        rows = batch.req_pool_indices
        if self.aliases_rows:
            table = self.req_to_token[int(rows[0]) : int(rows[0]) + len(rows)]
            assert rows.tolist() == list(range(int(rows[0]), int(rows[0]) + len(rows)))
        else:
            table = self.req_to_token[rows, :longest]
        if self.page_size > 1:
            table = table[:, :: self.page_size] // self.page_size
        self.forward_metadata = Metadata(lengths, table, self._starts(len(rows), a_row), a_row)
        if batch.forward_mode.is_decode():
            self.forward_metadata.scheduler_metadata = self._compute_scheduler_metadata()

    def init_forward_metadata_out_graph(self, batch: Any, in_capture: bool = False) -> None:
        a_row = self._queries(batch.forward_mode)
        held = self.target_verify_metadata if batch.forward_mode.is_target_verify() else self.decode_cuda_graph_metadata
        rows = batch.batch_size
        table, lengths = held["page_table"][:rows], held["cache_seqlens"][:rows]
        lengths.copy_(batch.seq_lens + (a_row if a_row > 1 else 0))
        for row in range(rows):  # the live pages alone, as the real kernel
            live = self.req_to_token[batch.req_pool_indices[row], : int(lengths[row]) : self.page_size]
            table[row, : len(live)] = live // self.page_size
        self.forward_metadata = Metadata(lengths, table, self._starts(rows, a_row), a_row)
        if batch.forward_mode.is_decode():
            self.forward_metadata.scheduler_metadata = self._compute_scheduler_metadata()

    def _queries(self, mode: ForwardMode) -> int:
        return self.speculative_num_draft_tokens if mode.is_target_verify() else 1

    def _starts(self, rows: int, a_row: int) -> Any:
        return torch.arange(rows + 1, dtype=torch.int32) * a_row

    def get_paged_mha_kv_cache(self, layer: Any) -> tuple[Any, Any]:
        """As views, whatever the layout."""
        k, v = self.token_to_kv_pool.get_kv_buffer(layer.layer_id)
        if self.token_to_kv_pool.hnd:
            return k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
        shape = -1, self.page_size, layer.tp_k_head_num, layer.head_dim
        return k.view(shape), v.view(shape)

    def forward_decode(self, *given: Any, **named: Any) -> Any:
        return self._attend(*given, **named)

    def forward_extend(self, *given: Any, **named: Any) -> Any:
        return self._attend(*given, **named)

    def _attend(self, q: Any, k: Any, v: Any, layer: Any, batch: Any, save_kv_cache: bool = True, **_: Any) -> Any:
        if k is not None and save_kv_cache:
            place = KVWriteLoc.for_layer(batch, layer)
            self.token_to_kv_pool.set_kv_buffer(layer, place, k, v, layer.k_scale, layer.v_scale)
        found = self.forward_metadata
        self.rows_run += len(found.cache_seqlens_int32)
        return attention(self, q.to(self.kv_cache_dtype).float(), layer, found)


class OldFlashAttentionBackend(FlashAttentionBackend):
    """The hooks around graphs up to 0.5.12."""

    def init_forward_metadata_capture_cuda_graph(
        self, bs: int, num_tokens: int, rows: Any, lengths: Any, encoder_lens: Any, mode: ForwardMode, spec_info: Any
    ) -> None:
        self._of_graph(bs, rows, lengths, mode)

    def init_forward_metadata_replay_cuda_graph(
        self,
        bs: int,
        rows: Any,
        lengths: Any,
        lengths_sum: Any,
        encoder_lens: Any,
        mode: ForwardMode,
        spec_info: Any,
        seq_lens_cpu: Any,
        out_cache_loc: Any = None,
    ) -> None:
        self._of_graph(bs, rows, lengths, mode)

    def _of_graph(self, bs: int, rows: Any, lengths: Any, mode: ForwardMode) -> None:
        batch = types.SimpleNamespace(batch_size=bs, req_pool_indices=rows, seq_lens=lengths, forward_mode=mode)
        FlashAttentionBackend.init_forward_metadata_out_graph(self, batch)


def attention(backend: Any, q: Any, layer: Any, found: Metadata) -> Any:
    """What a kernel computes, in fp64; of queries as they are."""
    k, v = (cache.float() for cache in backend.get_paged_mha_kv_cache(layer))
    if layer.k_scale is not None:
        k, v = k * layer.k_scale, v * layer.v_scale
    expected, _ = oracle.attention(
        q.reshape(-1, layer.tp_q_head_num, layer.head_dim).numpy(),
        k.numpy(),
        v.numpy(),
        found.page_table.numpy(),
        found.cache_seqlens_int32.numpy(),
        query_start=found.cu_seqlens_q.numpy(),
    )
    return torch.from_numpy(expected.astype(np.float32)).reshape(q.shape[0], -1)


def factory_of_fa3(runner: Any) -> Any:
    return FlashAttentionBackend(runner)


factory_of_fa3.__module__ = "sglang.srt.layers.attention.attention_registry"


class HookType(enum.Enum):
    AFTER = "after"


class HookRegistry:
    hooks: dict[str, Any] = {}

    @classmethod
    def register(cls, target: str, hook: Any, hook_type: HookType) -> None:
        cls.hooks[target] = hook


def install(monkeypatch: Any, given: dict[str, Any], backend: type = FlashAttentionBackend) -> types.SimpleNamespace:
    """Puts modules in the place of SGLang's. given: the server's resolved arguments. backend: fa3's. Returns the
    plug-in's modules that import SGLang, imported with them, and the registries."""
    backends: dict[str, Any] = {"fa3": factory_of_fa3}
    choices = ["triton", "fa3"]
    HookRegistry.hooks = {}
    context = types.SimpleNamespace(resolved_server_args_dict=lambda: given)
    contents: dict[str, dict[str, Any]] = {
        "sglang": {},
        "sglang.srt": {},
        "sglang.srt.layers": {},
        "sglang.srt.layers.attention": {},
        "sglang.srt.layers.attention.attention_registry": {"ATTENTION_BACKENDS": backends},
        "sglang.srt.layers.attention.flashattention_backend": {"FlashAttentionBackend": backend},
        "sglang.srt.layers.radix_attention": {"RadixAttention": RadixAttention},
        "sglang.srt.mem_cache": {},
        "sglang.srt.mem_cache.memory_pool": {"KVWriteLoc": KVWriteLoc},
        "sglang.srt.plugins": {},
        "sglang.srt.plugins.hook_registry": {"HookRegistry": HookRegistry, "HookType": HookType},
        "sglang.srt.runtime_context": {"get_context": lambda: context},
        "sglang.srt.server_args": {
            "ATTENTION_BACKEND_CHOICES": choices,
            "add_attention_backend_choices": choices.extend,
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
    found = {name.removeprefix(PACKAGE): importlib.import_module(name) for name in OURS}
    return types.SimpleNamespace(**found, backends=backends, choices=choices, hooks=HookRegistry.hooks)
