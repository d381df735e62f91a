"""Sphinx's configuration of the site: the repository's Markdown pages as they are, README.md first (make site).

Nothing is fetched when a page is read: fonts are the system's, and search runs in the browser over a file of the site.
"""

import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))  # check_docs.py

project = "Trunkline"
version = release = re.search(r"project\(trunkline VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
project_copyright = "the Trunkline authors. Apache License 2.0"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "bench/README.md", "bench/results/**.md", "data/README.md"]

myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4
myst_heading_slug_func = "check_docs.slug"  # GitHub's
myst_links_external_new_tab = False
suppress_warnings = [
    "myst.header",  # a page may begin a level deeper, as generated ones do
    "misc.highlighting_failure",  # shell sessions with the program's output in them
]
highlight_language = "none"

html_theme = "furo"
html_title = "Trunkline"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
pygments_style, pygments_dark_style = "default", "github-dark"

# The pages by reader. A name with a star adds pages that no earlier name has.
NAVIGATION = {
    "Get started": "docs/start/cpu docs/start/vllm docs/start/sglang docs/start/transformers docs/start/*",
    "Serving": "docs/guides/gain docs/guides/vllm docs/guides/sglang docs/guides/rl docs/guides/cli docs/guides/tuning",
    "Programming": "docs/guides/python docs/guides/graphs docs/guides/flashinfer docs/guides/cpp docs/guides/c"
    " docs/guides/runtime docs/guides/engines docs/guides/engine_layer docs/guides/*",
    "Concepts": "docs/concepts/overview docs/concepts/policies docs/concepts/*",
    "How it works": "docs/architecture docs/deep/*",
    "Results": "docs/results docs/papers docs/papers/* docs/* bench/README bench/results/**/* data/README",
    "Reference": "docs/reference/*",
    "Contributing": "CONTRIBUTING docs/contributing/build docs/contributing/style docs/contributing/recipes"
    " docs/contributing/* SECURITY CHANGELOG",
}


def navigation():
    """One hidden table of contents a heading. Sphinx warns of a page that has no place in one."""
    placed = {root_doc}
    parts = []
    for caption, names in NAVIGATION.items():
        pages = []
        for name in names.split():
            for path in sorted(ROOT.glob(f"{name}.md")):
                page = str(path.relative_to(ROOT).with_suffix(""))
                if page not in placed:
                    placed.add(page)
                    pages.append(page)
        parts.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"]))
    return "\n\n" + "\n\n".join(parts) + "\n"


def folder_links(page, text):
    """A link to a folder leads to its README.md where that is a page of the site, and is plain text where none is."""

    def link(found):
        path, _, anchor = found[2].partition("#")
        folder = (ROOT / page).parent / path
        if not path or ":" in path or not folder.is_dir():
            return found[0]
        readme = folder / "README.md"
        pages = {ROOT / pattern for pattern in include_patterns if "*" not in pattern}
        if readme.exists() and (readme in pages or ROOT / "bench/results" in readme.parents):
            return f"[{found[1]}]({path.rstrip('/')}/README.md{'#' + anchor if anchor else ''})"
        return found[1]

    return re.sub(r"\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^()\s]+)\)", link, text)


def read(app, docname, content):
    content[0] = folder_links(f"{docname}.md", content[0])
    if docname == root_doc:
        content[0] += navigation()


def add_index(app, error):
    """The first page under the name that web servers open."""
    if error is None and app.builder.name == "html":
        shutil.copyfile(pathlib.Path(app.outdir) / "README.html", pathlib.Path(app.outdir) / "index.html")


def setup(app):
    app.connect("source-read", read)
    app.connect("build-finished", add_index)
