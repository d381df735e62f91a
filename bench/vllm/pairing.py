"""Ratios of paired measurements, with intervals."""

import math
import statistics

# Student's t, two-sided 95 %, by degrees of freedom.
T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def t95(degrees: int) -> float:
    if degrees < 1:
        raise ValueError(f"{degrees} degrees of freedom; an interval needs two values")
    if degrees <= len(T95):
        return T95[degrees - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def ratio_of_pairs(base: list[float], subject: list[float]) -> dict:
    """base / subject: the geometric mean over pairs and its 95 % interval, of t on logarithms; one pair has none."""
    logs = [math.log(a / b) for a, b in zip(base, subject, strict=True)]
    if not logs:
        raise ValueError("no pairs")
    mean = statistics.fmean(logs)
    found = {"ratio": math.exp(mean), "ratio_lo": None, "ratio_hi": None, "pairs": len(logs)}
    if len(logs) > 1:
        half = t95(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
        found |= {"ratio_lo": math.exp(mean - half), "ratio_hi": math.exp(mean + half)}
    return found


def ratio_of_rounds(base: list[list], subject: list[list]) -> dict:
    """base / subject of rounds in which both served the same requests: of means over those that both have a value
    for. The interval is over rounds, for what a batch does to one of its requests it does to all. ValueError without
    such requests."""
    means = []
    for x, y in zip(base, subject, strict=True):
        both = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
        if both:
            means.append((statistics.fmean(a for a, _ in both), statistics.fmean(b for _, b in both)))
    return ratio_of_pairs([a for a, _ in means], [b for _, b in means]) | {"over": "rounds"}


def percentile(values: list[float], share: float) -> float:
    """By linear interpolation; ValueError without values."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def turn_order(names: list[str], turn: int) -> list[str]:
    """AB, BA, AB, ...; of three and more there and back."""
    return names if turn % 2 == 0 else names[::-1]


def recovered(base_ms: float, subject_ms: float, attention_ms: float, floor_ms: float) -> float | None:
    """The share of the time above the floor that attention took and no longer takes; None where it is on the floor."""
    return (base_ms - subject_ms) / (attention_ms - floor_ms) if attention_ms > floor_ms else None
