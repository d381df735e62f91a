"""A layer's attention: decode rows on Trunkline, the others by vLLM's FlashAttention."""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.attention.backends.flash_attn import FlashAttentionImpl

from ..engine.capability import NARROW_DTYPES
from .builder import TrunklineMetadata


class TrunklineImpl(FlashAttentionImpl):
    """Takes what the builder planned, and leaves all else to the parent."""

    def forward(
        self,
        layer: Any,
        query: Any,
        key: Any,
        value: Any,
        kv_cache: Any,
        attn_metadata: Any,
        output: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """query [T, Hq, d], T padded; kv_cache [pages, Hkv, P, 2 d] with any strides, K and V packed in the last
        dimension; before vLLM 0.26 [pages, 2, P, Hkv, d]; bytes where it is of fp8, beside which vLLM rounds queries to
        fp8, too. Writes into output [T, Hq, d] and returns it."""
        run_theirs = super().forward
        if not isinstance(attn_metadata, TrunklineMetadata) or args or any(x is not None for x in kwargs.values()):
            # Profiling, steps that are not ours, and outputs that are to be quantised, which the parent refuses.
            return run_theirs(layer, query, key, value, kv_cache, attn_metadata, output, *args, **kwargs)
        new = query, key, value
        if attn_metadata.theirs is None:
            self._serve(layer, new, kv_cache, attn_metadata, output)
            return output
        run_theirs(layer, *new, kv_cache, attn_metadata.theirs, output)
        found = torch.empty_like(output)
        self._serve(layer, new, kv_cache, attn_metadata, found)
        attn_metadata.steps.shadow.compare(found, output)
        return output

    def _serve(self, layer: Any, new: Any, kv_cache: Any, attn_metadata: TrunklineMetadata, output: Any) -> None:
        """new: query, key and value. No views of a packed cache of 16 bits: outside graphs each takes the host some
        us."""
        query, cache, tokens = new[0], kv_cache, attn_metadata.decode_tokens
        variant = {"soft_cap": self.logits_soft_cap or None, "sinks": self.sinks}
        narrow = NARROW_DTYPES.get(self.kv_cache_dtype)
        if narrow is not None:
            cache = cache.view(getattr(torch, narrow))
            variant |= {"k_scale": layer._k_scale, "v_scale": layer._v_scale}
            if query.dtype.itemsize == 1:
                # Rounded before this is called, for prefill rows as well. Our kernels take 16 bits, which have each
                # value of 8 bits.
                query = query[:tokens].to(output.dtype)
                variant["q_scale"] = layer._q_scale
        if cache.dim() == 5:
            cache = cache.unbind(1)
        attn_metadata.steps.run(query, cache, output, self.scale, tokens, **variant)
        if attn_metadata.rest is not None:
            super().forward(layer, *new, kv_cache, attn_metadata.rest, output)
