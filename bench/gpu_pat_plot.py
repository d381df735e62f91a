"""A plot as PAT's figure 10: time over the floor of each tree, ours and each recorded kernel's, for each head set."""

from gpu_plot import Plot, legend_above
from gpu_rows import ROOT, by, kernels, recorded

PAPERS = {"pat": "tab:red", "fasttree": "tab:blue"}
OURS = {"portable": "black", "hopper": "tab:green"}
MARKERS = "v^<>sPXDdph*"


def content(rows: list[dict]) -> dict:
    """{"cases": [...], "panels": {heads: {kernel: [[place of the case, time over the floor], ...]}}}"""
    groups = by(rows, lambda row: row["heads"])
    cases = list(dict.fromkeys(row["case"] for row in max(groups.values(), key=len)))
    recorded_kernels = sorted({kernel for row in rows for kernel in row.get("recorded_us", {})})
    ours = by(rows, kernels)
    panels = {}
    for heads, chosen in groups.items():
        panel = {}
        for name, run in by(chosen, kernels).items():
            label = "Trunkline" if len(ours) == 1 else f"Trunkline, {name}"
            panel[label] = [[cases.index(row["case"]), round(row["x_floor"], 3)] for row in run]
        one_run = next(iter(by(chosen, kernels).values()))
        for kernel in recorded_kernels:
            panel[kernel] = [
                [cases.index(row["case"]), round(time / row["floor_us"], 3)]
                for row in one_run
                if (time := recorded(row, kernel)) is not None
            ]
        panels[heads] = panel
    return {"cases": cases, "panels": panels}


def style_of(kernel: str, number: int) -> dict:
    if kernel.startswith("Trunkline"):
        color = OURS.get(kernel.removeprefix("Trunkline, "), OURS["portable"])
        return {"color": color, "marker": "o", "linewidth": 1.4, "zorder": 3}
    if kernel in PAPERS:
        return {"color": PAPERS[kernel], "marker": "o", "markersize": 4, "linewidth": 1}
    marker = MARKERS[number % len(MARKERS)]
    return {"color": f"C{number % 10}", "marker": marker, "markersize": 4, "linewidth": 0, "alpha": 0.6}


def figure(drawn: dict):
    from matplotlib import pyplot, ticker

    panels = drawn["panels"]
    result, axes = pyplot.subplots(len(panels), 1, figsize=(11, 2.6 * len(panels) + 2.4), sharex=True, squeeze=False)
    for axis, (heads, panel) in zip(axes[:, 0], panels.items(), strict=True):
        for number, (kernel, points) in enumerate(panel.items()):
            if points:
                axis.plot(*zip(*points, strict=True), label=kernel, **style_of(kernel, number))
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.set_ylim(bottom=0.95)
        axis.grid(axis="y", linewidth=0.3)
        axis.set_ylabel(f"time over floor, {heads}")
    axes[-1, 0].set_xticks(range(len(drawn["cases"])), drawn["cases"], rotation=60, ha="right", fontsize=7)
    legend_above(result, axes[:, 0])
    result.tight_layout(rect=(0, 0, 1, 1 - 0.8 / result.get_figheight()))
    return result


PLOT = Plot(ROOT / "bench/results/h200/pat.svg", content, figure)
