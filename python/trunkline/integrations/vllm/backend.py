"""The backend that vLLM's registry names: FlashAttention's, with decode rows on Trunkline."""

from __future__ import annotations

from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend

from .builder import TrunklineMetadataBuilder
from .impl import TrunklineImpl


class TrunklineBackend(FlashAttentionBackend):
    """For --attention-backend CUSTOM. What it supports is what FlashAttention does: it runs all that we do not."""

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"  # a member of vLLM's enumeration, by which layers look it up

    @staticmethod
    def get_impl_cls() -> type[TrunklineImpl]:
        return TrunklineImpl

    @staticmethod
    def get_builder_cls() -> type[TrunklineMetadataBuilder]:
        return TrunklineMetadataBuilder


class TrunklineFlashBackend(TrunklineBackend):
    """In place of FLASH_ATTN."""

    @staticmethod
    def get_name() -> str:
        return "FLASH_ATTN"
