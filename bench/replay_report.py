#!/usr/bin/env python3
"""Writes bench/results/replay/README.md from the text of replay_page.md.in and the rows beside the page.

python3 bench/replay_report.py           # writes the page
python3 bench/replay_report.py --check   # fails when it is not what the rows say
"""

import json
import math
import pathlib

import pages
from report import geometric_mean, table

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results/replay"
PAGE = RESULTS / "README.md"
SHOWN_POLICIES = ("flat", "cascade", "node", "profit", "greedy", "flatten", "balanced", "trunk")


def load(name: str) -> list[dict]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


def pairs_of(rows: list[dict]) -> list[tuple[dict, dict]]:
    """The two rows of each replay: planned on a thread of its own, and between steps."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    for ahead, between in pairs:
        assert (ahead["setting"]["planner"], between["setting"]["planner"]) == ("async", "sync")
        assert (ahead["case"], ahead["style"]) == (between["case"], between["style"])
    return pairs


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def us(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def per_step(row: dict, value: float) -> float:
    return value / max(row["steps"], 1)


def sharing_table(rows: list[dict]) -> str:
    lines = []
    for row, _ in pairs_of(rows):
        flat, node = row["policies"]["flat"], row["policies"]["node"]
        lines.append(
            [
                row["case"],
                row["style"],
                f"{row['admitted']:,}",
                f"{per_step(row, row['requests']):.1f}",
                percent(row["cached_tokens"] / max(row["prompt_tokens"], 1)),
                f"**{row['sharing']:.3f}**",
                f"{row['sharing_by_step']['median']:.3f}",
                f"{row['sharing_by_step']['max']:.2f}",
                f"{flat['kv_bytes'] / max(node['kv_bytes'], 1):.3f}",
                f"{flat['predicted_us'] / row['attention_us']:.3f}",
            ]
        )
    header = ["trace", "how", "requests", "a step", "prompts found in cache", "sharing", "median step", "most"]
    return table([*header, "flat's KV bytes over node's", "flat's time over auto's"], lines)


def planning_table(rows: list[dict]) -> str:
    lines = []
    for ahead, between in pairs_of(rows):
        lines.append(
            [
                ahead["case"],
                ahead["style"],
                f"{between['steps']:,}",
                f"**{percent(between['kept_share'])}**",
                f"{between['plans']['membership']:,}",
                f"{between['plans']['growth']:,}",
                us(between["exposed_us"]["mean"]),
                us(between["exposed_replanned_us"]["median"]),
                us(between["exposed_replanned_us"]["p99"]),
                us(ahead["exposed_us"]["mean"]),
                us(ahead["exposed_replanned_us"]["median"]),
                us(ahead["exposed_replanned_us"]["p99"]),
                us(ahead["hidden_us"]["median"]),
                f"{ahead['plans']['edited'] + ahead['plans']['flat']:,}",
            ]
        )
    header = ["trace", "how", "steps", "kept their plan", "new: membership", "new: growth"]
    header += ["sync: all steps, mean", "new plan, median", "99 %"]
    header += ["async: all steps, mean", "new plan, median", "99 %", "hidden, median", "late"]
    return table(header, lines)


def policy_table(rows: list[dict]) -> str:
    lines = []
    for row, _ in pairs_of(rows):
        cells = [row["case"], row["style"], us(per_step(row, row["attention_us"]))]
        ratios = {name: row["policies"][name]["predicted_us"] / row["attention_us"] for name in SHOWN_POLICIES}
        lines.append([*cells, *(f"{ratios[name]:.2f}" for name in SHOWN_POLICIES)])
    return table(["trace", "how", "auto, us", *SHOWN_POLICIES], lines)


def events_table(rows: list[dict]) -> str:
    lines = []
    for row, _ in pairs_of(rows):
        events = row["events"]
        lines.append(
            [
                row["case"],
                row["style"],
                f"{row['seconds']:,.0f}",
                f"{row['prompt_tokens']:,}",
                f"{row['output_tokens']:,}",
                *(f"{events[name]:,}" for name in ("joins", "leaves", "forks", "copies")),
                f"{row['evicted_pages']:,}",
                f"{row['refused']:,}",
            ]
        )
    header = ["trace", "how", "s of its clock", "prompt tokens", "output tokens", "joins", "leaves", "forks", "copies"]
    return table([*header, "pages evicted", "refused"], lines)


def figure5_table(rows: list[dict], split: str) -> str:
    lines = []
    for row in rows:
        if row["split"] != split:
            continue
        for place, part in enumerate(row["bins"]):
            lines.append(
                [
                    row["case"] if place == 0 else "",
                    f"{part['deviation_from']:.0f} to {part['deviation_to']:.0f}",
                    f"{part['iterations']:,}",
                    us(part["node_us"]),
                    us(part["flatten_us"]),
                    f"**{part['node_over_flatten']:.2f}**",
                    percent(part["flatten_faster"]),
                    f"{row['correlation']:+.2f}" if place == 0 else "",
                ]
            )
    header = ["search", "spread, tokens", "iterations", "Node, us", "Flatten, us", "Node / Flatten", "Flatten faster"]
    return table([*header, "rank correlation"], lines)


def executed_table(rows: list[dict]) -> str:
    lines = []
    steps = {split: {row["iteration"]: row for row in rows if row["split"] == split} for split in ("none", "own")}
    for iteration, row in steps["none"].items():
        cells = [f"{iteration:,}", str(row["requests"]), f"{row['node_tokens_deviation']:.0f}"]
        for split in ("none", "own"):
            step = steps[split][iteration]
            cells += [f"{step[f'{policy}_us'] / 1e3:.2f}" for policy in ("node", "flatten")]
            cells += [f"{step['node_us'] / step['flatten_us']:.2f}"]
            cells += [f"{step['node_predicted_us'] / step['flatten_predicted_us']:.2f}"]
        lines.append(cells)
    columns = ["Node, ms", "Flatten, ms", "ratio", "predicted"]
    header = ["iteration", "branches", "spread, tokens"]
    return table(header + [f"{name}: {c}" for name in ("uncut", "balanced") for c in columns], lines)


def executed_means(rows: list[dict]) -> str:
    lines = []
    for split, name in (("none", "uncut"), ("own", "cut for balance")):
        part = [row for row in rows if row["split"] == split]
        ratios = [row["node_us"] / row["flatten_us"] for row in part]
        predicted = [row["node_predicted_us"] / row["flatten_predicted_us"] for row in part]
        off = math.exp(sum(abs(math.log(a / b)) for a, b in zip(ratios, predicted, strict=True)) / len(part))
        cells = [
            name,
            str(len(part)),
            f"{geometric_mean(ratios):.2f}",
            f"{geometric_mean(predicted):.2f}",
            f"{off:.2f}x",
        ]
        cells += [
            percent(sum(ratio > 1 for ratio in ratios) / len(ratios)),
            f"{max(row['max_err'] for row in part):.0e}",
        ]
        lines.append(cells)
    header = ["Node's items", "iterations", "Node / Flatten, measured", "predicted", "predicted is off by"]
    return table([*header, "Flatten faster", "largest error"], lines)


def facts(rows: list[dict]) -> str:
    machines = ", ".join(dict.fromkeys(row["machine"] for row in rows))
    commits = ", ".join(dict.fromkeys(row["commit"] for row in rows))
    devices = ", ".join(dict.fromkeys(row["device"] for row in rows if "device" in row))
    return f"Planned for {machines}" + (f", replayed on one {devices}" if devices else "") + f"; commit {commits}.\n"


def sources(rows: list[dict]) -> str:
    lines = [[row["case"], f"`{row['trace']}`", row["source"], row["options"] or "none"] for row, _ in pairs_of(rows)]
    return table(["trace", "file", "source", "options"], lines)


def page() -> str:
    traces, figure5, executed = (load(name) for name in ("traces", "figure5", "executed"))
    text = (BENCH / "replay_page.md.in").read_text()
    parts = {
        "sharing": sharing_table(traces),
        "planning": planning_table(traces),
        "policies": policy_table(traces),
        "events": events_table(traces),
        "sources": sources(traces),
        "figure5_none": figure5_table(figure5, "none"),
        "figure5_own": figure5_table(figure5, "own"),
        "executed": executed_table(executed),
        "executed_means": executed_means(executed),
        "facts_traces": facts(traces),
        "facts_figure5": facts(figure5),
        "facts_executed": facts(executed),
    }
    for name, part in parts.items():
        place = f"<!-- {name} -->\n"
        assert text.count(place) == 1, name
        text = text.replace(place, part)
    return text


def main() -> None:
    pages.write_or_check(PAGE, page(), "replay_report.py")


if __name__ == "__main__":
    main()
