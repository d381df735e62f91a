#!/usr/bin/env python3
"""Simulates replicas behind a router with `trunkline replay --replicas`, and writes docs/routing.md from the rows.

python3 bench/routing.py --program build/release/tools/cli/trunkline   # rewrites the rows and the page
python3 bench/routing.py                                               # writes the page alone
python3 bench/routing.py --check                                       # fails when the page is not what the rows say
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from report import table

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
ROWS = BENCH / "results/routing.jsonl"
PAGE = ROOT / "docs/routing.md"
TEXT = BENCH / "routing_page.md"
MACHINE = "data/machines/h200-sxm.json"
POLICIES = ("round_robin", "least_loaded", "prefix", "sibling")
# name, trace, options: the largest loads of the recorded heads that decode in minutes on two cores.
CASES = (
    ("tool agents", "data/traces/mooncake_toolagent.jsonl", ["--samples", "1"]),
    ("tool agents, 8 samples", "data/traces/mooncake_toolagent.jsonl", ["--samples", "8", "--time-scale", "8"]),
)
REPLICAS = (1, 10, 100, 1000)
GIB = 1 << 30


def simulate(program: str, only: list[int], limit: int) -> None:
    rows = [] if not ROWS.exists() else [json.loads(line) for line in ROWS.read_text().splitlines()]
    for name, trace, options in CASES:
        for replicas in only:
            for policy in POLICIES:
                with tempfile.NamedTemporaryFile() as file:
                    words = [program, "replay", trace, "--machine", MACHINE, "--replicas", str(replicas)]
                    words += ["--routing", policy, "--limit", str(limit), "--policies", "flat", "--json", file.name]
                    subprocess.run([*words, *options], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
                    summary = json.loads(pathlib.Path(file.name).read_text().splitlines()[-1])
                key = (name, replicas, policy)
                rows = [row for row in rows if (row["case"], row["replicas"], row["routing"]) != key]
                rows.append({"case": name, **summary})
                ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows))
                print(name, replicas, policy, file=sys.stderr)


def line(row: dict) -> list[str]:
    flat = row["attention_us_by"]["flat"] / row["attention_us"]
    return [
        f"{row['replicas']:,}",
        row["routing"],
        f"{row['admitted']:,}",
        f"{100 * row['cached_tokens'] / row['prompt_tokens']:.1f} %",
        f"**{row['sharing']:.3f}**",
        f"{row['attention_us'] * row['layers'] / 1e6:,.0f}",
        f"{flat:.2f}",
        f"{row['busy_s']:,.0f}",
        f"{row['queue_s']['p99']:.2f}",
        f"{row['first_token_s']['p99']:.2f}",
        f"{row['kv_bytes_max']['mean'] / GIB:.1f}",
        f"{row['kv_bytes_max']['max'] / GIB:.1f}",
    ]


def page() -> str:
    text = TEXT.read_text()
    if not ROWS.exists():
        return text.replace("{tables}", "There are no rows yet; `bench/routing.py --program` writes them.")
    rows = [json.loads(row) for row in ROWS.read_text().splitlines()]
    rows.sort(key=lambda row: (row["replicas"], POLICIES.index(row["routing"])))
    header = ["replicas", "routing", "requests", "found in cache", "sharing", "attention, s", "flat's over it"]
    header += ["busy, s", "queue 99 %, s", "first token 99 %, s", "KV GiB, mean", "most"]
    parts = []
    for name, trace, options in CASES:
        lines = [line(row) for row in rows if row["case"] == name]
        if lines:
            parts.append(f"### {name}\n`{trace} {' '.join(options)}`\n\n" + table(header, lines))
    facts = f"Planned for {rows[0]['machine']}; commit {rows[0]['commit']}.\n\n"
    return text.replace("{tables}", facts + "\n".join(parts).rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="simulate with this program first")
    parser.add_argument("--replicas", type=int, nargs="+", default=list(REPLICAS))
    parser.add_argument("--limit", type=int, default=100, help="requests to take from each trace")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.program:
        simulate(options.program, options.replicas, options.limit)
    if options.check:
        if PAGE.read_text() != page():
            sys.exit("docs/routing.md is not what bench/results/routing.jsonl says: run bench/routing.py")
    else:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
