// The page of `trunkline plan --html`: a forest, the policies side by side, and one policy's items and timeline.

const data = page.data();
const forest = data.forest;
const policyNamed = (name) => data.policies.find((policy) => policy.name === name);
let shown = policyNamed(data.chosen);

const tokensText = (tokens) => format.plural(tokens, "token");
const requestsText = (requests) => format.plural(requests, "request");
const fromNs = (ns) => format.time(ns / 1e3);

// A row of the page's lists of numbers.
const nodeOf = ([index, parent, begin, end, first, last, ending]) => ({ index, parent, begin, end, first, last, ending, tokens: end - begin, requests: last - first });
const shapeOf = ([items, item, queries, partials, firstHalf, rows, m, n, tokens, cost, spans]) => ({
  items, item, queries, partials, firstHalf, rows, m, n, tokens, cost,
  spans: spans.map((span) => (typeof span === "number" ? { tokens: span, readers: [0, queries] } : { tokens: span[0], readers: span[1] })),
});

function tellNode(node) {
  const lines = [`${tokensText(node.tokens)} × ${requestsText(node.requests)}`, `node ${node.index}, token positions ${format.count(node.begin)} to ${format.count(node.end)}`];
  if (node.requests > 1) lines.push(`one request at a time would read ${tokensText(node.tokens * node.requests)} here`);
  if (node.ending > 0) lines.push(`${requestsText(node.ending)} ${node.ending === 1 ? "ends" : "end"} here`);
  if (node.requests <= 6) lines.push(`${node.requests === 1 ? "request" : "requests"} ${forest.order.slice(node.first, node.last).join(", ")}`);
  return lines;
}

function drawForest(surface, counts) {
  const left = 34;
  const width = surface.width - left - 4;
  const nodes = forest.drawn.map(nodeOf);
  const longest = nodes.reduce((most, node) => Math.max(most, node.end), 0);
  const height = Math.min(Math.max(forest.requests * 10, 140), surface.width < 600 ? 440 : 560);
  const across = longest > 0 ? width / longest : 0;
  const down = height / Math.max(forest.requests, 1);
  surface.rectangle("ground", left, 0, width, height);
  for (const node of nodes) {
    const [x, y, w, h] = [left + node.begin * across, node.first * down, node.tokens * across, node.requests * down];
    const shade = sharing.of(node.requests);
    const gap = (size) => (size > 4 ? 1 : 0);
    surface.rectangle(`s${shade}`, x, y, Math.max(w - gap(w), 0.3), Math.max(h - gap(h), 0.3));
    surface.mark(x, y, w, h, () => tellNode(node));
    const label = h > 34 ? tokensText(node.tokens) : `${format.count(node.tokens)} × ${node.requests}`;
    if (h < 14 || w < textWidth(label) + 6) continue;
    surface.text(`on${shade}`, x + 6, y + (h > 34 ? h / 2 - 2 : h / 2 + 4), label);
    if (h > 34 && w > textWidth(requestsText(node.requests)) + 6) surface.text(`on${shade}`, x + 6, y + h / 2 + 12, requestsText(node.requests));
  }
  for (const value of ticks(forest.requests, height / 60).filter(Number.isInteger)) {
    surface.path("axis", `M${left - 4} ${(value * down + 0.5).toFixed(1)}h4`);
    surface.text("tick", left - 7, Math.min(Math.max(value * down + 4, 9), height), format.short(value), "end");
  }
  surface.axis(left, height, width, longest, format.short, "token position");
  surface.text("tick", 0, height + 30, "↓ requests");
  surface.height = height + 36;
  counts.nodes = nodes.length;
  counts.requests = forest.requests;
}

function sharingLegend() {
  const tokens = new Array(sharing.classes).fill(0);
  for (const node of forest.drawn.map(nodeOf)) tokens[sharing.of(node.requests)] += node.tokens;
  const used = [...tokens.keys()].filter((index) => tokens[index] > 0);
  return legend(used.map((index) => [`s${index}`, `${sharing.name(index)} ${index === 0 ? "request" : "requests"}: ${tokensText(tokens[index])}`]));
}

// Rows of an item as the kernel has them: one band, or two halves that each pass over what its queries need.
function bandsOf(shape) {
  if (shape.firstHalf === 0) return [{ begin: 0, end: shape.queries }];
  return [{ begin: 0, end: shape.firstHalf }, { begin: shape.firstHalf, end: shape.queries }];
}

