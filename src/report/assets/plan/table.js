// The policies side by side.

const columns = [
  ["items", (p) => p.items, format.count],
  ["KV bytes read", (p) => p.statistics.kv_bytes_read, format.bytes],
  ["× distinct", (p) => ratio(p.statistics.kv_bytes_read, p.statistics.kv_bytes_distinct), (v) => format.fixed(v, 2)],
  ["partials", (p) => p.statistics.partials, format.count],
  ["partial bytes", (p) => p.statistics.partial_bytes, format.bytes],
  ["padding", (p) => ratio(p.statistics.flops_padded, p.statistics.flops) - 1, format.percent],
  ["bubbles", (p) => p.predicted.bubble_share, format.percent],
  ["predicted", (p) => p.statistics.predicted_us, format.time],
  ["bound", (p) => p.statistics.bound_us, format.time],
  ["× bound", (p) => p.statistics.predicted_us / p.statistics.bound_us, (v) => format.fixed(v, 2)],
];
const columnsText =
  "Bold is the least of a column. “Padding” is computed for rows without a query and for tokens that a row does not see, " +
  "over what is needed; “bubbles” are workers without a task, by the cost model; “bound” is what no plan can beat on " +
  "this machine.";

const bar = (share) => element("span", { class: "bar", style: `width:${100 * share}%` });

function policyTable(select) {
  // Values with the same text count as equal; where all values of a column are equal, none is marked as the least.
  const least = columns.map(([, value, show]) => {
    const texts = new Set(data.policies.map((policy) => show(value(policy))));
    return texts.size > 1 ? show(Math.min(...data.policies.map(value))) : null;
  });
  const slowest = Math.max(...data.policies.map((policy) => policy.statistics.predicted_us));
  const head = element("tr", {}, element("th", { scope: "col" }, "policy"), ...columns.map(([name]) => element("th", { scope: "col" }, name)));
  const rows = data.policies.map((policy) => {
    const button = element("button", { class: "pick", type: "button" }, policy.name);
    button.addEventListener("click", () => select(policy.name));
    const cells = columns.map(([name, value, show], index) => {
      const best = show(value(policy)) === least[index];
      const cell = element("td", best ? { class: "least" } : {}, show(value(policy)));
      if (name === "predicted") cell.append(bar(policy.statistics.predicted_us / slowest));
      return cell;
    });
    return element("tr", { "data-policy": policy.name }, element("th", { scope: "row" }, button), ...cells);
  });
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Policies compared" }, table);
}
