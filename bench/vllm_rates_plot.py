"""Curves over request rates, as PAT's figure 11: what vLLM's client says of servers with and without Trunkline."""

from gpu_plot import Plot, legend_above
from gpu_rows import ROOT

METRICS = {
    "mean_e2el_ms": "completion, mean",
    "mean_ttft_ms": "first token, mean",
    "mean_tpot_ms": "per output token, mean",
    "p99_tpot_ms": "per output token, P99",
    "p99_itl_ms": "between tokens, P99",
}
MODEL = "llama3-8b"  # the others are named
STYLES = {"default": ("vLLM", "black", "--"), "trunkline": ("vLLM with Trunkline", "tab:green", "-")}


def chosen(rows: list[dict]) -> dict[tuple[str, float], dict]:
    """HTTP rows by workload and rate; of a rate's rows of most rounds the last, by the names of their files."""
    best: dict[tuple[str, float], dict] = {}
    for row in rows:
        name, _, rate = row["workload"].partition("@")
        name = name if row["model"] == MODEL else f"{name}, {row['model']}"
        if row["kind"] == "http" and rate and row["rounds"] >= best.get((name, float(rate)), {"rounds": 0})["rounds"]:
            best[name, float(rate)] = row
    return dict(sorted(best.items()))


def content(rows: list[dict]) -> dict:
    """{workload: {metric: {side: [[rate, ms], ...]}}} of the chosen rows."""
    panels: dict = {}
    for (name, rate), row in chosen(rows).items():
        for metric in METRICS:
            for side, served in row["served"].items():
                points = panels.setdefault(name, {}).setdefault(metric, {}).setdefault(side, [])
                points.append([rate, round(served[metric], 2)])
    return {name: metrics for name, metrics in panels.items() if len(metrics["mean_tpot_ms"]["default"]) > 1}


def figure(panels: dict):
    from matplotlib import pyplot

    count = len(METRICS)
    result, axes = pyplot.subplots(
        len(panels), count, figsize=(2.5 * count, 2.5 * len(panels) + 0.4), squeeze=False, sharex="row"
    )
    for line, (name, metrics) in zip(axes, panels.items(), strict=True):
        for axis, (metric, sides) in zip(line, metrics.items(), strict=True):
            for side, points in sides.items():
                label, color, dash = STYLES.get(side, (side, "tab:blue", ":"))
                xs, ys = zip(*points, strict=True)
                axis.plot(xs, ys, label=label, color=color, linestyle=dash, marker="o", markersize=3, linewidth=1.2)
            axis.set_ylim(bottom=0)
            axis.grid(linewidth=0.3)
            axis.set_title(METRICS[metric], fontsize=8)
            axis.set_xlabel(f"{name}: requests/s", fontsize=8)
        line[0].set_ylabel("ms")
    legend_above(result, axes[:, 0])
    result.tight_layout(rect=(0, 0, 1, 1 - 0.3 / result.get_figheight()))
    return result


PLOT = Plot(ROOT / "bench/results/vllm/rates_h200.svg", content, figure)
