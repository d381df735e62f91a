"""The environment's switches, read once a process, and the adapter's side of the engine layer."""

from __future__ import annotations

import functools
import logging
from typing import Any

from ..engine import Engine, Groups, Settings
from ..engine import settings as parsing
from . import versions

logger = logging.getLogger("vllm.trunkline")  # under vLLM's own, so that its handlers and levels hold

PREFIX = "TRUNKLINE_VLLM"
MODES = ("custom", "override", "off")
NULL_PAGE = 0  # vLLM's block 0: padding has it, and no request
_GROUPS = Groups()


def from_environment() -> Settings:
    """TRUNKLINE_VLLM and the others that begin with it. The gain rule is off by default: steps of which nothing is
    shared take 0.97 to 1.003 of the time of vLLM's own (bench/results/vllm, vllm033_h100_sides)."""
    return parsing.from_environment(PREFIX, MODES, gain_rule=False)


@functools.cache
def settings() -> Settings:
    return from_environment()


def engine() -> Engine:
    """vLLM, as the engine layer is told of it."""
    return Engine(
        "vLLM",
        logger,
        settings(),
        kv_layout=versions.kv_layout(),
        null_page=NULL_PAGE,
        groups=_GROUPS,
        invariant=invariant(),
        kernel="FlashAttention",
    )


def invariant() -> bool:
    """Whether attention must give a request the same bits in any batch: where all of vLLM must, or by our switch."""
    import vllm.envs as envs  # not above: the entry point's tests have no vLLM

    return settings().invariant or bool(envs.VLLM_BATCH_INVARIANT)


def statistics() -> dict[str, dict[str, Any]]:
    """Counters of each group of layers in this process, by the name of its first layer; in shadow mode with the
    comparison, which waits for the GPU. Call it on the thread that runs the model, as collective_rpc does."""
    return _GROUPS.statistics()
