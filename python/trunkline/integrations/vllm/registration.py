"""The entry point: puts the backend into vLLM's registry. Cheap, idempotent, and without CUDA."""

from __future__ import annotations

from typing import Any

from .. import engine
from . import versions
from .settings import PREFIX, logger, settings

_BACKENDS = {"custom": ("CUSTOM", "TrunklineBackend"), "override": ("FLASH_ATTN", "TrunklineFlashBackend")}


def register() -> None:
    """Called by vLLM in each of its processes, at times more than once; as engine.register."""
    engine.register(versions.RELEASES, versions.installed(), settings, _put, prefix=PREFIX, logger=logger)


def _put(mode: str) -> bool:
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    slot, name = _BACKENDS[mode]
    path = f"{__package__}.backend.{name}"
    member: Any = AttentionBackendEnum[slot]
    if member.is_overridden():
        there = member.get_path()
        if there != path:
            logger.warning(
                "Trunkline is off: attention backend %s is %s already, of another plug-in; VLLM_PLUGINS chooses which "
                "plug-ins are loaded",
                slot,
                there,
            )
        return False
    register_backend(member, path)
    return True
