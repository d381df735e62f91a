"""The entry point: puts the backend into vLLM's registry. Cheap, idempotent, and without CUDA."""

from __future__ import annotations

from typing import Any

from ... import errors
from . import versions
from .settings import logger, settings

_BACKENDS = {"custom": ("CUSTOM", "TrunklineBackend"), "override": ("FLASH_ATTN", "TrunklineFlashBackend")}


def register() -> None:
    """Called by vLLM in each of its processes, at times more than once. Never raises: where the plug-in cannot be, vLLM
    goes on without it, and a line in the log says why."""
    try:
        mode = settings().mode
    except errors.InvalidArgumentError as wrong:
        logger.error("Trunkline is off: %s", wrong)
        return
    if mode == "off":
        return
    refusal = versions.refusal(versions.installed())
    if refusal is not None:
        logger.warning("Trunkline is off: %s", refusal)
        return
    try:
        _put(*_BACKENDS[mode])
    except Exception as wrong:  # whatever vLLM has become: it must start without us
        logger.warning("Trunkline is off: registering failed: %s: %s", type(wrong).__name__, wrong)


def _put(slot: str, name: str) -> None:
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

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
        return
    register_backend(member, path)
    version = versions.installed()
    if version is not None and versions.release(version) not in versions.RUN:
        logger.info(
            "Trunkline is tested by running models in vLLM %s; here is %s: TRUNKLINE_VLLM_SHADOW=1 compares each "
            "result with vLLM's own",
            " and ".join(f"{major}.{minor}" for major, minor in versions.RUN),
            version,
        )
