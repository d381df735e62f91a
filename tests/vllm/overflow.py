"""Shadow mode with requests that overflow: only rows whose KV cache is finite are compared.

A row that sees a NaN has one in Trunkline's output. vLLM's FlashAttention may leave it out: where it splits a request,
a split whose sum is NaN weighs nothing in the merge. So such rows say nothing of isolation; all others must agree.
"""

from typing import Any

import torch
from trunkline.integrations.engine import Shadow
from trunkline.integrations.vllm.impl import TrunklineImpl


def sound_tokens(kv_cache: Any, metadata: Any, tokens: int) -> Any:
    """For each query token, whether all pages of its request are finite. kv_cache [pages, Hkv, P, 2 d]."""
    sound_pages = kv_cache.isfinite().flatten(1).all(1)
    table = metadata.block_table.long().clamp(0, len(sound_pages) - 1)
    first_positions = torch.arange(table.shape[1], device=table.device) * kv_cache.shape[2]
    in_use = first_positions < metadata.seq_lens[:, None]
    sound_rows = (sound_pages[table] | ~in_use).all(1)
    places = torch.arange(tokens, device=table.device)
    rows = torch.searchsorted(metadata.query_start_loc.long(), places, right=True) - 1
    return sound_rows[rows.clamp(0, len(sound_rows) - 1)]


def compare_sound_rows() -> None:
    """Changes the plug-in's classes in this process. Their report then has `unsound`, the vectors left out."""
    forward, compare, report = TrunklineImpl.forward, Shadow.compare, Shadow.report

    # layer, query, key, value, kv_cache and attn_metadata come by position.
    def forward_and_look(self: Any, *given: Any, **named: Any) -> Any:
        query, kv_cache, metadata = given[1], given[4], given[5]
        if getattr(metadata, "theirs", None) is not None:
            metadata.steps.shadow.sound = sound_tokens(kv_cache, metadata.theirs, len(query))
        return forward(self, *given, **named)

    def compare_sound(self: Any, ours: Any, theirs: Any) -> None:
        if not hasattr(self, "unsound"):
            self.unsound = torch.zeros((), dtype=torch.float64, device=ours.device)
        sound = self.sound[: len(ours), None, None]
        self.unsound += (~sound).sum() * ours.shape[1]
        compare(self, torch.where(sound, ours, 1), torch.where(sound, theirs, 1))

    def report_unsound(self: Any) -> dict[str, float]:
        return report(self) | {"unsound": self.unsound.item()}

    TrunklineImpl.forward, Shadow.compare, Shadow.report = forward_and_look, compare_sound, report_unsound
