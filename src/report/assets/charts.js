// Code that all pages share: the data, numbers with units, elements, and charts for pointer, touch and keyboard.

const page = {
  root: document.getElementById("page"),
  data: () => JSON.parse(document.getElementById("data").textContent),
};

addEventListener("error", (event) => {
  document.documentElement.dataset.error = event.message;
  page.root.prepend(element("p", { class: "problem", role: "alert" }, `This page could not be drawn: ${event.message}`));
});

// Children are nodes or text; text is never read as HTML.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function svgElement(tag, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const format = {
  count: (value) => Math.round(value).toLocaleString("en-US"),
  plural: (value, one, many = `${one}s`) => `${format.count(value)} ${value === 1 ? one : many}`,
  fixed: (value, digits) => value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
  percent: (share) => `${format.fixed(100 * share, Math.abs(share) < 0.0995 ? 1 : 0)} %`,
  bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; value >= 1024 && unit + 1 < units.length; ++unit) value /= 1024;
    return `${unit === 0 ? value : format.fixed(value, 1)} ${units[unit]}`;
  },
  time(us) {
    const [value, unit] = us < 1000 ? [us, "µs"] : us < 1e6 ? [us / 1e3, "ms"] : [us / 1e6, "s"];
    return `${format.fixed(value, value < 10 ? 2 : 1)} ${unit}`;
  },
  // The unit of an axis that ends at so many microseconds: its name, and microseconds in it.
  timeUnit: (us) => (us < 1e4 ? ["µs", 1] : us < 1e7 ? ["ms", 1e3] : ["s", 1e6]),
  // For axes: 65000 -> "65K".
  short(value) {
    if (value >= 1e6) return `${+(value / 1e6).toFixed(2)}M`;
    return value >= 1e3 ? `${+(value / 1e3).toFixed(2)}K` : `${+value.toFixed(2)}`;
  },
};

// Round numbers from 0 to at most `end`, about `wanted` of them.
function ticks(end, wanted) {
  if (!(end > 0)) return [0];
  const raw = end / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  const result = [];
  for (let i = 0; i * step <= end * 1.0001; ++i) result.push(i * step);
  return result;
}

// Colours show how many requests share something: 1, 2 to 3, 4 to 7, ... 128 and more.
const sharing = {
  classes: 8,
  of: (count) => Math.min(Math.floor(Math.log2(Math.max(count, 1))), 7),
  name(index) {
    if (index === 0) return "1";
    return index === 7 ? "128 or more" : `${2 ** index} to ${2 ** (index + 1) - 1}`;
  },
};

// Patterns that mean something are the same everywhere, and told apart without colour.
function patterns() {
  const defs = svgElement("defs");
  const pattern = (id, size, shapes) => {
    const made = svgElement("pattern", { id, width: size, height: size, patternUnits: "userSpaceOnUse" });
    made.append(...shapes);
    defs.append(made);
  };
  const ground = (name, size) => svgElement("rect", { class: name, width: size, height: size });
  pattern("masked", 5, [ground("hatch-ground", 5), svgElement("path", { class: "hatch", d: "M-1 1L1 -1M0 5L5 0M4 6L6 4" })]);
  pattern("padding", 4, [ground("dots-ground", 4), svgElement("circle", { class: "dots", cx: 2, cy: 2, r: 0.8 })]);
  pattern("launch", 6, [ground("hatch-ground", 6), svgElement("path", { class: "axis", d: "M0 3H6" })]);
  return defs;
}

// Collects rectangles by class, so that thousands of them are a few elements, and remembers what is where.
class Surface {
  constructor(width) {
    this.width = width;
    this.height = 0;
    this.paths = new Map();
    this.texts = [];
    this.marks = [];
  }
  path(name, d) {
    if (!this.paths.has(name)) this.paths.set(name, []);
    this.paths.get(name).push(d);
  }
  rectangle(name, x, y, width, height) {
    const number = (value) => +value.toFixed(2);
    this.path(name, `M${number(x)} ${number(y)}h${number(width)}v${number(height)}h${number(-width)}z`);
  }
  text(name, x, y, content, anchor = "start") {
    const made = svgElement("text", { class: name, x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor });
    made.textContent = content;
    this.texts.push(made);
  }
  // `describe` gives the lines that describe the mark, the first of them a headline.
  mark(x, y, width, height, describe) {
    this.marks.push({ x, y, width, height, describe });
  }
  // Ticks along the bottom at `y`, from `x` on.
  axis(x, y, width, end, show, title = "") {
    this.path("axis", `M${x} ${y + 0.5}h${width}`);
    const room = Math.max(Math.floor(width / 90), 2);
    const last = x + width;
    for (const value of ticks(end, room)) {
      const at = x + (end > 0 ? (value / end) * width : 0);
      this.path("axis", `M${at.toFixed(1)} ${y}v5`);
      const anchor = at - x < 14 ? "start" : last - at < 14 ? "end" : "middle";
      this.text("tick", at, y + 16, show(value), anchor);
    }
    if (title) this.text("tick", last, y + 30, title, "end");
  }
  svg() {
    const made = svgElement("svg", { viewBox: `0 0 ${this.width} ${Math.ceil(this.height)}`, "aria-hidden": "true" });
    for (const [name, pieces] of this.paths) made.append(svgElement("path", { class: name, d: pieces.join("") }));
    made.append(...this.texts);
    return made;
  }
}

