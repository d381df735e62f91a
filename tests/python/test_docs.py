"""Every example of docstrings and of docs/python.md, as doctests."""

import doctest
import importlib
from pathlib import Path

import pytest

PAGES = [Path(__file__).resolve().parents[2] / name for name in ("docs/python.md", "README.md")]


@pytest.mark.parametrize("name", ["decode", "live", "machine", "merging", "plans", "simple"])
def test_docstrings(name):
    failed, attempted = doctest.testmod(importlib.import_module(f"trunkline.{name}"))
    assert attempted and not failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    failed, attempted = doctest.testfile(str(page), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert attempted and not failed