const groupSize = data.shape.q_heads / data.shape.kv_heads;

function readersIn(span, band) {
  const runs = [];
  for (let i = 0; i < span.readers.length; i += 2) {
    const begin = Math.max(span.readers[i], band.begin);
    const end = Math.min(span.readers[i + 1], band.end);
    if (begin < end) runs.push([begin - band.begin, end - band.begin]);
  }
  return runs;
}

// Of one item in one KV head, in (row, token) pairs: what its queries see, and what the kernel computes.
function pairsOf(shape) {
  let seen = 0;
  let computed = 0;
  for (const span of shape.spans) {
    for (const band of bandsOf(shape)) {
      const runs = readersIn(span, band);
      if (runs.length > 0) computed += span.tokens * shape.rows;
      for (const [begin, end] of runs) seen += span.tokens * (end - begin) * groupSize;
    }
  }
  return { seen, computed };
}

function tellShape(shape) {
  const { seen, computed } = pairsOf(shape);
  const bands = bandsOf(shape).length;
  const lines = [`${format.plural(shape.queries, "query", "queries")} × ${tokensText(shape.tokens)}`];
  lines.push(shape.items === 1 ? `item ${shape.item}` : `${format.count(shape.items)} items look like this one, the first is item ${shape.item}`);
  lines.push(`${format.count(shape.queries * groupSize)} rows in use of ${bands === 2 ? `2 × ${shape.rows}` : shape.rows} computed, tile ${shape.m}×${shape.n}`);
  if (computed > 0) lines.push(`${format.percent(1 - seen / computed)} of its computed pairs are padding or masked`);
  lines.push(shape.partials === 0 ? "writes outputs" : `leaves ${format.plural(shape.partials, "partial")}`);
  lines.push(`predicted: ${fromNs(shape.cost)} in one KV head`);
  return lines;
}

function drawShape(surface, shape, x, y, across, down) {
  bandsOf(shape).forEach((band, index) => {
    const top = y + index * shape.rows * down;
    const used = (band.end - band.begin) * groupSize;
    let at = x;
    for (const span of shape.spans) {
      const width = span.tokens * across;
      const runs = readersIn(span, band);
      if (runs.length > 0) {
        const seen = runs.reduce((sum, [begin, end]) => sum + end - begin, 0);
        const readers = bandsOf(shape).reduce((sum, other) => sum + readersIn(span, other).reduce((all, [b, e]) => all + e - b, 0), 0);
        if (seen * groupSize < used) surface.rectangle("masked", at, top, width, used * down);
        if (used < shape.rows) surface.rectangle("padding", at, top + used * down, width, (shape.rows - used) * down);
        for (const [begin, end] of runs) {
          surface.rectangle(`s${sharing.of(readers)}`, at, top + begin * groupSize * down, width, (end - begin) * groupSize * down);
        }
      }
      at += width;
    }
  });
}

const rowsOf = (shape) => shape.rows * bandsOf(shape).length;
const timesText = (shape) => (shape.items > 1 ? `×${format.count(shape.items)}` : "");

// Places shapes on shelves, from left to right and down, with how often each is there behind it.
function placeShapes(shapes, width, across, down) {
  const placed = [];
  let [x, y, shelf] = [0, 3, 0];
  for (const shape of shapes) {
    const label = timesText(shape);
    const w = Math.max(shape.tokens * across, 1);
    const h = Math.max(rowsOf(shape) * down, 1);
    const room = w + (label ? textWidth(label) + 4 : 0);
    if (x > 0 && x + room > width + 0.5) {
      y += shelf + 8;
      [x, shelf] = [0, 0];
    }
    placed.push({ shape, label, x, y, w, h });
    x += room + 5;
    shelf = Math.max(shelf, h, label ? 12 : 0);
  }
  return { placed, height: y + shelf + 10 };
}

// As large as lets all of them be seen without much scrolling.
function layOutShapes(shapes, width, narrow) {
  const most = (value) => shapes.reduce((largest, shape) => Math.max(largest, value(shape)), 1);
  const [longest, tallest] = [most((shape) => shape.tokens), most(rowsOf)];
  const label = most((shape) => (shape.tokens > longest / 2 && shape.items > 1 ? textWidth(timesText(shape)) + 4 : 0));
  const full = { across: (width - label) / longest, down: Math.min((narrow ? 64 : 96) / tallest, 4) };
  let layout;
  for (const [wide, high] of [[1, 1], [1 / 2, 1], [1 / 2, 1 / 2], [1 / 4, 1 / 2], [1 / 4, 1 / 4], [1 / 8, 1 / 4], [1 / 16, 1 / 4], [1 / 32, 1 / 8]]) {
    const [across, down] = [full.across * wide, full.down * high];
    layout = { ...placeShapes(shapes, width, across, down), across, down, longest, tallest };
    if (layout.height <= 1100) break;
  }
  return layout;
}

