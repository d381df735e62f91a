"""Writes a step's keys and values into the cache, as the parent's forward does before its kernel."""

from __future__ import annotations

from typing import Any

try:
    from sglang.srt.mem_cache.memory_pool import KVWriteLoc
except ImportError:  # 0.5.12: the places themselves
    KVWriteLoc = None


def write(backend: Any, layer: Any, forward_batch: Any, k: Any, v: Any) -> None:
    """k, v [T, Hkv, d]. Of layers that Trunkline runs: no cross attention, no window. The pool rounds them to its
    type."""
    pool = getattr(backend, "token_to_kv_pool", None)
    if pool is None:  # 0.5.12
        pool = forward_batch.token_to_kv_pool
    pool.set_kv_buffer(layer, _places(layer, forward_batch), k, v, layer.k_scale, layer.v_scale)


def _places(layer: Any, forward_batch: Any) -> Any:
    if KVWriteLoc is None:
        return forward_batch.out_cache_loc
    if hasattr(KVWriteLoc, "for_layer"):
        return KVWriteLoc.for_layer(forward_batch, layer)
    return KVWriteLoc(forward_batch.out_cache_loc)


def pages(backend: Any, layer: Any, forward_batch: Any) -> tuple[Any, Any]:
    """The layer's cache as [pages, P, Hkv, d], by the parent where it has a function for it: views, nothing copied."""
    if hasattr(backend, "get_paged_mha_kv_cache"):
        k, v = backend.get_paged_mha_kv_cache(layer)
        return k, v
    pool = getattr(backend, "token_to_kv_pool", None) or forward_batch.token_to_kv_pool
    shape = -1, backend.page_size, layer.tp_k_head_num, layer.head_dim
    k, v = pool.get_kv_buffer(layer.layer_id)
    return k.view(shape), v.view(shape)
