#!/usr/bin/env python3
"""Replays recorded traces and writes its rows to bench/results/replay.

The full traces are not part of the repository: TRACES is a folder that holds them by the names of RUNS below, whose
sources they come from. The search trees are in data/reasoning.

    python3 bench/replay.py TRACES --program build/release/tools/cli/trunkline [--only traces|figure5|executed]
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
RESULTS = BENCH / "results/replay"
H200 = ["--machine", str(ROOT / "data/machines/h200-sxm.json")]
A100 = ["--machine", str(ROOT / "data/machines/a100-80gb.json")]
MOONCAKE = "kvcache-ai/Mooncake, FAST25-release/traces, 3b5a594, Apache-2.0"
WINDOW = "the tool/agent log of Mooncake, 88 s, from hiverge/dynamo, 4915d8f, Apache-2.0"
AZURE = "Azure/AzurePublicDataset, 2023, b469a11, CC-BY-4.0"
WEKA = "callanjfox/kv-cache-tester, 94f6046, Apache-2.0, re-encoded"
LMCACHE = "LMCache/lmcache-agent-trace, 16a14ad, Apache-2.0, derived"
DEFT = "LINs-lab/DeFT, 728525e, MIT; in data/reasoning"
# Two servers' worth of requests would queue up without end on the one that is modelled.
HALF = ["--time-scale", "2"]
PAT = ["--pat-style"]
PAT_ALL = ["--pat-style", "--pat-keep-root-zero", "--pat-max-tokens", "32000"]
LARGE_PAGES = ["--page-size", "64", "--pool", "65536"]

# Name, file, source, what is done to it, options
RUNS = [
    ("mooncake tool/agent", "mooncake/toolagent_window.jsonl", WINDOW, "faithful", []),
    ("mooncake tool/agent", "mooncake/toolagent_window.jsonl", WINDOW, "PAT-style", PAT),
    ("mooncake tool/agent", "mooncake/toolagent_window.jsonl", WINDOW, "PAT-style, not filtered", PAT_ALL),
    ("mooncake conversation", "mooncake/conversation.jsonl", MOONCAKE, "faithful", HALF),
    ("mooncake conversation", "mooncake/conversation.jsonl", MOONCAKE, "PAT-style, not filtered", PAT_ALL),
    ("mooncake synthetic", "mooncake/synthetic.jsonl", MOONCAKE, "faithful", HALF),
    ("mooncake synthetic", "mooncake/synthetic.jsonl", MOONCAKE, "PAT-style", PAT),
    ("mooncake synthetic", "mooncake/synthetic.jsonl", MOONCAKE, "PAT-style, not filtered", PAT_ALL),
    ("azure conversation", "azure2023/conv.csv", AZURE, "faithful", []),
    ("azure code", "azure2023/code.csv", AZURE, "faithful", []),
    ("weka agentic sessions", "agentic/weka_sessions.jsonl", WEKA, "faithful", [*LARGE_PAGES, "--limit", "96"]),
    ("lmcache magagent", "agentic/lmcache_magagent.jsonl", LMCACHE, "faithful", []),
    ("lmcache miniswe", "agentic/lmcache_miniswe.jsonl", LMCACHE, "faithful", []),
]
SEARCHES = ("sorting128", "docmerge", "keyword", "set128")
RUNS += [(f"reasoning {name}", f"reasoning/{name}.jsonl", DEFT, "faithful", []) for name in SEARCHES]
RUNS += [
    (f"reasoning {name}", f"reasoning/{name}.jsonl", DEFT, "4 side by side", ["--sessions", "4"]) for name in SEARCHES
]

BINS = 6
SPLITS = ("none", "own")


def replay(program: str, folder: pathlib.Path, words: list[str]) -> list[dict]:
    """The JSON lines of one replay, whose trace is named relative to the folder."""
    with tempfile.TemporaryDirectory() as scratch:
        lines = pathlib.Path(scratch) / "steps.jsonl"
        command = [program, "replay", *words, "--json", str(lines)]
        print(" ".join(command), file=sys.stderr)
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return [json.loads(line) for line in lines.read_text().splitlines()]


def folder_of(path: str, traces: pathlib.Path) -> pathlib.Path:
    return ROOT / "data" if path.startswith("reasoning/") else traces


def write(name: str, rows: list[dict]) -> None:
    path = RESULTS / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{path.relative_to(ROOT)}: {len(rows)} rows", file=sys.stderr)


def run_traces(program: str, traces: pathlib.Path) -> None:
    rows = []
    for name, path, source, style, options in RUNS:
        for planner in ("async", "sync"):
            words = [path, *H200, *options, "--planner", planner]
            *_, summary = replay(program, folder_of(path, traces), words)
            rows.append({"suite": "traces", "case": name, "style": style, "source": source, **summary})
            rows[-1]["options"] = " ".join(options)
    write("traces", rows)


def rank(values: list[float]) -> list[float]:
    """Ranks from 0; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end + 1 < len(order) and values[order[end + 1]] == values[order[begin]]:
            end += 1
        for place in range(begin, end + 1):
            ranks[order[place]] = (begin + end) / 2
        begin = end + 1
    return ranks


