"""Generated pages: lines are wrapped, a page is written, or compared with what its rows say."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 118
# Lines that stay as they are: tables, headings, images, HTML, code.
KEPT = ("|", "#", "![", "<", "    ")
# Words that would begin a list, a quotation or a heading at the begin of a line.
MARKERS = re.compile(r"([-+*>#]+|\d+[.)])$")


def wrapped(text: str, indent: str = "") -> str:
    """One paragraph in lines of at most WIDTH characters; the first is not indented."""
    lines, words = [""], text.split()
    for place, word in enumerate(words):
        # A marker stays on the line of the word before it.
        behind = words[place + 1] if place + 1 < len(words) else ""
        held = len(behind) + 1 if MARKERS.match(behind) else 0
        if lines[-1].strip() and len(lines[-1]) + 1 + len(word) + held > WIDTH and not MARKERS.match(word):
            lines.append(indent + word)
        else:
            lines[-1] += " " * bool(lines[-1].strip()) + word
    return "\n".join(lines)


def wrapped_page(text: str) -> str:
    """The page with all paragraphs and list items wrapped that have a longer line."""
    found: list[list[str]] = []
    joins = False  # whether a line goes on with the paragraph before it
    code = False
    for line in text.split("\n"):
        code ^= line.startswith("```")
        alone = code or not line or line.startswith((*KEPT, "```"))
        if alone or line.startswith("- ") or not joins:
            found.append([line])
        else:
            found[-1].append(line)
        joins = not alone
    return "\n".join(paragraph(lines) for lines in found)


def paragraph(lines: list[str]) -> str:
    if len(lines[0]) <= WIDTH + 2 and all(len(line) <= WIDTH + 2 for line in lines):
        return "\n".join(lines)
    if lines[0].startswith((*KEPT, "```")):
        return "\n".join(lines)
    return wrapped(" ".join(lines), "  " if lines[0].startswith("- ") else "")


def write_or_check(page: pathlib.Path, text: str, script: str) -> None:
    """Writes the page; with --check on the command line, compares it instead. :raises SystemExit: where it differs"""
    text = wrapped_page(text)
    if "--check" not in sys.argv[1:]:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)
    elif not page.exists() or page.read_text() != text:
        name = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
        raise SystemExit(f"{name} is not what the rows say; run python3 bench/{script}")
