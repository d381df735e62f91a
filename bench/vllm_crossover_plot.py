"""Curves of a decode step's saved share over the prompt's length, by samples of a prompt, a panel a model."""

from gpu_plot import Plot, legend_above
from gpu_rows import ROOT
from vllm_rollout_tables import gain, shape_of

LINES = (2, 5, 10, 50)  # per cent


def content(rows: list[dict]) -> dict:
    """{model: {samples: [[tokens, gain, its low and high end], ...]}} of the last row of each."""
    points: dict = {}
    for row in rows:
        shape = shape_of(row) if row["kind"] == "sides" and row.get("subject") == "trunkline" else None
        if shape is None or row.get("ratio_lo") is None:
            continue
        prompts, samples, length = shape
        panel = f"{row['model']}, {prompts} prompts"
        values = [round(gain(row[name]), 2) for name in ("ratio", "ratio_lo", "ratio_hi")]
        points.setdefault(panel, {}).setdefault(samples, {})[length] = values
    return {
        panel: {
            str(samples): [[length, *values] for length, values in sorted(found.items())]
            for samples, found in sorted(curves.items())
        }
        for panel, curves in sorted(points.items())
    }


def figure(panels: dict):
    from matplotlib import pyplot, ticker

    result, axes = pyplot.subplots(
        1, len(panels), figsize=(max(7.5, 4.2 * len(panels) + 0.6), 3.8), squeeze=False, sharey=True
    )
    for axis, (panel, curves) in zip(axes[0], panels.items(), strict=True):
        shades = pyplot.get_cmap("viridis")
        for place, (samples, points) in enumerate(curves.items()):
            lengths, gains, lows, highs = (list(column) for column in zip(*points, strict=True))
            bars = [[g - low for g, low in zip(gains, lows)], [high - g for g, high in zip(gains, highs)]]
            color = shades(place / max(1, len(curves) - 1))
            label = f"{samples} sample{'s' * (samples != '1')}"
            axis.errorbar(lengths, gains, yerr=bars, label=label, color=color, marker="o", markersize=3, linewidth=1.2)
        for line in LINES:
            axis.axhline(line, color="grey", linewidth=0.5, linestyle=":")
        axis.set_xscale("log", base=2)
        axis.set_yscale("symlog", linthresh=LINES[0])  # a gain may be a loss
        axis.set_yticks([-2, 0, *LINES], [str(value) for value in (-2, 0, *LINES)])
        axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.grid(linewidth=0.3)
        axis.set_title(panel, fontsize=8)
        axis.set_xlabel("tokens of a prompt", fontsize=8)
    axes[0][0].set_ylabel("saved of a decode step, %")
    legend_above(result, axes[0])
    result.tight_layout(rect=(0, 0, 1, 0.92))
    return result


PLOT = Plot(ROOT / "bench/results/vllm/crossover.svg", content, figure)