function drawItems(surface, counts) {
  const margin = 4;
  const shapes = shown.shapes.drawn.map(shapeOf);
  const layout = layOutShapes(shapes, surface.width - 2 * margin, surface.width < 600);
  for (const { shape, label, x, y, w, h } of layout.placed) {
    drawShape(surface, shape, margin + x, y, layout.across, layout.down);
    surface.rectangle("outline", margin + x, y, w, h);
    surface.mark(margin + x, y, w, h, () => tellShape(shape));
    if (label) surface.text("", margin + x + w + 4, y + Math.min(h / 2 + 4, h + 2), label);
  }
  surface.axis(margin, layout.height, layout.longest * layout.across, layout.longest, format.short);
  surface.text("tick", margin, layout.height + 30, `→ tokens of an item   ↓ rows, at most ${layout.tallest}`);
  surface.height = layout.height + 36;
  counts.items = shapes.reduce((sum, shape) => sum + shape.items, 0);
  counts.shapes = layout.placed.length;
}

// Both timelines of a policy have one scale.
function timelineEnd() {
  const measured = shown.measured ? shown.predicted.begin_ns + shown.measured.end_ns - shown.measured.begin_ns : 0;
  return Math.max(shown.predicted.end_ns, shown.statistics.predicted_us * 1e3, shown.statistics.bound_us * 1e3, measured);
}

function drawTimeline(timeline, isPrediction) {
  return (surface, counts) => {
    const [left, top] = [34, isPrediction ? 32 : 6];
    const width = surface.width - left - 6;
    const workers = timeline.workers.length;
    const row = Math.min(Math.max(400 / workers, 1.5), 20);
    const height = workers * row;
    const scale = width / timelineEnd();
    const shift = shown.predicted.begin_ns - timeline.begin_ns;
    const at = (ns) => left + (ns + shift) * scale;
    surface.rectangle("launch", left, top, shown.predicted.begin_ns * scale, height);
    surface.rectangle("bubble", at(timeline.begin_ns), top, (timeline.end_ns - timeline.begin_ns) * scale, height);
    let tasks = 0;
    timeline.workers.forEach((blocks, worker) => {
      const y = top + worker * row;
      for (let i = 0; i < blocks.length; i += 5) {
        const [begin, length, folded, item, queries] = blocks.slice(i, i + 5);
        const [x, w] = [at(begin), length * scale];
        const gap = w > 3 ? 0.7 : 0;
        surface.rectangle(`s${sharing.of(queries)}`, x, y, Math.max(w - gap, 0.2), row > 4 ? row - 1 : row);
        surface.mark(x, y, w, row, () => [
          folded === 1 ? `worker ${worker}: item ${item}, ${format.plural(queries, "query", "queries")}` : `worker ${worker}: ${folded} tasks, the longest of item ${item}`,
          `${fromNs(begin + shift)} to ${fromNs(begin + shift + length)}, ${fromNs(length)} long`]);
        tasks += folded;
      }
    });
    for (const value of ticks(workers - 1, height / 60).filter(Number.isInteger)) {
      surface.text("tick", left - 5, Math.min(top + value * row + 9, top + height), format.short(value), "end");
    }
    if (isPrediction) drawLimits(surface, left, top, height, scale, width);
    const [unit, us] = format.timeUnit(timelineEnd() / 1e3);
    surface.axis(left, top + height, width, timelineEnd() / 1e3 / us, format.short, `${unit} since the launch`);
    surface.text("tick", 0, top + height + 30, "↓ workers");
    surface.height = top + height + 36;
    counts.workers = workers;
    counts.tasks = tasks;
  };
}

function drawLimits(surface, left, top, height, scale, width) {
  const limits = [["bound", shown.statistics.bound_us, 10], ["predicted", shown.statistics.predicted_us, 23]];
  for (const [name, us, y] of limits) {
    const x = left + us * 1e3 * scale;
    const label = `${name} ${format.time(us)}`;
    surface.path(name, `M${x.toFixed(1)} ${y - 9}V${top + height}`);
    const fits = x + textWidth(label) < left + width;
    surface.text(`halo is-${name}`, fits ? x + 4 : x - 4, y, label, fits ? "start" : "end");
  }
}

