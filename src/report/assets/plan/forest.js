// The prefix forest, tokens across and requests down.

function tellNode(node) {
  const lines = [
    `${tokensText(node.tokens)} × ${requestsText(node.requests)}`,
    `node ${node.index}, token positions ${format.count(node.begin)} to ${format.count(node.end)}`,
  ];
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

function forestText() {
  const { nodes, tokens } = forest.not_drawn;
  let text =
    `${format.plural(forest.nodes, "node")}. Each block is a run of tokens that the same requests use: its tokens across, ` +
    "its requests down, both at one scale. Its area is what a kernel reads that takes one request at a time, its width " +
    "what must be read.";
  if (nodes > 0) text += ` Not drawn: the ${format.count(nodes)} nodes of the smallest area, ${tokensText(tokens)}.`;
  return text;
}
