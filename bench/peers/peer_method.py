"""What the comparison asks of a kernel's package, and which packages there are."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Protocol

import torch
from cuda_case import Case
from peer_cases import PeerCase
from replay_timers import Work

# Methods by name, and the module that has each; a module has METHODS, makers by name, and version().
MODULES = {
    "trunkline": "peer_trunkline",
    "fa3": "peer_flash_attention",
    "fa3_splits32": "peer_flash_attention",
    "flashinfer_decode": "peer_flashinfer",
    "flashinfer_decode_tc": "peer_flashinfer",
    "flashinfer_cascade": "peer_flashinfer",
}


class Method(Protocol):
    """One layer's attention by one package. It is planned when made; `out` is what the last run or replay wrote."""

    out: torch.Tensor

    def plan(self) -> None:
        """What the package does once a step before its layers, for the first copy of the cache."""

    def run(self) -> torch.Tensor: ...

    def move(self, copy: int) -> None:
        """The next run or replay reads this copy of the cache."""

    def work(self, name: str) -> Work: ...


# Returns None for a case that the method has no form for.
Maker = Callable[[Case, PeerCase], Method | None]


def load(names: Iterable[str]) -> tuple[dict[str, Maker], dict[str, str]]:
    """Makers and versions of the methods whose packages are installed; others are named on standard error."""
    makers, versions = {}, {}
    for name in names:
        try:
            module = importlib.import_module(MODULES[name])
        except ImportError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        makers[name], versions[name] = module.METHODS[name], module.version()
    return makers, versions
