"""The entry point: puts the backend into SGLang's registry. Cheap, idempotent, and without CUDA."""

from __future__ import annotations

from typing import Any

from .. import engine
from . import versions
from .settings import PREFIX, logger, settings, statistics

FLAG = "trunkline"  # of --attention-backend
REPLACED = "fa3"
_REGISTRY = "sglang.srt.layers.attention.attention_registry"
_STATE = "sglang.srt.managers.scheduler.Scheduler.get_internal_state"


def register() -> None:
    """Called by SGLang in each of its processes; as engine.register."""
    engine.register(versions.RELEASES, versions.installed(), settings, _put, prefix=PREFIX, logger=logger)


def _put(mode: str) -> bool:
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.server_args import ATTENTION_BACKEND_CHOICES, add_attention_backend_choices

    name = REPLACED if mode == "override" else FLAG
    there = ATTENTION_BACKENDS.get(name)
    if getattr(there, "is_trunkline", False):
        return False
    owner = getattr(there, "__module__", None)
    if there is not None and (name == FLAG or owner != _REGISTRY):
        logger.warning(
            "Trunkline is off: attention backend %s is %s's already, of another plug-in; SGLANG_PLUGINS chooses which "
            "plug-ins are loaded",
            name,
            owner,
        )
        return False
    ATTENTION_BACKENDS[name] = _factory(ATTENTION_BACKENDS[REPLACED])
    if name not in ATTENTION_BACKEND_CHOICES:
        add_attention_backend_choices([name])
    _report_statistics()
    return True


def _factory(theirs: Any) -> Any:
    """Makes a model runner's backend. theirs: SGLang's factory of fa3."""

    def create(runner: Any) -> Any:
        from .choice import backend_for  # not above: it imports the kernels of the parent

        return backend_for(runner, theirs)

    create.is_trunkline = True  # type: ignore[attr-defined]
    return create


def _report_statistics() -> None:
    """Adds the counters to what a scheduler tells of itself, by SGLang's registry of hooks."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(_STATE, add_statistics, HookType.AFTER)


def add_statistics(result: Any, *_: Any, **__: Any) -> Any:
    """result: of Scheduler.get_internal_state. A scheduler whose backend is not ours has nothing to add."""
    found = statistics()
    if found:
        result.internal_state["trunkline"] = found
    return result
