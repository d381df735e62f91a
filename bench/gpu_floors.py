"""Floors of GPU rows: launch + max(distinct K, V, Q and O bytes / read rate, FLOPs / matrix rate)."""

from typing import NamedTuple

from gpu_rows import by


class Rates(NamedTuple):
    """The figures of a machine profile that a row's floor was computed from."""

    read_bytes_per_us: float
    flops_per_us: float
    launch_us: float


# Earlier rows name no rates. Their floors have an H200's rates, and as launch the intercept of its cold streaming read.
UNNAMED = Rates(4.67e6, 790e6, 5.8)


def rates_of(row: dict) -> Rates:
    return Rates(*(row.get(name, default) for name, default in UNNAMED._asdict().items()))


def names_rates(row: dict) -> bool:
    return "read_bytes_per_us" in row


def formula(rates: Rates) -> str:
    return (
        f"{rates.launch_us:g} us + max(distinct K, V, Q and O bytes / {rates.read_bytes_per_us / 1e6:g} TB/s, "
        f"FLOPs / {rates.flops_per_us / 1e6:g} TFLOP/s)"
    )


def source(named: bool) -> str:
    return "the profile of the GPU that ran" if named else "an H200's rates, as the rows name none"


def floors(files: dict[str, list[dict]]) -> str:
    """A sentence on the floors of the rows, which may differ."""
    used: dict[tuple, list[str]] = {}
    for name, rows in files.items():
        floored = [row for row in rows if "floor_us" in row]
        for key in by(floored, lambda row: (rates_of(row), names_rates(row))):
            used.setdefault(key, []).append(f"`{name}`")
    if len(used) == 1:
        ((rates, named),) = used
        return f"The floor is {formula(rates)}: {source(named)}."
    listed = "; ".join(
        f"{formula(rates)} in rows of {', '.join(names)} ({source(named)})" for (rates, named), names in used.items()
    )
    return f"The floor is {listed}."
