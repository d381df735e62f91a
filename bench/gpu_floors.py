"""Floors of GPU rows: launch + max(distinct K, V, Q and O bytes / read rate, FLOPs / matrix rate)."""

import json
from typing import NamedTuple

from source_trees import ROOT


class Rates(NamedTuple):
    """The figures of a machine profile that a row's floor was computed from."""

    read_bytes_per_us: float
    flops_per_us: float
    launch_us: float


def _profile(name: str) -> Rates:
    figures = json.loads((ROOT / "data/machines" / f"{name}.json").read_text())
    return Rates(*(figures[field]["value"] for field in Rates._fields))


H200 = _profile("h200-sxm")
# Earlier rows name no rates: they had an H200's, but as launch the intercept of its cold streaming read.
EARLIER_LAUNCH_US = 5.8


def rates_of(row: dict) -> Rates:
    return Rates(*(row.get(name, default) for name, default in H200._asdict().items()))


def with_profile_floor(row: dict) -> dict:
    """The row, counted with the launch of an H200's profile if it names no rates."""
    if "floor_us" not in row or "launch_us" in row:
        return row
    floor = row["floor_us"] - EARLIER_LAUNCH_US + H200.launch_us
    return row | {"floor_us": floor} | ({"x_floor": row["us"] / floor} if "x_floor" in row else {})


def formula(rates: Rates) -> str:
    return (
        f"{rates.launch_us:g} us + max(distinct K, V, Q and O bytes / {rates.read_bytes_per_us / 1e6:g} TB/s, "
        f"FLOPs / {rates.flops_per_us / 1e6:g} TFLOP/s)"
    )


def sentence() -> str:
    """What the page says about its floors."""
    profile = "[machine profile](../../../data/machines/h200-sxm.json)"
    return (
        f"The floor is {formula(H200)}, by the {profile}. Earlier rows, which name no rates, had "
        f"{EARLIER_LAUNCH_US:g} us for the launch, and are counted with the profile's here."
    )