const columns = [
  ["items", (p) => p.items, format.count],
  ["KV bytes read", (p) => p.statistics.kv_bytes_read, format.bytes],
  ["× distinct", (p) => ratio(p.statistics.kv_bytes_read, p.statistics.kv_bytes_distinct), (v) => format.fixed(v, 2)],
  ["partials", (p) => p.statistics.partials, format.count],
  ["partial bytes", (p) => p.statistics.partial_bytes, format.bytes],
  ["padding", (p) => (p.statistics.flops > 0 ? p.statistics.flops_padded / p.statistics.flops - 1 : 0), (v) => (v >= 10 ? `${format.fixed(v + 1, 1)} x` : format.percent(v))],
  ["bubbles", (p) => p.predicted.bubble_share, format.percent],
  ["predicted", (p) => p.statistics.predicted_us, format.time],
  ["bound", (p) => p.statistics.bound_us, format.time],
  ["× bound", (p) => p.statistics.predicted_us / p.statistics.bound_us, (v) => format.fixed(v, 2)],
];
const ratio = (part, whole) => (whole === 0 ? 1 : part / whole);

function policyTable(select) {
  // What looks alike is alike, and where all do, none stands out.
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
      if (name === "predicted") cell.append(element("span", { class: "bar", style: `width:${(100 * policy.statistics.predicted_us) / slowest}%` }));
      return cell;
    });
    return element("tr", { "data-policy": policy.name }, element("th", { scope: "row" }, button), ...cells);
  });
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Policies compared" }, table);
}

function timelineText(timeline) {
  const heads = format.plural(data.shape.kv_heads, "KV head");
  let text = `${format.plural(timeline.workers.length, "worker")}, ${format.plural(timeline.tasks, "task")} (${format.plural(shown.items, "item")} × ${heads}). From the first task's begin to the last one's end: ${fromNs(timeline.end_ns - timeline.begin_ns)}, of which ${format.percent(timeline.bubble_share)} of the workers' time are bubbles.`;
  if (timeline.resolution_ns > 0) text += ` Too many tasks to draw each: those of one worker within ${fromNs(timeline.resolution_ns)} are one block, coloured as its longest.`;
  return text;
}

function predictionText() {
  const { predicted_us: predicted } = shown.statistics;
  const off = predicted * 1e3 - shown.predicted.end_ns;
  if (Math.abs(off) < 0.001 * predicted * 1e3) return "";
  if (off > 0.04 * predicted * 1e3) return " The predicted time is later than the last task: memory as a whole, or many small tasks that the planner does not place one by one, take longer than the schedule.";
  return " The planner adds up tasks in classes of cost, so its predicted time and the end of the last task differ a little.";
}

const figure = (chart, ...caption) => element("figure", {}, ...chart.elements(), element("figcaption", {}, ...caption));

function itemsText() {
  const { items, tokens, cost_ns: cost } = shown.shapes.not_drawn;
  const heads = format.plural(data.shape.kv_heads, "KV head");
  let text = `Each rectangle is an item: its tokens across, in the order they are streamed, the rows of its queries down (${format.fixed(groupSize, 0)} a query), all at one scale, the costliest first. Each is done once for each of ${heads}. “×8” are 8 items that look alike.`;
  if (data.draft_trees) text += " Draft tokens are drawn as seen by every query that sees any of their request's.";
  if (items > 0) text += ` Not drawn: ${format.count(items)} more items of other shapes, ${tokensText(tokens)}, ${fromNs(cost)} of predicted work in each KV head.`;
  return text;
}

