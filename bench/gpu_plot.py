"""A plot as PAT's figure 10: time over the floor of each tree, ours and each recorded kernel's, for each head set."""

import hashlib
import json
import pathlib
import re

from gpu_rows import ROOT, recorded

PLOT = ROOT / "docs/results/pat_h200.svg"
REQUIREMENTS = "bench/requirements-plots.txt"
PAPERS = {"pat": "tab:red", "fasttree": "tab:blue"}
MARKERS = "v^<>sPXDdph*"


def plotted(rows: list[dict]) -> dict:
    """{"cases": [...], "panels": {heads: {kernel: [[place of the case, time over the floor], ...]}}}"""
    groups = {}
    for row in rows:
        groups.setdefault(row["heads"], []).append(row)
    cases = [row["case"] for row in max(groups.values(), key=len)]
    kernels = sorted({kernel for row in rows for kernel in row.get("recorded_us", {})})
    panels = {}
    for heads, chosen in groups.items():
        panel = {"Trunkline": [[cases.index(row["case"]), round(row["x_floor"], 3)] for row in chosen]}
        for kernel in kernels:
            panel[kernel] = [
                [cases.index(row["case"]), round(time / row["floor_us"], 3)]
                for row in chosen
                if (time := recorded(row, kernel)) is not None
            ]
        panels[heads] = panel
    return {"cases": cases, "panels": panels}


def digest(rows: list[dict]) -> str:
    return "rows " + hashlib.sha256(json.dumps(plotted(rows)).encode()).hexdigest()


def is_current(rows: list[dict], path: pathlib.Path = PLOT) -> bool:
    """Whether the plot was drawn of these rows; needs no matplotlib."""
    return path.exists() and re.search(re.escape(digest(rows)), path.read_text()) is not None


def draw(rows: list[dict], path: pathlib.Path = PLOT) -> None:
    """The same bytes for the same rows and version of matplotlib. :raises ImportError: where that is not here"""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot, ticker

    matplotlib.rcParams.update({"svg.hashsalt": "trunkline", "svg.fonttype": "none", "font.size": 9})
    content = plotted(rows)
    panels = content["panels"]
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(11, 2.6 * len(panels) + 2.4), sharex=True, squeeze=False)
    for axis, (heads, panel) in zip(axes[:, 0], panels.items(), strict=True):
        for number, (kernel, points) in enumerate(panel.items()):
            if not points:
                continue
            if kernel == "Trunkline":
                style = {"color": "black", "marker": "o", "linewidth": 1.4, "zorder": 3}
            elif kernel in PAPERS:
                style = {"color": PAPERS[kernel], "marker": "o", "markersize": 4, "linewidth": 1}
            else:
                marker = MARKERS[number % len(MARKERS)]
                style = {"color": f"C{number % 10}", "marker": marker, "markersize": 4, "linewidth": 0, "alpha": 0.6}
            axis.plot(*zip(*points, strict=True), label=kernel, **style)
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.set_ylim(bottom=0.95)
        axis.grid(axis="y", linewidth=0.3)
        axis.set_ylabel(f"time over floor, {heads}")
    axes[-1, 0].set_xticks(range(len(content["cases"])), content["cases"], rotation=60, ha="right", fontsize=7)
    labels = {}
    for axis in axes[:, 0]:
        labels |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(labels.values(), labels.keys(), loc="upper center", ncols=5, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.8 / figure.get_figheight()))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None, "Description": digest(rows)})
    pyplot.close(figure)
