// Timelines of the workers: predicted, and as a run recorded them.

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

function timelineText(timeline) {
  const heads = format.plural(data.shape.kv_heads, "KV head");
  const tasks = `${format.plural(timeline.tasks, "task")} (${format.plural(shown.items, "item")} × ${heads})`;
  let text =
    `${format.plural(timeline.workers.length, "worker")}, ${tasks}. From the first task's begin to the last one's end: ` +
    `${fromNs(timeline.end_ns - timeline.begin_ns)}, of which ${format.percent(timeline.bubble_share)} of the workers' ` +
    "time are bubbles.";
  if (timeline.resolution_ns > 0) {
    text +=
      ` Too many tasks to draw each: those of one worker within ${fromNs(timeline.resolution_ns)} are one block, ` +
      "coloured as its longest.";
  }
  return text;
}

function predictionText() {
  const { predicted_us: predicted } = shown.statistics;
  const off = predicted * 1e3 - shown.predicted.end_ns;
  if (Math.abs(off) < 0.001 * predicted * 1e3) return "";
  if (off > 0.04 * predicted * 1e3) {
    return (
      " The predicted time is later than the last task: memory as a whole, or many small tasks that the planner does " +
      "not place one by one, take longer than the schedule."
    );
  }
  return " The planner adds up tasks in classes of cost, so its predicted time and the end of the last task differ a little.";
}