def correlation(a: list[float], b: list[float]) -> float | None:
    """Spearman's: of the ranks; nothing where one of them does not vary."""
    a, b = rank(a), rank(b)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    spread = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / spread if spread > 0 else None


def by_spread(points: list[tuple[float, float, float]]) -> list[dict]:
    """Iterations in parts of equal number, by the spread of their nodes' lengths."""
    points = sorted(points)
    bins = []
    for i in range(BINS):
        part = points[len(points) * i // BINS : len(points) * (i + 1) // BINS]
        if not part:
            continue
        ratios = [node / flatten for _, node, flatten in part]
        bins.append(
            {
                "iterations": len(part),
                "deviation_from": part[0][0],
                "deviation_to": part[-1][0],
                "node_us": sum(node for _, node, _ in part) / len(part),
                "flatten_us": sum(flatten for _, _, flatten in part) / len(part),
                "node_over_flatten": math.exp(sum(map(math.log, ratios)) / len(ratios)),
                "flatten_faster": sum(ratio > 1 for ratio in ratios) / len(ratios),
            }
        )
    return bins


def run_figure5(program: str) -> None:
    """Node against Flatten, each iteration of each tree, by prediction."""
    rows = []
    for name in SEARCHES:
        for split in SPLITS:
            words = [f"reasoning/{name}.jsonl", *A100, "--page-size", "1", "--pool", "1000000", "--planner", "sync"]
            words += ["--policies", "node,flatten", "--price-every", "1", "--split", split]
            *steps, summary = replay(program, ROOT / "data", words)
            points = [
                (step["node_tokens_deviation"], *(step["policies"][p]["predicted_us"] for p in ("node", "flatten")))
                for step in steps
            ]
            ratios = [node / flatten for _, node, flatten in points]
            row = {"suite": "figure5", "case": name, "split": split, "source": DEFT, "iterations": len(points)}
            row["correlation"] = correlation([deviation for deviation, _, _ in points], ratios)
            row["bins"] = by_spread(points)
            rows.append({**row, **{key: summary[key] for key in ("machine", "commit")}})
    write("figure5", rows)


def run_executed(program: str) -> None:
    """The same on this machine's CPU for one tree, run and checked."""
    rows = []
    for split in SPLITS:
        words = ["reasoning/docmerge.jsonl", "--limit", "1", "--pool", "4000", "--planner", "sync", "--split", split]
        words += ["--policies", "node,flatten", "--price-every", "1", "--execute", "40", "--repeat", "5"]
        *steps, summary = replay(program, ROOT / "data", words)
        if summary["wrong_steps"] > 0:
            raise SystemExit(f"{summary['wrong_steps']} steps of {words[0]} are wrong")
        for step in steps:
            if "executed" not in step:
                continue
            row = {"suite": "executed", "case": "docmerge, tree 1", "split": split, "iteration": step["step"]}
            for key in ("requests", "nodes", "node_tokens_mean", "node_tokens_deviation"):
                row[key] = step[key]
            for policy in ("node", "flatten"):
                row[f"{policy}_us"] = step["executed"]["us_by"][policy]
                row[f"{policy}_predicted_us"] = step["policies"][policy]["predicted_us"]
            row["max_err"] = step["executed"]["max_err"]
            rows.append({**row, **{key: summary[key] for key in ("machine", "device", "commit")}})
    write("executed", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=pathlib.Path, help="the folder of the full traces")
    parser.add_argument("--program", default=str(ROOT / "build/release/tools/cli/trunkline"))
    parser.add_argument("--only", choices=("traces", "figure5", "executed"))
    given = parser.parse_args()
    program = str(pathlib.Path(given.program).resolve())
    missing = {path for _, path, *_ in RUNS if not (folder_of(path, given.traces) / path).exists()}
    if given.only in (None, "traces") and missing:
        parser.error(f"{given.traces} lacks {', '.join(sorted(missing))}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    if given.only in (None, "traces"):
        run_traces(program, given.traces)
    if given.only in (None, "figure5"):
        run_figure5(program)
    if given.only in (None, "executed"):
        run_executed(program)


if __name__ == "__main__":
    main()
