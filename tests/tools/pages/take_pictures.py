#!/usr/bin/env python3
"""Takes the pictures of docs/guides/seeing.md: take_pictures.py PROGRAM DATA FOLDER, with Chromium."""

import pathlib
import subprocess
import sys
import tempfile

from browser import Browser

# Name, policy, width in pixels, dark, what of the page
PICTURES = (
    ("seeing.webp", "node", 1000, False, "body"),
    ("seeing-trunk.webp", "trunk", 1000, True, "#plan"),
    ("seeing-phone.webp", "node", 390, False, "body"),
)


def main():
    program, data, folder = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch, Browser() as browser:
        page = pathlib.Path(scratch) / "page.html"
        command = [program.resolve(), "plan", "demo.jsonl", "--batch", "1", "--machine", "machines/h200-sxm.json"]
        subprocess.run([*command, "--html", page], cwd=data, check=True, stdout=subprocess.DEVNULL)
        for name, policy, width, dark, part in PICTURES:
            browser.show(width, dark)
            browser.open(page, policy)
            browser.picture(folder / name, part)
        command = [program.resolve(), "replay", "reasoning/docmerge.jsonl", "--limit", "3", "--sessions", "2"]
        command += ["--machine", "machines/h200-sxm.json", "--html", page]
        subprocess.run(command, cwd=data, check=True, stdout=subprocess.DEVNULL)
        browser.show(1000, True)
        browser.open(page)
        browser.picture(folder / "seeing-replay.webp")
        if browser.faults:
            sys.exit(f"the page has faults: {browser.faults}")


if __name__ == "__main__":
    main()
