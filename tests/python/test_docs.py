"""Every example of docstrings, of README.md and of the pages below, as doctests."""

import doctest
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("README.md", "docs/start/cpu.md", "docs/start/transformers.md", "docs/guides/python.md")
PAGES = [ROOT / name for name in NAMES]


@pytest.mark.parametrize(
    "name", ["decode", "live", "machine", "merging", "plans", "runtime.tree", "runtime.controllers", "simple"]
)
def test_docstrings(name):
    failed, attempted = doctest.testmod(importlib.import_module(f"trunkline.{name}"))
    assert attempted and not failed


def without_torch(text):
    """The page less the blocks that import torch."""
    return re.sub(r"^```python\n(?:(?!^```).)*?^>>> import torch.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    text = page.read_text()
    if page.name == "transformers.md":
        pytest.importorskip("transformers")
    elif importlib.util.find_spec("torch") is None:
        text = without_torch(text)
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    failed, attempted = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(examples)
    assert attempted and not failed


def test_only_blocks_of_torch_are_left_out():
    blocks = ["1\n1", "import torch\n>>> 2\n2", "3\n3"]
    text = "words\n\n".join(f"```python\n>>> {block}\n\n```\n" for block in blocks)
    assert [example.source for example in doctest.DocTestParser().get_examples(without_torch(text))] == ["1\n", "3\n"]
