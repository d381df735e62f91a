#!/usr/bin/env python3
"""Simulates replicas behind a router with `trunkline replay --replicas`: bench/results/routing has rows and a table.

The full traces are not part of the repository: TRACES is a folder that holds them by the names of CASES below, whose
sources bench/replay.py names.

python3 bench/routing.py --simulate TRACES --program build/release/tools/cli/trunkline   # rows, then the table
python3 bench/routing.py                                                                 # the table from the rows
python3 bench/routing.py --check                        # fails when the table is not what the rows say
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import NamedTuple

from report import table

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
ROWS = BENCH / "results/routing/rows.jsonl"
PAGE = BENCH / "results/routing/README.md"
ROUTERS = ("round_robin", "least_loaded", "prefix", "sibling")
GIB = 1 << 30
# 100 GiB of KV cache: an H200's 131 GiB less weights of 8 billion parameters, activations and a reserve.
COMMON = ["--machine", str(ROOT / "data/machines/h200-sxm.json"), "--policies", "flat", "--pool", "51200"]


class Case(NamedTuple):
    name: str
    trace: str
    limit: int  # requests, or sessions
    options: list[str]
    limit_of_1000: int  # the same for 1,000 replicas; 0: not simulated
    routers: tuple[str, ...] = ROUTERS

    def words(self, replicas: int) -> list[str]:
        return [*self.options, "--limit", str(self.limit_of_1000 if replicas == 1000 else self.limit)]


# Loads that one replica can serve. A thousand replicas get a shorter head of the trace: minutes of one core.
CASES = (
    # Requests that are sessions by themselves: sibling is least_loaded.
    Case("tool agents", "mooncake/toolagent_window.jsonl", 100, [], 25, ROUTERS[:3]),
    Case("conversations", "mooncake/conversation.jsonl", 200, ["--time-scale", "2"], 0, ROUTERS[:3]),
    Case("agent sessions", "agentic/lmcache_miniswe.jsonl", 12, ["--sessions", "12"], 0),
    Case("rollouts", "mooncake/toolagent_window.jsonl", 20, ["--samples", "8", "--rate", "0.5"], 10),
    Case("short rollouts", "serving/azure_conv.csv", 60, ["--samples", "8"], 0),
)
REPLICAS = (1, 10, 100, 1000)
HEADER = ["replicas", "router", "requests", "found in cache", "sharing", "attention, s", "flat's over it", "busy, s"]
HEADER += ["busiest over mean", "queue P99, s", "first token P99, s", "KV GiB, mean", "KV GiB, largest"]
TEXT = """# Replicas behind a router
Written by `bench/routing.py` from [rows.jsonl](rows.jsonl): simulations, in which every time is a prediction. What they
say, and what each column is: [replicas behind a router](../../../docs/guides/routing.md).

"""


def simulate(case: Case, replicas: int, router: str, traces: pathlib.Path, program: str) -> dict:
    folder = ROOT / "data" if case.trace.startswith("serving/") else traces
    with tempfile.TemporaryDirectory() as scratch:
        lines = pathlib.Path(scratch) / "lines.jsonl"
        words = ["replay", case.trace, *COMMON, *case.words(replicas), "--replicas", str(replicas), "--routing", router]
        command = [program, *words, "--json", str(lines)]
        print(" ".join(command), file=sys.stderr)
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return {"case": case.name, **json.loads(lines.read_text().splitlines()[-1])}


def simulate_all(traces: pathlib.Path, options: argparse.Namespace) -> None:
    program = str(pathlib.Path(options.program).resolve())
    rows = load()
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    for case in (case for case in CASES if case.name in options.cases):
        for replicas in (count for count in options.replicas if count < 1000 or case.limit_of_1000 > 0):
            for router in (router for router in case.routers if router in options.routers):
                row = simulate(case, replicas, router, traces, program)
                rows = [other for other in rows if key_of(other) != key_of(row)] + [row]
                ROWS.write_text("".join(json.dumps(row) + "\n" for row in sorted(rows, key=key_of)))


def load() -> list[dict]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def key_of(row: dict) -> tuple[int, int, int]:
    names = [case.name for case in CASES]
    return names.index(row["case"]), row["replicas"], ROUTERS.index(row["routing"])


def line(row: dict) -> list[str]:
    return [
        f"{row['replicas']:,}",
        f"`{row['routing']}`",
        f"{row['admitted']:,}",
        f"{100 * row['cached_tokens'] / row['prompt_tokens']:.1f} %",
        f"{row['sharing']:.3f}",
        f"{row['attention_us'] * row['layers'] / 1e6:,.1f}",
        f"{row['attention_us_by']['flat'] / row['attention_us']:.2f}",
        f"{row['busy_s']:,.0f}",
        f"{row['busiest_s'] * row['replicas'] / row['busy_s']:.2f}",
        f"{row['queue_s']['p99']:.2f}",
        f"{row['first_token_s']['p99']:.2f}",
        f"{row['kv_bytes_mean']['mean'] / GIB:.2f}",
        f"{row['kv_bytes_max']['max'] / GIB:.1f}",
    ]


def page() -> str:
    rows = load()
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    parts = [TEXT + f"Planned for {rows[0]['machine']}; commit {commits}.\n"]
    for case in CASES:
        options = " ".join(case.words(1))
        if case.limit_of_1000 > 0:
            options += f"`, with 1,000 replicas `--limit {case.limit_of_1000}"
        lines = [line(row) for row in rows if row["case"] == case.name]
        if not lines:
            continue
        parts.append(f"## {case.name.capitalize()}\n`{case.trace} {options}`\n\n" + table(HEADER, lines))
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", metavar="TRACES", type=pathlib.Path)
    parser.add_argument("--program", default=str(ROOT / "build/release/tools/cli/trunkline"))
    parser.add_argument("--cases", nargs="+", default=[case.name for case in CASES])
    parser.add_argument("--routers", nargs="+", choices=ROUTERS, default=list(ROUTERS))
    parser.add_argument("--replicas", type=int, nargs="+", choices=REPLICAS, default=list(REPLICAS))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.simulate:
        simulate_all(options.simulate.resolve(), options)
    if not options.check:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("bench/results/routing/README.md is not what rows.jsonl says: run bench/routing.py")


if __name__ == "__main__":
    main()
