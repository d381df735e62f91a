"""Curves of suite `growth`: time against each factor, ours and `flat`'s, with the floor beside them."""

from gpu_plot import Plot, legend_above
from gpu_rows import ROOT, by, kernels, method

# The unit of each factor's values, in the order of the panels.
FACTORS = {
    "batch": "requests, a prefix of 1,024, 64 own tokens",
    "prefix": "tokens of one prefix, 64 requests, 128 own tokens",
    "depth": "levels of 128 tokens, 256 requests",
    "width": "branches of 512 tokens under a root of 1,024, 256 requests",
    "group": "query heads a KV head, a prefix of 2,048, 64 requests",
}
COLORS = {"portable": "black", "hopper": "tab:green"}
DASHES = {"default": "-", "flat": "--"}


def content(rows: list[dict]) -> dict:
    """{factor: {curve: [[value, us], ...]}}; a curve is [kernels, method], or the floor"""
    panels = {}
    for factor, chosen in by(rows, lambda row: row["factor"]).items():
        runs = by(chosen, lambda row: f"{kernels(row)} {method(row)}")
        panels[factor] = {
            name: [[row["value"], round(row["us"], 2)] for row in run if "us" in row] for name, run in runs.items()
        }
        floors = {row["value"]: round(row["floor_us"], 2) for row in chosen}
        panels[factor]["floor"] = [[value, floor] for value, floor in sorted(floors.items())]
    return panels


def curve(name: str, several: bool) -> tuple[str, dict]:
    """Its label and style."""
    if name == "floor":
        return name, {"color": "tab:red", "linewidth": 1, "linestyle": ":"}
    ran_on, run = name.split(" ", 1)
    label = "Trunkline" if run == "default" else run
    style = {"color": COLORS.get(ran_on, "tab:blue"), "linestyle": DASHES.get(run, "-."), "marker": "o"}
    return f"{label}, {ran_on}" if several else label, {**style, "markersize": 3, "linewidth": 1.2}


def figure(panels: dict):
    from matplotlib import pyplot, ticker

    several = len({name.split(" ")[0] for panel in panels.values() for name in panel if name != "floor"}) > 1
    result, axes = pyplot.subplots(len(panels), 1, figsize=(8, 2.3 * len(panels) + 0.6), squeeze=False)
    for axis, (factor, panel) in zip(axes[:, 0], panels.items(), strict=True):
        # Values stand side by side: most double or quadruple, and a logarithm has no 0.
        values = [value for value, _ in panel["floor"]]
        for name, points in panel.items():
            label, style = curve(name, several)
            axis.plot([values.index(value) for value, _ in points], [us for _, us in points], label=label, **style)
        axis.set_xticks(range(len(values)), [f"{value:,}" for value in values])
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.grid(linewidth=0.3)
        axis.set_xlabel(f"{factor}: {FACTORS.get(factor, '')}")
        axis.set_ylabel("us")
    legend_above(result, axes[:, 0])
    result.tight_layout(rect=(0, 0, 1, 1 - 0.3 / result.get_figheight()))
    return result


PLOT = Plot(ROOT / "bench/results/h200/growth.svg", content, figure)
