"""The paged KV cache of continuous batching, as its releases have it."""

from __future__ import annotations

from typing import Any

FULL = "full_attention"


class PagedCache:
    """Reads a PagedAttentionCache, whose layers all have full attention. Page and slot ids are those of the engine's
    tables: token t of page p is in slot p * page_size + t.

    Up to 5.17 each layer has tensors of its own. In 5.24 all layers share one, in which a page of a layer is followed
    by those of the other layers; views begin at the layer's first page, so that ids are the same in all layers.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        allocators = getattr(cache, "cache_allocators", None)
        self._allocator = None if allocators is None else allocators[FULL]
        self.page_size = int(cache.block_size if self._allocator is None else self._allocator.tokens_per_page)
        #: The slot that takes what padding writes.
        self.trash_slot = int((cache if self._allocator is None else self._allocator).write_trash_index)

    def pages(self, layer: int) -> tuple[Any, Any]:
        """K and V of a layer, [pages, P, Hkv, d]."""
        if self._allocator is not None:
            k, v = self._allocator.get_cache_for_block_table(layer)
            return k, v
        group, index = self._cache.layer_index_to_group_indices[layer]
        k, v = self._cache.key_cache[index], self._cache.value_cache[index]
        return k.view(-1, self.page_size, *k.shape[1:]), v.view(-1, self.page_size, *v.shape[1:])


def windowed_layers(cache: Any) -> bool:
    """Whether a cache has pages for sliding windows."""
    allocators = getattr(cache, "cache_allocators", None)
    if allocators is not None:
        return list(allocators) != [FULL]
    return bool(cache.num_sliding_attention_groups)
