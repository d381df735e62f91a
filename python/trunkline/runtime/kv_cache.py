"""The keys and values of all layers, in tensors of numpy or torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import errors

Pairs = npt.NDArray[Any]


class KVCache:
    """Caches [pages, P, Hkv, d] of each layer's K and V, which are written by slots.

    layers: pairs (k, v) of numpy arrays or torch tensors, without gaps.
    """

    def __init__(self, layers: Sequence[tuple[Any, Any]]) -> None:
        self.layers = list(layers)
        self._flat = [tuple(self._by_slot(cache) for cache in pair) for pair in self.layers]
        first = self._flat[0][0]
        self._torch = None if isinstance(first, np.ndarray) else sys.modules["torch"]
        self._device = None if self._torch is None else first.device

    @staticmethod
    def _by_slot(cache: Any) -> Any:
        pages, page_size, heads, dim = cache.shape
        flat = cache.reshape(pages * page_size, heads, dim)
        if isinstance(cache, np.ndarray) and not np.shares_memory(flat, cache):
            raise errors.InvalidArgumentError(f"a cache has strides {cache.strides}; expected: none between its pages")
        return flat

    def index(self, slots: npt.NDArray[Any]) -> Any:
        """Slots as the caches' library indexes by them."""
        if self._torch is None:
            return slots
        return self._torch.as_tensor(slots, device=self._device)

    def write(self, layer: int, index: Any, k: Any, v: Any) -> None:
        """Keys and values [T, Hkv, d] of a step's tokens. index: of their slots, by index()."""
        for cache, given in zip(self._flat[layer], (k, v)):
            cache[index] = given

    def save(self, index: Any) -> list[list[Any]]:
        """Copies of the keys and values of slots, [T, Hkv, d] of each layer, in host memory. index: by index()."""
        kept = [[cache[index] for cache in pair] for pair in self._flat]  # indexing by a list copies
        return kept if self._torch is None else [[part.cpu() for part in pair] for pair in kept]

    def restore(self, index: Any, kept: list[list[Any]], begin: int = 0) -> None:
        """Writes what save() gave to other slots, from token `begin` on."""
        for pair, saved in zip(self._flat, kept):
            for cache, part in zip(pair, saved):
                cache[index] = part[begin:] if self._torch is None else part[begin:].to(self._device)

    def copy(self, pairs: Pairs) -> None:
        """Copies slots, from column 0 to column 1, in all layers. All are read before one is written."""
        if not len(pairs):
            return
        source, target = self.index(pairs[:, 0].copy()), self.index(pairs[:, 1].copy())
        for pair in self._flat:
            for cache in pair:
                cache[target] = cache[source]
