"""Recorded requests from data/: lengths, times and who shares what; data/README.md names their sources."""

import csv
import datetime
import functools
import json
import pathlib

DATA = pathlib.Path(__file__).resolve().parent.parent.parent / "data"


def json_lines(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@functools.cache
def mooncake(name: str) -> list[dict]:
    """Rows of a Mooncake trace: timestamp in ms, input_length, output_length, hash_ids of blocks of 512 tokens."""
    folder = "traces" if name == "mooncake_conversation" else "serving"
    return json_lines(DATA / folder / f"{name}.jsonl")


@functools.cache
def azure(name: str) -> list[tuple[float, int, int]]:
    """For each request of an Azure trace: seconds since the first one, tokens of the prompt, tokens of the answer."""
    with open(DATA / "serving" / f"{name}.csv", newline="") as lines:
        rows = list(csv.DictReader(lines))
    times = [datetime.datetime.strptime(row["TIMESTAMP"][:26], "%Y-%m-%d %H:%M:%S.%f") for row in rows]
    return [
        ((time - times[0]).total_seconds(), int(row["ContextTokens"]), int(row["GeneratedTokens"]))
        for time, row in zip(times, rows, strict=True)
    ]


@functools.cache
def reasoning(name: str) -> list[list[list[int]]]:
    """Nodes of each recorded search: [id, parent or -1, tokens, first iteration, last iteration]."""
    return [row["nodes"] for row in json_lines(DATA / "reasoning" / f"{name}.jsonl")]
