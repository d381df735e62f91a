#!/usr/bin/env python3
"""Refuses identifiers that gave way to the field's terms; scripts/retired_words.txt has them, and what stands for each.

scripts/check_words.py
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = ROOT / "scripts/retired_words.txt"
# The history of names, and measured rows, which keep the names of their time.
KEPT = ("CHANGELOG.md", "scripts/retired_words.txt", "bench/results/", "data/")


def retired() -> dict[str, str]:
    lines = [line for line in WORDS.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(" ", 1) for line in lines)


def main() -> None:
    words = retired()
    pattern = re.compile(rf"(?<![A-Za-z0-9_])({'|'.join(map(re.escape, words))})(?![A-Za-z0-9_])")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    faults = []
    for name in listed.splitlines():
        path = ROOT / name
        if name.startswith(KEPT) or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # an image
        for number, line in enumerate(text.splitlines(), 1):
            faults += [f"{name}:{number}: {found}; the field's term: {words[found]}" for found in pattern.findall(line)]
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
