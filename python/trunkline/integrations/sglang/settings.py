"""The environment's switches, read once a process, and the adapter's side of the engine layer."""

from __future__ import annotations

import functools
import logging
from typing import Any

from ..engine import Engine, Groups, Settings
from ..engine import settings as parsing

logger = logging.getLogger("sglang.srt.trunkline")  # under SGLang's own, so that its handlers and levels hold

PREFIX = "TRUNKLINE_SGLANG"
MODES = ("flag", "override", "off")
NULL_PAGE = 0  # SGLang's slot 0, and so page 0 at any page size: padding has it, and no request
_GROUPS = Groups()


def from_environment() -> Settings:
    """TRUNKLINE_SGLANG and the others that begin with it. The gain rule is off by default, as in vLLM: it could act
    in steps without graphs alone."""
    return parsing.from_environment(PREFIX, MODES, gain_rule=False)


@functools.cache
def settings() -> Settings:
    return from_environment()


def engine(invariant: bool = False) -> Engine:
    """SGLang, as the engine layer is told of it. invariant: the server asks for deterministic results."""
    return Engine(
        "SGLang",
        logger,
        settings(),
        kv_layout="NHD",
        null_page=NULL_PAGE,
        groups=_GROUPS,
        invariant=invariant or settings().invariant,
        kernel="fa3",
    )


def statistics() -> dict[str, dict[str, Any]]:
    """Counters of each group of layers in this process, by the name of its first layer; in shadow mode with the
    comparison, which waits for the GPU. Only the scheduler's processes have some: /server_info has those of rank 0."""
    return _GROUPS.statistics()
