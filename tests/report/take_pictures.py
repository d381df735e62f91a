#!/usr/bin/env python3
"""Takes the pictures of docs/seeing.md: take_pictures.py PROGRAM DATA FOLDER, with Chromium."""

import pathlib
import subprocess
import sys
import tempfile

from browser import Browser

# Name, policy, width, height in pixels (None: all of it), dark
PICTURES = (
    ("seeing.webp", "trunk", 1040, None, False),
    ("seeing-dark.webp", "node", 1040, None, True),
    ("seeing-phone.webp", "node", 390, None, False),
)


def main():
    program, data, folder = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch, Browser() as browser:
        page = pathlib.Path(scratch) / "page.html"
        command = [program.resolve(), "plan", "demo.jsonl", "--batch", "1", "--machine", "machines/h200-sxm.json"]
        subprocess.run([*command, "--html", page], cwd=data, check=True, stdout=subprocess.DEVNULL)
        for name, policy, width, height, dark in PICTURES:
            browser.show(width, dark)
            browser.open(page, policy)
            browser.picture(folder / name, height)
        if browser.faults:
            sys.exit(f"the page has faults: {browser.faults}")


if __name__ == "__main__":
    main()
