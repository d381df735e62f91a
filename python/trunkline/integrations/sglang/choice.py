"""Whether a model runner gets Trunkline's backend or SGLang's own."""

from __future__ import annotations

from typing import Any

from ..engine import LayerFacts, leave, takes_layers
from .runner_facts import Group, groups_of, runner_facts
from .settings import engine, logger


def backend_for(runner: Any, theirs: Any) -> Any:
    """theirs: SGLang's factory of fa3, for a draft model, for another GPU than fa3 runs on (it says so), and where no
    layer is Trunkline's."""
    if runner.is_draft_worker or not runs_fa3(runner):
        return theirs(runner)
    runner_wide = runner_facts(runner)
    described = engine(runner_wide.deterministic)
    taken: list[tuple[Group, LayerFacts]] = []
    groups = groups_of(runner)
    for group in groups:
        facts = runner_wide.facts_of(group)
        if takes_layers(described, facts, group.names):
            taken.append((group, facts))
    if not taken:
        logger.warning("Trunkline has no layer of this model; SGLang's fa3 runs all of it")
        return theirs(runner)
    taken.sort(key=lambda found: -len(found[0].names))
    for other, _ in taken[1:]:
        leave(described, other.names, "layers of another shape have more of the model")
    group, facts = taken[0]
    logger.info("Trunkline runs the decode rows of %d layers from %s", len(group.names), group.names[0])
    from .backend import TrunklineAttnBackend

    return TrunklineAttnBackend(runner, described, group, facts, whole=len(groups) == 1)


def runs_fa3(runner: Any) -> bool:
    """As SGLang's factory asks, without its assertion: CUDA with compute capability 8 or 9, and no latent attention."""
    if not str(runner.device).startswith("cuda") or runner.use_mla_backend:
        return False
    import torch

    return torch.cuda.get_device_capability()[0] in (8, 9)
