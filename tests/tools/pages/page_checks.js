// Checks for faults that a person would notice at once. They are defined in the page under test.

// Labels of one chart that touch another, or leave the chart.
function overlaps() {
  return [...document.querySelectorAll(".chart svg")].flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    const outside = ([, a]) => a.left < frame.left - 1 || a.right > frame.right + 1 || a.bottom > frame.bottom + 1;
    const found = boxes.filter(outside).map(([name]) => name);
    boxes.forEach(([name, a], i) => {
      for (const [other, b] of boxes.slice(i + 1)) {
        const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 2 || b.bottom <= a.top + 2;
        if (!apart) found.push(`${name} / ${other}`);
      }
    });
    return found;
  });
}

// Rectangles of each chart: those that have a colour of sharing, and outlines.
function rectangles() {
  const count = (chart, selector) =>
    [...chart.querySelectorAll(selector)].reduce((sum, path) => sum + path.getAttribute("d").split("M").length - 1, 0);
  const shared = [0, 1, 2, 3, 4, 5, 6, 7].map((shade) => `path.s${shade}`).join(",");
  return [...document.querySelectorAll(".chart")].map((chart) => [count(chart, shared), count(chart, "path.outline")]);
}

// Relative luminance of a colour of the page's style, as WCAG 2 defines it.
function luminance(name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const [r, g, b] = [1, 3, 5]
    .map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Pairs of colours that do not stand out as WCAG 2 asks for: 4.5 for text, 3 for what is drawn.
function weakContrasts() {
  const pairs = [["--focus", "--paper", 3]];
  for (const text of ["--ink", "--soft"]) pairs.push([text, "--paper", 4.5], [text, "--panel", 4.5]);
  for (const text of ["--bound", "--predicted"]) pairs.push([text, "--paper", 4.5]);
  for (let i = 0; i < 8; ++i) pairs.push([`--on${i}`, `--s${i}`, 4.5], [`--s${i}`, "--paper", 3]);
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  return pairs
    .map(([a, b, least]) => [`${a} on ${b}`, contrast(a, b), least])
    .filter(([, found, least]) => !(found >= least))
    .map(([name, found]) => `${name}: ${found.toFixed(2)}`);
}