// What is shown of one policy; made anew when another is chosen.
function planSection() {
  const parts = [element("h3", {}, "Items")];
  const useless = legend([["masked", "computed, but masked: these rows do not see the tokens"], ["padding", "rows without a query, up to the tile"]]);
  if (shown.shapes.drawn.some((shape) => shapeOf(shape).firstHalf > 0)) useless.append(...legend([["skipped", "not computed: one half of the tile needs the tokens, not this one"]]).children);
  const colours = [...new Set(shown.shapes.drawn.map(shapeOf).flatMap((shape) => shape.spans.map((span) => {
    let readers = 0;
    for (let i = 0; i < span.readers.length; i += 2) readers += span.readers[i + 1] - span.readers[i];
    return sharing.of(readers);
  })))].sort((a, b) => a - b);
  useless.prepend(...legend(colours.map((index) => [`s${index}`, `seen by ${sharing.name(index)} ${index === 0 ? "query" : "queries"}`])).children);
  parts.push(useless, figure(new Chart(`Items of ${shown.name}`, drawItems), itemsText()));
  parts.push(element("h3", {}, "Workers, predicted"));
  parts.push(legend([["bubble", "bubble: no task"], ["launch", "launch"], ["bound", "bound: no plan is faster"], ["predicted", "predicted by the cost model"]]));
  parts.push(figure(new Chart(`Predicted timeline of ${shown.name}`, drawTimeline(shown.predicted, true)), timelineText(shown.predicted), predictionText(), " Blocks are coloured by the queries of their item."));
  if (shown.measured) {
    parts.push(element("h3", {}, "Workers, measured"));
    parts.push(figure(new Chart(`Measured timeline of ${shown.name}`, drawTimeline(shown.measured, false)), timelineText(shown.measured), ` Recorded in ${shown.measured.source}; drawn from the predicted begin of the first task on, at the same scale.`));
  }
  return parts;
}

function measuredHint() {
  const traced = data.policies.find((policy) => policy.measured);
  return traced && traced !== shown ? `A recorded run is there for ${traced.name}.` : "";
}

function build() {
  const shape = data.shape;
  const head = element("header", {}, element("h1", {}, data.title));
  const setting = `${shape.q_heads}/${shape.kv_heads} heads of ${shape.head_dim}, ${shape.dtype}, pages of ${shape.page_size}; planned for ${data.machine.name} (${shape.device}, ${format.plural(data.machine.workers, "worker")}), one layer.`;
  head.append(element("p", { class: "soft" }, data.source ? `From ${data.source}. ${setting}` : setting));
  head.append(facts([
    [format.count(forest.requests), "requests"],
    [format.count(forest.total_tokens), "KV tokens, one request at a time"],
    [format.count(forest.distinct_tokens), "distinct KV tokens"],
    [`${format.fixed(ratio(forest.total_tokens, forest.distinct_tokens), 2)}×`, "sharing"],
    [data.chosen, data.by_auto ? "policy, chosen by auto" : "policy"],
    [format.time(policyNamed(data.chosen).statistics.predicted_us), "predicted"],
  ]));

  const forestCaption = [`${format.plural(forest.nodes, "node")}. Each block is a run of tokens that the same requests use: its tokens across, its requests down, both at one scale. Its area is what a kernel reads that takes one request at a time, its width what must be read.`];
  if (forest.not_drawn.nodes > 0) forestCaption.push(` Not drawn: the ${format.count(forest.not_drawn.nodes)} nodes of the smallest area, ${tokensText(forest.not_drawn.tokens)}.`);

  const select = element("select", { id: "policy" }, ...data.policies.map((policy) => element("option", { value: policy.name }, policy.name)));
  const hint = element("span", { class: "soft" });
  const title = element("h2", {});
  const plan = element("div", { id: "plan" });
  const show = (name) => {
    shown = policyNamed(name) || shown;
    select.value = shown.name;
    title.textContent = `The plan of ${shown.name}`;
    hint.textContent = measuredHint();
    plan.dataset.policy = shown.name;
    plan.replaceChildren(...planSection());
    for (const row of document.querySelectorAll("tr[data-policy]")) row.setAttribute("aria-current", row.dataset.policy === shown.name);
  };
  select.addEventListener("change", () => show(select.value));
  addEventListener("hashchange", () => show(location.hash.slice(1)));

  page.root.append(head,
    element("h2", {}, "Prefix forest"), sharingLegend(), figure(new Chart("Prefix forest", drawForest), ...forestCaption),
    element("h2", {}, "Policies"), policyTable(show),
    element("p", { class: "soft" }, "Bold is the least of a column. “Padding” is computed for rows without a query and for tokens that a row does not see, over what is needed; “bubbles” are workers without a task, by the cost model; “bound” is what no plan can beat on this machine."),
    title, element("div", { class: "choose" }, element("label", { for: "policy" }, "Policy"), select, hint), plan,
    element("footer", {}, `trunkline ${data.version} (${data.commit}). Counts and bytes are exact for this batch; predicted times are the cost model's. The page holds all its data and loads nothing.`));
  show(location.hash ? location.hash.slice(1) : data.chosen);
}

build();
finish();
