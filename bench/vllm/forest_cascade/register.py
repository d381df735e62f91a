"""Puts the backend into vLLM's registry: then `--attention-backend CUSTOM` is our port of FCA.

To be called in each process of an engine, before the engine starts. Folder bench/vllm must be on the path. It takes
the slot that Trunkline's plug-in has by default: set TRUNKLINE_VLLM=off.
"""

from __future__ import annotations

from .limits import limits

PATH = f"{__package__}.backend.ForestCascadeBackend"


def register() -> None:
    """Raises ValueError where FOREST_CASCADE is wrong, RuntimeError where the slot is another's."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    limits()
    slot = AttentionBackendEnum.CUSTOM
    if slot.is_overridden() and slot.get_path() != PATH:
        raise RuntimeError(f"attention backend CUSTOM is {slot.get_path()} already; TRUNKLINE_VLLM=off turns ours off")
    register_backend(slot, PATH)
