// Charts over the decode steps, from left to right. A series is {name, style, value(bin)}.

const chartHeight = 170;

// A round number at or above `value`, so that the last tick is the top.
function ceiling(value) {
  if (!(value > 0)) return 1;
  const list = ticks(value, 4);
  const step = list.length > 1 ? list[1] : value;
  return Math.ceil(value / step - 1e-9) * step;
}

// `least` is where the axis begins; `describe(bin)` gives the lines of a mark after the first.
function drawSeries(series, least, show, describe, marks) {
  return (surface, counts) => {
    const [left, top] = [58, 8];
    const width = surface.width - left - 6;
    const top_value = ceiling(Math.max(...bins.flatMap((bin) => series.map(({ value }) => value(bin))), least) - least) + least;
    const x = (step) => left + (width * (step - 1)) / Math.max(steps, 1);
    const y = (value) => top + chartHeight * (1 - (value - least) / (top_value - least));
    surface.path("axis", `M${left - 0.5} ${top}V${top + chartHeight}`);
    for (const tick of ticks(top_value - least, 4)) {
      surface.path("axis", `M${left} ${y(tick + least).toFixed(1)}h${width}`);
      surface.text("tick", left - 6, y(tick + least) + 4, show(tick + least), "end");
    }
    for (const { style, value } of series) {
      const line = bins.map((bin) => `H${x(bin.first_step).toFixed(1)}V${y(value(bin)).toFixed(1)}H${x(bin.first_step + bin.steps).toFixed(1)}`);
      if (line.length > 0) surface.path(style, `M${left} ${y(value(bins[0])).toFixed(1)}${line.join("")}`);
    }
    for (const bin of bins) {
      const at = x(bin.first_step);
      surface.mark(at, top, x(bin.first_step + bin.steps) - at, chartHeight, () => [`${stepsText(bin)}, ${beginText(bin)}`, ...describe(bin)]);
    }
    if (marks) {
      for (const bin of bins.filter(marks)) surface.rectangle("replan", x(bin.first_step), top + chartHeight - 7, Math.max(x(bin.first_step + bin.steps) - x(bin.first_step), 0.8), 7);
    }
    surface.axis(left, top + chartHeight, width, steps, format.short, "decode steps");
    surface.height = top + chartHeight + 36;
    counts.bins = bins.length;
    counts.series = series.length;
  };
}

const policySeries = (values) => data.policies.map((name, index) => ({ name, style: `line l${index}`, value: (bin) => values(bin)[index] || 0 }));

const policyLines = (values, show) => (bin) => {
  const list = data.policies.map((name, index) => [name, values(bin)[index] || 0]).sort((a, b) => a[1] - b[1]);
  return list.map(([name, value]) => `${name}: ${show(value)}`);
};
