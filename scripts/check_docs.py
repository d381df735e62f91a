#!/usr/bin/env python3
"""Checks Markdown pages: links and anchors lead somewhere, lines and pages are short; prints each fault.

scripts/check_docs.py

Anchors are those that GitHub makes of headings; the site (scripts/site/conf.py) makes the same. A line has at most 120
characters, tables apart. A page of docs/ that a person writes, and README.md, has at most 200 lines.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINE = 120
MAX_PAGE = 200
# Pages that scripts write, or folders of such pages. Their lines may be long, and they have as many as there are rows.
GENERATED = (
    "bench/results/",
    "docs/concepts/models.md",
    "docs/reference/api_python.md",
    "docs/reference/engine_layer.md",
)
# Texts of generated pages, whose links start from where the page will be.
TEMPLATES = ("bench/replay_page.md.in",)
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*([^()\s]+)(?:\s+\"[^\"]*\")?\s*\)|\b(?:src|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
EXPLICIT_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")


def without_code(lines: list[str]) -> str:
    """The text, empty where it is code: fenced, indented after an empty line, or within backticks."""
    kept: list[str] = []
    fence, after_gap, in_list = "", True, False
    for line in lines:
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
            kept.append("")
            continue
        if mark:
            fence = mark[1]
            kept.append("")
            continue
        if re.match(r"\s*([-*+]|\d+\.)\s", line):
            in_list = True
        elif line and not line[0].isspace():
            in_list = False
        indented = line.startswith("    ") and not in_list and (after_gap or kept[-1:] == ["\0"])
        kept.append("\0" if indented else line)
        after_gap = not line.strip()
    text = "\n".join("" if line == "\0" else line for line in kept)
    # A span in backticks may go over a line's end, never over a paragraph's. Line ends stay, for the numbers of lines.
    span = r"(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\1(?!`)"
    return re.sub(span, lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL)


def slug(heading: str) -> str:
    """GitHub's anchor of a heading, its Markdown left out."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors(lines: list[str]) -> set[str]:
    found: set[str] = set()
    counts: dict[str, int] = {}
    fenced = False
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        found.update(EXPLICIT_ANCHOR.findall(line))
        if heading := HEADING.match(line):
            name = slug(heading[2])
            count = counts.get(name, 0)
            counts[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
    return found


class Pages:
    def __init__(self) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        self.files = {name for name in listed.splitlines() if (ROOT / name).is_file()}
        self.folders = {str(parent) for name in self.files for parent in pathlib.PurePosixPath(name).parents}
        self.names = sorted(name for name in self.files if name.endswith(".md") and name not in TEMPLATES)
        self.lines = {name: (ROOT / name).read_text(encoding="utf-8").splitlines() for name in self.names}
        self.anchors = {name: anchors(lines) for name, lines in self.lines.items()}

    def link_fault(self, page: str, target: str) -> str | None:
        """Why the target, as it stands in the page, leads nowhere."""
        if re.match(r"[a-z][a-z+.-]*:", target):
            return None  # another host's; nothing is fetched here
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if full not in self.files and full not in self.folders:
            return f"{target}: there is no {full}"
        if anchor and full in self.anchors and anchor not in self.anchors[full]:
            return f"{target}: {full} has no heading with the anchor #{anchor}"
        return None

    def faults(self) -> list[str]:
        found = []
        for page in self.names:
            lines = self.lines[page]
            generated = page.startswith(GENERATED)
            text = without_code(lines)
            for link in LINK.finditer(text):
                if fault := self.link_fault(page, link[1] or link[2]):
                    found.append(f"{page}:{text.count(chr(10), 0, link.end()) + 1}: {fault}")
            if generated:
                continue
            for number, line in enumerate(lines, 1):
                if len(line) > MAX_LINE and not line.lstrip().startswith("|"):
                    found.append(f"{page}:{number}: {len(line)} characters; at most {MAX_LINE}")
            if (page.startswith("docs/") or page == "README.md") and len(lines) > MAX_PAGE:
                found.append(f"{page}: {len(lines)} lines; a page that a person writes has at most {MAX_PAGE}")
        missing = [name for name in (*GENERATED, *TEMPLATES) if not (ROOT / name).exists()]
        return found + [f"scripts/check_docs.py names {name}, which does not exist" for name in missing]


def main() -> None:
    if faults := Pages().faults():
        sys.exit("\n".join(f"check_docs: {fault}" for fault in faults))


if __name__ == "__main__":
    main()
