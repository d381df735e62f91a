#!/usr/bin/env python3
"""Writes the counts of a fuzz target's run to bench/results/fuzz.json, in place of the target's last ones.

scripts/fuzz_record.py TARGET LOG FOUND CORPUS    # LOG is the program's output; FOUND has what it found, crashes too
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results/fuzz.json"


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def row_of(target: str, log: str, found: pathlib.Path, corpus: pathlib.Path) -> dict:
    executions = re.search(r"stat::number_of_executed_units:\s+(\d+)", log)
    seconds = re.search(r"Done \d+ runs in (\d+) second", log)
    if executions is None:
        sys.exit(f"{target}: the log has no stat::number_of_executed_units")
    kept = list(corpus.iterdir())
    dirty = "-dirty" if git("status", "--porcelain", "--", "src", "include", "tests", "tools") else ""
    return {
        "target": target,
        "date": datetime.date.today().isoformat(),
        "commit": git("rev-parse", "--short=12", "HEAD") + dirty,
        "sanitizers": "address,undefined",
        "executions": int(executions.group(1)),
        "seconds": int(seconds.group(1)) if seconds else None,
        "crashes": sum(1 for path in found.iterdir() if path.name.startswith(("crash-", "leak-", "oom-", "timeout-"))),
        "corpus_files": len(kept),
        "corpus_bytes": sum(path.stat().st_size for path in kept),
    }


def main() -> None:
    target, log, found, corpus = sys.argv[1:]
    text = pathlib.Path(log).read_text(errors="replace")
    row = row_of(target, text, pathlib.Path(found), pathlib.Path(corpus))
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    rows = [other for other in rows if other.get("target") != target] + [row]
    RESULTS.write_text("[\n" + ",\n".join("  " + json.dumps(each) for each in rows) + "\n]\n")


if __name__ == "__main__":
    main()
