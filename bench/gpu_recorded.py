"""Comparisons with the recorded times of published kernels."""

import textwrap

from gpu_rows import by, kernels, method, recorded
from report import geometric_mean, table

PAPERS = {"pat": "PAT", "fasttree": "FastTree"}  # a paper's kernel by its suite's name


def how_timed(suites: dict[str, list[dict]]) -> str:
    """How theirs were timed, and which cases of a paper's suite its kernel has no time for."""
    text = (
        "Ours are timed by graph replay, and so are the recorded ones but PAT's and FastTree's. Those two were "
        "launched one by one, behind a kernel that spins while the host enqueues them. The two ways were not compared."
    )
    for suite, name in PAPERS.items():
        rows = suites.get(suite, [])
        missing = list(dict.fromkeys(row["case"] for row in rows if recorded(row, suite) is None))
        if missing:
            trees = len({row["case"] for row in rows})
            cases = ", ".join(f"`{case}`" for case in missing)
            text += f" {name}'s kernel has times for {trees - len(missing)} of {trees} trees; without one: {cases}."
    return textwrap.fill(text, 118)


def methods_over_papers(rows: list[dict]) -> str:
    """The time of an ablation's form of a paper's method over that of the paper's kernel, by each kind of kernels."""
    found = []
    for suite, name in PAPERS.items():
        for kind, run in by([row for row in rows if method(row) == name], kernels).items():
            ratios = [row["us"] / time for row in run if (time := recorded(row, suite)) is not None]
            if ratios:
                found.append(
                    f"{name} here, on the {kind} kernels, takes {geometric_mean(ratios):.2f} ({min(ratios):.2f} to "
                    f"{max(ratios):.2f}) of the recorded {name} kernel's time, over {len(ratios)} trees."
                )
    if not found:
        return ""
    found.append("So these rows neither confirm nor refute what the papers found by their own kernels.")
    return textwrap.fill(" ".join(found), 118)


def each_recorded(suites: dict[str, list[dict]]) -> str:
    """Each recorded kernel's time over ours and over the paper's kernel of the suite, by the present kernels."""
    lines = []
    for suite, rows in suites.items():
        ours = by(rows, kernels)
        run = ours.get("hopper") or next(iter(ours.values()))
        for kernel in dict.fromkeys(name for row in run for name in row.get("recorded_us", {})):
            timed = [(row, time) for row in run if (time := recorded(row, kernel)) is not None]
            papers = [time / paper for row, time in timed if (paper := recorded(row, suite)) is not None]
            line = [suite, kernel, str(len(timed)), *spread([time / row["us"] for row, time in timed])]
            lines.append(line + (spread(papers) if kernel != suite else [""] * 3))
    header = [
        "suite", "recorded kernel", "cases", "time over ours", "min", "max", "over the paper's kernel", "min", "max",
    ]  # fmt: skip
    return table(header, lines)


def spread(values: list[float]) -> list[str]:
    """Geometric mean, minimum and maximum."""
    return [f"{geometric_mean(values):.2f}", f"{min(values):.2f}", f"{max(values):.2f}"] if values else [""] * 3
