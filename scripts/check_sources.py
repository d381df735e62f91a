#!/usr/bin/env python3
"""Checks that each source is in the CMakeLists.txt that builds it: a forgotten test would silently never run.

scripts/check_sources.py
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools", "tests", "bench", "python")
NOT_BUILT_BY_CMAKE = ("bench/python/",)  # compiled by the script that runs it


def words_of(folder: pathlib.Path) -> set[str]:
    path = folder / "CMakeLists.txt"
    return set(re.findall(r"[^\s()/]+", path.read_text())) if path.is_file() else set()


def is_named(source: pathlib.Path) -> bool:
    """Whether a CMakeLists.txt of its folder or one above has its name, with or without the suffix."""
    names = {source.name, source.stem}
    return any(names & words_of(folder) for folder in source.parents if folder != ROOT and ROOT in folder.parents)


def main() -> None:
    globs = [f"{folder}/*{suffix}" for folder in FOLDERS for suffix in (".c", ".cpp", ".cu")]
    listed = subprocess.run(["git", "ls-files", *globs], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    sources = [name for name in listed.split() if not name.startswith(NOT_BUILT_BY_CMAKE)]
    faults = [name for name in sources if not is_named(ROOT / name)]
    if faults:
        sys.exit("\n".join(f"{name}: no CMakeLists.txt names it" for name in faults))


if __name__ == "__main__":
    main()
