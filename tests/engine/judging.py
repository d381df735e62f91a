"""What is wrong with an engine's counters after a run."""

from __future__ import annotations

from typing import Any

FAULTS = ("overflows", "unplanned", "bad_lengths", "bad_queries")


def judge(found: list[dict[str, Any]], *, shadow: bool, overflow: bool = False) -> list[str]:
    """found: by rank, the counters of each group of layers, as the plug-in's statistics() gives them. shadow: the run
    compared each result. overflow: some requests were to overflow."""
    wrong = [] if found and all(found) else ["a rank has no layers on Trunkline"]
    for rank, groups in enumerate(found):
        for name, counted in groups.items():
            where = f"rank {rank}, {name}"
            if not counted["decode_steps"] or not counted["shared_steps"]:
                wrong.append(f"{where}: no steps, or none that share")
            faults = {name: counted[name] for name in FAULTS}
            if any(faults.values()):
                wrong.append(f"{where}: {faults}")
            if not shadow:
                continue
            compared = counted["shadow"]
            if overflow and not compared["unsound"]:
                wrong.append(f"{where}: no request has overflowed")
            if compared["compared"] < 1000 or compared["beyond"]:
                wrong.append(
                    f"{where}: {compared['beyond']} of {compared['compared']} vectors differ, most {compared['most']}"
                )
    return wrong
