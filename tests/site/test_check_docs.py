"""scripts/check_docs.py: anchors as GitHub makes them, code left out, and links that lead nowhere."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_docs  # noqa: E402


class CheckDocsTest(unittest.TestCase):
    def test_anchors(self):
        lines = [
            "# A step, once",
            "## `trunkline run INPUT...`",
            "## Links [to](there.md)",
            "# A step, once",
            "```",
            "# no",
        ]
        expected = {"a-step-once", "trunkline-run-input", "links-to", "a-step-once-1"}
        self.assertEqual(check_docs.anchors(lines), expected)

    def test_code_is_left_out_and_lines_keep_their_numbers(self):
        lines = ["[a](a)", "", "    [b](b)", "", "`[c](c)", "d` [e](e)", "```", "[f](f)", "```", "[g", "h](h)"]
        text = check_docs.without_code(lines)
        self.assertEqual([link[1] for link in check_docs.LINK.finditer(text)], ["a", "e", "h"])
        self.assertEqual(text.count("\n"), len(lines) - 1)

    def test_an_unfinished_span_of_code_hides_no_other_paragraph(self):
        text = check_docs.without_code(["a ` b", "", "[c](c) ` d"])
        self.assertEqual([link[1] for link in check_docs.LINK.finditer(text)], ["c"])

    def test_links(self):
        pages = check_docs.Pages()
        self.assertIsNone(pages.link_fault("README.md", "docs/architecture.md#a-decode-step"))
        self.assertIsNone(pages.link_fault("docs/architecture.md", "../README.md"))
        self.assertIsNone(pages.link_fault("docs/architecture.md", "../examples/python"))
        self.assertIsNone(pages.link_fault("README.md", "https://elsewhere.invalid/"))
        self.assertIn("no heading", pages.link_fault("README.md", "docs/architecture.md#nothing"))
        self.assertIn("there is no docs/nothing.md", pages.link_fault("docs/architecture.md", "nothing.md"))


if __name__ == "__main__":
    unittest.main()
