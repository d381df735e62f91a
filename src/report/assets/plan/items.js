// A policy's items as rectangles of rows and tokens.

// Rows of an item as the kernel has them: one band, or two halves that each pass over what its queries need.
function bandsOf(shape) {
  if (shape.firstHalf === 0) return [{ begin: 0, end: shape.queries }];
  return [{ begin: 0, end: shape.firstHalf }, { begin: shape.firstHalf, end: shape.queries }];
}

const groupSize = data.shape.q_heads / data.shape.kv_heads;

// How many of the item's queries see a span.
function readersOf(span) {
  let readers = 0;
  for (let i = 0; i < span.readers.length; i += 2) readers += span.readers[i + 1] - span.readers[i];
  return readers;
}

function readersIn(span, band) {
  const runs = [];
  for (let i = 0; i < span.readers.length; i += 2) {
    const begin = Math.max(span.readers[i], band.begin);
    const end = Math.min(span.readers[i + 1], band.end);
    if (begin < end) runs.push([begin - band.begin, end - band.begin]);
  }
  return runs;
}

// The (row, token) pairs of one item in one KV head: pairs that its queries attend to, pairs that the kernel computes.
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
        if (seen * groupSize < used) surface.rectangle("masked", at, top, width, used * down);
        if (used < shape.rows) surface.rectangle("padding", at, top + used * down, width, (shape.rows - used) * down);
        for (const [begin, end] of runs) {
          surface.rectangle(`s${sharing.of(readersOf(span))}`, at, top + begin * groupSize * down, width, (end - begin) * groupSize * down);
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
  for (const [wide, high] of [[1, 1], [2, 1], [2, 2], [4, 2], [4, 4], [8, 4], [16, 4], [32, 8]]) {
    const [across, down] = [full.across / wide, full.down / high];
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

function itemsText() {
  const { items, tokens, cost_ns: cost } = shown.shapes.not_drawn;
  const heads = format.plural(data.shape.kv_heads, "KV head");
  let text =
    "Each rectangle is an item: its tokens across, in the order they are streamed, the rows of its queries down " +
    `(${groupSize} a query), all at one scale, the costliest first. Each is done once for each of ${heads}. ` +
    "“×8” are 8 items that look alike.";
  if (data.draft_trees) text += " Draft tokens are drawn as seen by every query that sees any of their request's.";
  if (items > 0) {
    text +=
      ` Not drawn: ${format.count(items)} more items of other shapes, ${tokensText(tokens)}, ` +
      `${fromNs(cost)} of predicted work in each KV head.`;
  }
  return text;
}
