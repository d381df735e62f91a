"""How generated pages are wrapped, and the pages that are committed."""

import pathlib
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import pages  # noqa: E402
import stale  # noqa: E402
from source_trees import PYTHON_TREES  # noqa: E402


class Wrapping(unittest.TestCase):
    def test_a_long_paragraph_is_wrapped_whole(self):
        found = pages.wrapped_page("short\n" + "word " * 40).split("\n")
        self.assertEqual(found[0][:11], "short word ")
        self.assertTrue(all(len(line) <= pages.WIDTH for line in found))

    def test_tables_headings_and_code_stay(self):
        for line in ("| a " * 60 + "|", "# " + "a " * 80, "    " + "a " * 80):
            self.assertEqual(pages.wrapped_page(line + "\n"), line + "\n")

    def test_items_of_a_list_are_wrapped_apart(self):
        found = pages.wrapped_page("- " + "one " * 40 + "\n- two\n").split("\n")
        self.assertEqual([line[:2] for line in found], ["- ", "  ", "- ", ""])

    def test_no_line_begins_with_a_marker_of_lists(self):
        found = pages.wrapped_page("a" * 117 + " + b " + "c" * 117 + " 2. d")
        self.assertEqual([line[0] for line in found.split("\n")], ["a", "b", "c", "d"])

    def test_short_paragraphs_stay_as_they_are(self):
        self.assertEqual(pages.wrapped_page("one\ntwo\n\nthree\n"), "one\ntwo\n\nthree\n")


class Committed(unittest.TestCase):
    def test_no_line_outside_of_tables_is_longer_than_120_characters(self):
        found = sorted((BENCH / "results").rglob("*.md"))
        self.assertGreater(len(found), 8)
        for page in found:
            lines = [line for line in page.read_text().splitlines() if not line.startswith("|")]
            self.assertEqual([line for line in lines if len(line) > 120], [], page)


class Stale(unittest.TestCase):
    PRESENT = dict.fromkeys(PYTHON_TREES, "new")

    def test_parts_that_changed_are_named(self):
        row = {"kernels_tree": "old", "plan_tree": "new"}
        self.assertEqual(stale.changed(row, self.PRESENT), (PYTHON_TREES["kernels_tree"].title,))
        self.assertEqual(stale.changed({"plan_tree": "new"}, self.PRESENT), ())

    def test_rows_without_hashes_are_told_apart(self):
        self.assertIsNone(stale.changed({"commit": "abc"}, self.PRESENT))


if __name__ == "__main__":
    unittest.main()
