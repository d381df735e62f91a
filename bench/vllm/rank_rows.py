"""Rows of what an engine's ranks counted, and of where they differ.

Each rank of a model that is split over GPUs decides by its own GPU's report whether Trunkline runs the decode rows of a
step with prefill. The reports are of equal plans, but may arrive at different times. A step takes as long as its
slowest rank.
"""

import itertools

DECIDED = ("decode_steps", "mixed_steps", "engine_steps")
PLANNED = ("decode_steps", "shared_steps", "kv_tokens", "kv_tokens_read")


def counter_rows(statistics: list[dict], choices: list[list[str]] | None = None) -> list[dict]:
    """A row of counters for each rank; of several ranks also one that compares them.

    statistics: by rank, of each the counters by group of layers. choices: by rank, as rank_sides.choices gives them.
    """
    rows: list[dict] = [
        {"workload": "counters", "kind": "counters", "rank": rank, "counters": counters}
        for rank, counters in enumerate(statistics)
    ]
    if len(statistics) > 1:
        rows.append({"workload": "ranks", "kind": "ranks", "differ": differences(statistics), **apart(choices or [])})
    return rows


def differences(statistics: list[dict]) -> dict[str, int]:
    """By counter, the largest of all ranks less the smallest, summed over groups of layers: as many steps at least were
    decided differently. A group that a rank lacks counts as 0 there."""
    groups = {group for counters in statistics for group in counters}
    found = dict.fromkeys(DECIDED, 0)
    for group, name in itertools.product(groups, DECIDED):
        values = [counters.get(group, {}).get(name, 0) for counters in statistics]
        found[name] += max(values) - min(values)
    return found


def apart(choices: list[list[str]]) -> dict[str, int]:
    """Counts steps with prefill beside decode rows, over groups of layers, and those in which ranks decided
    differently. A step that a rank did not see counts as one of them."""
    steps = differing = 0
    for group in zip(*choices, strict=True):
        by_step = list(itertools.zip_longest(*group))
        steps += len(by_step)
        differing += sum(len(set(taken)) > 1 for taken in by_step)
    return {"mixed_decisions": steps, "decided_apart": differing}


def plans_since(before: list[dict], after: list[dict]) -> dict[str, int]:
    """The first rank's steps, and tokens of keys and values of all requests and those that plans read, between two
    looks: where both are equal, plans were `flat`."""

    def total(name: str, counted: list[dict]) -> int:
        return sum(counters.get(name, 0) for counters in counted[0].values())

    return {name: total(name, after) - total(name, before) for name in PLANNED}
