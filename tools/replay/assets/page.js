// Puts the page together.

const figure = (chart, ...caption) => element("figure", {}, ...chart.elements(), element("figcaption", {}, ...caption));
const soft = (text) => element("p", { class: "soft" }, text);
const heading = (level, text) => element(`h${level}`, {}, text);
const lineLegend = (series) => legend(series.map(({ name, style }) => [style, name]));

function header() {
  const { shape } = data;
  const setting =
    `A ${data.format} trace: ${shape.q_heads}/${shape.kv_heads} heads of ${shape.head_dim}, ${shape.dtype}, pages of ` +
    `${shape.page_size}, ${format.plural(data.layers, "layer")}; planned for ${data.machine}.`;
  const replans = bins.reduce((total, bin) => total + bin.replans, 0);
  return element("header", {}, heading(1, data.title), soft(setting), ...(data.caution ? [soft(`Note: ${data.caution}.`)] : []), facts([
    [format.count(steps), "decode steps"],
    [format.fixed(mean((bin) => bin.requests), 1), "requests a step"],
    [`${format.fixed(ratio(sum((bin) => bin.total), sum((bin) => bin.distinct)), 3)}×`, "sharing"],
    [format.percent(steps === 0 ? 0 : 1 - replans / steps), "of the steps kept their plan"],
    [format.time(mean((bin) => bin.exposed_us)), "planning that a step waits for, mean"],
  ]));
}

function sharingParts() {
  const series = [{ name: "KV tokens one request at a time, over distinct ones", style: "line l5", value: sharingOf }];
  const describe = (bin) => [
    `sharing ${format.fixed(sharingOf(bin), 3)}, from ${format.fixed(bin.least_sharing, 3)} to ${format.fixed(bin.most_sharing, 3)}`,
    `${format.fixed(bin.requests, 1)} requests, ${format.short(bin.total)} KV tokens, ${format.short(bin.distinct)} distinct`];
  const chart = new Chart("Sharing by step", drawSeries(series, most(sharingOf) < 2 ? 1 : 0, (value) => format.fixed(value, most(sharingOf) < 2 ? 2 : 0), describe));
  return [heading(2, "Sharing"), figure(chart, "The most that reading each shared token once can save of the KV reads.")];
}

function batchParts() {
  const series = [
    { name: "requests", style: "line l2", value: (bin) => bin.requests },
  ];
  const describe = (bin) => [`${format.fixed(bin.requests, 1)} requests`, `${format.count(bin.replans)} of ${format.plural(bin.steps, "plan")} made anew`];
  const chart = new Chart("Requests by step", drawSeries(series, 0, format.short, describe, (bin) => bin.replans > 0));
  return [heading(2, "Requests and plans"), legend([["line l2", "requests that decode"], ["replan", "some plan was made anew"]]), figure(chart)];
}

// `unit` of the axis is [name, how much it is].
function policyParts(title, label, values, show, [unit, size], caption) {
  const series = policySeries((bin) => values(bin).map((value) => value / size));
  const chart = new Chart(label, drawSeries(series, 0, (value) => `${format.short(value)} ${unit}`, policyLines(values, show)));
  return [heading(2, title), lineLegend(series), figure(chart, caption)];
}

function planningParts() {
  const series = [
    { name: "waited for, mean of the bin", style: "line l5", value: (bin) => bin.exposed_us },
    { name: "hidden behind the step before, mean", style: "line l1", value: (bin) => bin.hidden_us },
  ];
  const describe = (bin) => [
    `waited for: ${format.time(bin.exposed_us)} a step, at most ${format.time(bin.most_exposed_us)}`,
    `hidden: ${format.time(bin.hidden_us)} a step`];
  const chart = new Chart("Planning time by step", drawSeries(series, 0, (us) => `${format.short(us)} µs`, describe));
  return [heading(2, "Planning"), lineLegend(series), figure(chart, "Measured while the trace was replayed, on the machine that replayed it.")];
}

function policyTable() {
  const columns = [
    ["attention, predicted", (bin, index) => bin.predicted_us[index] || 0, format.time],
    ["KV bytes", (bin, index) => bin.kv_bytes[index] || 0, format.bytes],
  ];
  const values = data.policies.map((_, index) => columns.map(([, value]) => mean((bin) => value(bin, index))));
  const least = columns.map((_, column) => Math.min(...values.map((row) => row[column])));
  const head = element("tr", {}, element("th", { scope: "col" }, "policy"), ...columns.map(([name]) => element("th", { scope: "col" }, name)));
  const rows = data.policies.map((name, index) => element("tr", { "data-policy": name }, element("th", { scope: "row" }, name),
    ...columns.map(([, , show], column) => element("td", values[index][column] === least[column] ? { class: "least" } : {}, show(values[index][column])))));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Policies compared" },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

function build() {
  const largest = (values) => most((bin) => Math.max(...values(bin), 0));
  // So that the labels of an axis stay short.
  const bytesUnit = largest((bin) => bin.kv_bytes) < 900 * 2 ** 20 ? ["MiB", 2 ** 20] : ["GiB", 2 ** 30];
  const timeUnit = largest((bin) => bin.predicted_us) < 900 ? ["µs", 1] : ["ms", 1e3];
  page.root.append(
    header(),
    ...sharingParts(),
    ...batchParts(),
    ...policyParts("Attention by policy", "Predicted attention time by step", (bin) => bin.predicted_us, format.time, timeUnit,
      "Predicted for one layer. Plans are compared where one is made anew, and every few steps between; others have the last values."),
    ...policyParts("KV bytes by policy", "KV bytes by step", (bin) => bin.kv_bytes, format.bytes, bytesUnit,
      "What the plans read in one layer, all KV heads; re-reads by tiles that are too narrow for a group are in it."),
    heading(2, "Policies, means of a step"), policyTable(),
    ...planningParts(),
    element("footer", {}, `trunkline ${data.version} (${data.commit}). Counts are exact for the replay; attention times are the cost model's. The page holds all its data and loads nothing.`));
}

build();
finish();