// Width of a label of the charts' size, with some room to spare.
const textWidth = (text) => 6.6 * text.length + 4;

const howToRead = "To read a part: point, tap, or use the arrow keys.";

const tip = element("div", { id: "tip", hidden: "" });

function showTip(lines, x, y) {
  tip.replaceChildren(element("b", {}, lines[0]), ...lines.slice(1).map((line) => element("div", {}, line)));
  tip.hidden = false;
  const size = tip.getBoundingClientRect();
  const left = Math.min(Math.max(x + 12, 8), innerWidth - size.width - 8);
  const below = y + 18 + size.height < innerHeight;
  tip.style.left = `${Math.max(left, 8)}px`;
  tip.style.top = `${Math.max(below ? y + 18 : y - size.height - 12, 8)}px`;
}

// A chart that `draw(surface)` fills anew for each width. One stop of the Tab key; arrow keys step through its marks.
class Chart {
  constructor(label, draw) {
    this.draw = draw;
    this.at = -1;
    this.box = element("div", { class: "chart", tabindex: "0", role: "group", "aria-roledescription": "chart", "aria-label": `${label}. Arrow keys step through its parts.` });
    this.reading = element("div", { class: "reading", "aria-live": "polite" }, element("span", { class: "soft" }, howToRead));
    this.box.addEventListener("pointermove", (event) => this.point(event));
    this.box.addEventListener("pointerdown", (event) => this.point(event));
    this.box.addEventListener("pointerleave", () => this.leave());
    this.box.addEventListener("blur", () => this.leave());
    this.box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.redraw()).observe(this.box);
    queueMicrotask(() => this.redraw());  // by then it has its place in the page
  }
  elements() {
    return [this.box, this.reading];
  }
  redraw() {
    const width = Math.floor(this.box.clientWidth);
    if (width === 0 || width === this.width) return;
    this.width = width;
    this.leave();
    this.surface = new Surface(width);
    this.draw(this.surface, this.box.dataset);
    this.box.replaceChildren(this.surface.svg());
  }
  point(event) {
    const svg = this.box.firstChild;
    if (!svg) return;
    const frame = svg.getBoundingClientRect();
    const x = ((event.clientX - frame.left) / frame.width) * this.surface.width;
    const y = ((event.clientY - frame.top) / frame.height) * this.surface.height;
    const slop = event.pointerType === "touch" ? 6 : 1;
    let best = -1;
    let distance = Infinity;
    this.surface.marks.forEach((mark, index) => {
      const dx = Math.max(mark.x - x, 0, x - mark.x - mark.width);
      const dy = Math.max(mark.y - y, 0, y - mark.y - mark.height);
      if (Math.max(dx, dy) <= slop && dx + dy <= distance) [best, distance] = [index, dx + dy];
    });
    if (best < 0) return this.leave();
    this.choose(best);
    showTip(this.surface.marks[best].describe(), event.clientX, event.clientY);
  }
  key(event) {
    const count = this.surface ? this.surface.marks.length : 0;
    if (event.key === "Escape") return this.leave();
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -count, End: count }[event.key];
    if (step === undefined || count === 0) return;
    event.preventDefault();
    this.choose(Math.min(Math.max(this.at + step, 0), count - 1));
    const lines = this.surface.marks[this.at].describe();
    tip.hidden = true;
    this.reading.replaceChildren(element("b", {}, lines[0]), ` ${lines.slice(1).join("; ")}`);
  }
  choose(index) {
    this.at = index;
    const { x, y, width, height } = this.surface.marks[index];
    if (!this.frame) this.frame = svgElement("rect", { class: "chosen" });
    for (const [name, value] of Object.entries({ x: x - 1, y: y - 1, width: width + 2, height: height + 2 })) {
      this.frame.setAttribute(name, value);
    }
    this.box.firstChild.append(this.frame);
  }
  leave() {
    this.at = -1;
    tip.hidden = true;
    if (this.frame) this.frame.remove();
    this.reading.replaceChildren(element("span", { class: "soft" }, howToRead));
  }
}

// Entries are [class of the swatch, text].
function legend(entries) {
  return element("ul", { class: "legend" }, ...entries.map(([name, text]) => {
    const swatch = svgElement("svg", { viewBox: "0 0 18 14", "aria-hidden": "true" });
    const line = name === "bound" || name === "predicted" || name.startsWith("line ");
    swatch.append(svgElement("path", { class: name, d: line ? "M0 7h18" : "M0 0h18v14h-18z" }));
    const entry = element("li", {});
    entry.append(swatch, text);
    return entry;
  }));
}

// Entries are [figure, what it counts].
function facts(entries) {
  return element("ul", { class: "facts" }, ...entries.map(([figure, what]) => element("li", {}, element("b", {}, figure), element("span", {}, what))));
}

// Tells that all is drawn, and holds what charts have in common.
function finish() {
  const shared = svgElement("svg", { width: 0, height: 0, style: "position:absolute", "aria-hidden": "true" });
  shared.append(patterns());
  document.body.append(shared, tip);
  queueMicrotask(() => (document.documentElement.dataset.drawn = "yes"));
}
