// The page of `trunkline replay --html`: what the steps of a trace share and cost over time. Here: its data. A bin is a
// few neighbouring steps, and its values are means of a step.

const data = page.data();
const bins = data.bins;
const steps = bins.reduce((sum, bin) => sum + bin.steps, 0);
const sum = (value) => bins.reduce((total, bin) => total + bin.steps * value(bin), 0);
const mean = (value) => (steps === 0 ? 0 : sum(value) / steps);
const most = (value) => bins.reduce((largest, bin) => Math.max(largest, value(bin)), 0);
const ratio = (part, whole) => (whole === 0 ? 1 : part / whole);
const sharingOf = (bin) => ratio(bin.total, bin.distinct);
const stepsText = (bin) =>
  bin.steps === 1 ? `step ${format.count(bin.first_step)}` : `steps ${format.count(bin.first_step)} to ${format.count(bin.first_step + bin.steps - 1)}`;
const beginText = (bin) => `from ${format.time(bin.begin_s * 1e6)} on`;
