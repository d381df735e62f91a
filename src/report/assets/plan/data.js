// The page of `trunkline plan --html`: a forest, the policies side by side, and one policy's items and timeline. Here:
// what it shows, and the policy that is shown.

const data = page.data();
const forest = data.forest;
const policyNamed = (name) => data.policies.find((policy) => policy.name === name);
let shown = policyNamed(data.chosen);

const tokensText = (tokens) => format.plural(tokens, "token");
const requestsText = (requests) => format.plural(requests, "request");
const fromNs = (ns) => format.time(ns / 1e3);

// A row of the page's lists of numbers.
const nodeOf = ([index, parent, begin, end, first, last, ending]) => ({
  index, parent, begin, end, first, last, ending, tokens: end - begin, requests: last - first,
});
const shapeOf = ([items, item, queries, partials, firstHalf, rows, m, n, tokens, cost, spans]) => ({
  items, item, queries, partials, firstHalf, rows, m, n, tokens, cost,
  spans: spans.map((span) => (typeof span === "number" ? [span, [0, queries]] : span)).map(([tokens, readers]) => ({ tokens, readers })),
});

const ratio = (part, whole) => (whole === 0 ? 1 : part / whole);
