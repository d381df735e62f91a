// Puts the page together.

const figure = (chart, ...caption) => element("figure", {}, ...chart.elements(), element("figcaption", {}, ...caption));
const soft = (text) => element("p", { class: "soft" }, text);
const heading = (level, text) => element(`h${level}`, {}, text);

function header() {
  const { shape, machine } = data;
  const setting =
    `${shape.q_heads}/${shape.kv_heads} heads of ${shape.head_dim_qk}, ${shape.q_dtype}, pages of ${shape.page_size}; ` +
    `planned for ${machine.name} (${shape.device}, ${format.plural(machine.workers, "worker")}), one layer.`;
  return element("header", {}, heading(1, data.title), soft(data.source ? `From ${data.source}. ${setting}` : setting), facts([
    [format.count(forest.requests), "requests"],
    [format.count(forest.total_tokens), "KV tokens, one request at a time"],
    [format.count(forest.distinct_tokens), "distinct KV tokens"],
    [`${format.fixed(ratio(forest.total_tokens, forest.distinct_tokens), 2)}×`, "sharing"],
    [data.chosen, data.by_auto ? "policy, chosen by auto" : "policy"],
    [format.time(policyNamed(data.chosen).statistics.predicted_us), "predicted"],
  ]));
}

function itemsParts() {
  const shapes = shown.shapes.drawn.map(shapeOf);
  const colours = new Set(shapes.flatMap((shape) => shape.spans.map((span) => sharing.of(readersOf(span)))));
  const entries = [...colours].sort((a, b) => a - b).map((index) => [`s${index}`, `seen by ${sharing.name(index)} ${index === 0 ? "query" : "queries"}`]);
  entries.push(["masked", "computed, but masked: these rows do not see the tokens"], ["padding", "rows without a query, up to the tile"]);
  if (shapes.some((shape) => shape.firstHalf > 0)) {
    entries.push(["skipped", "not computed: one half of the tile needs the tokens, not this one"]);
  }
  return [heading(3, "Items"), legend(entries), figure(new Chart(`Items of ${shown.name}`, drawItems), itemsText())];
}

function predictedParts() {
  const chart = new Chart(`Predicted timeline of ${shown.name}`, drawTimeline(shown.predicted, true));
  const entries = [["bubble", "bubble: no task"], ["launch", "launch"], ["bound", "bound: no plan is faster"], ["predicted", "predicted by the cost model"]];
  const caption = [timelineText(shown.predicted), predictionText(), " Blocks are coloured by the queries of their item."];
  return [heading(3, "Workers, predicted"), legend(entries), figure(chart, ...caption)];
}

function measuredParts() {
  if (!shown.measured) return [];
  const chart = new Chart(`Measured timeline of ${shown.name}`, drawTimeline(shown.measured, false));
  const from = ` Recorded in ${shown.measured.source}; drawn from the predicted begin of the first task on, at the same scale.`;
  return [heading(3, "Workers, measured"), figure(chart, timelineText(shown.measured), from)];
}

// One policy's items and timelines, made anew when another is chosen.
function planParts() {
  const title = heading(2, "");
  const select = element("select", { id: "policy" }, ...data.policies.map(({ name }) => element("option", { value: name }, name)));
  const hint = element("span", { class: "soft" });
  const plan = element("div", { id: "plan" });
  const traced = data.policies.find((policy) => policy.measured);
  const show = (name) => {
    shown = policyNamed(name) || shown;
    select.value = shown.name;
    title.textContent = `The plan of ${shown.name}`;
    hint.textContent = traced && traced !== shown ? `A recorded run is there for ${traced.name}.` : "";
    plan.dataset.policy = shown.name;
    plan.replaceChildren(...itemsParts(), ...predictedParts(), ...measuredParts());
    for (const row of document.querySelectorAll("tr[data-policy]")) {
      row.setAttribute("aria-current", row.dataset.policy === shown.name);
    }
  };
  select.addEventListener("change", () => show(select.value));
  addEventListener("hashchange", () => show(location.hash.slice(1)));
  const label = element("label", { for: "policy" }, "Policy");
  return { show, parts: [title, element("div", { class: "choose" }, label, select, hint), plan] };
}

function build() {
  const { show, parts } = planParts();
  const footer =
    `trunkline ${data.version} (${data.commit}). Counts and bytes are exact for this batch; predicted times are the ` +
    "cost model's. The page holds all its data and loads nothing.";
  page.root.append(
    header(),
    heading(2, "Prefix forest"), sharingLegend(), figure(new Chart("Prefix forest", drawForest), forestText()),
    heading(2, "Policies"), policyTable(show), soft(columnsText),
    ...parts,
    element("footer", {}, footer));
  show(location.hash ? location.hash.slice(1) : data.chosen);
}

build();
finish();
