"""The tables of bench/results/GPU/shapes.md."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import shapes_report  # noqa: E402


def row(case: str, us: float, **others) -> dict:
    fields = {
        "suite": "pat", "heads": "32/8", "head_dim": 128, "dtype": "f16", "kernels": "hopper", "page_size": 16,
        "page_order": "consecutive", "commit": "abc", "us": us, "x_floor": us / 10,
    }  # fmt: skip
    return {"case": case, **fields, **others}


class ShapesReport(unittest.TestCase):
    def test_shapes_have_a_mean_and_the_worst_case(self):
        rows = [row("a", 10, head_dim=64), row("b", 40, head_dim=64), row("a", 30, head_dim=256)]
        page = shapes_report.page("h100", rows, [])
        self.assertIn("| pat | 32/8 | 64 | f16 | hopper | 2 | 2.00 | 4.00: b |", page)
        self.assertIn("| pat | 32/8 | 256 | f16 | hopper | 1 | 3.00 | 3.00: a |", page)

    def test_pages_of_one_token_are_set_beside_the_same_case(self):
        rows = [
            row("a", 10, compares="pages"),
            row("b", 10, compares="pages", page_size=8),
            row("a", 11, compares="pages", page_size=1),
            row("b", 44, compares="pages", page_size=1),
            row("c", 99, compares="pages", page_size=1),
        ]
        page = shapes_report.page("h200", rows, [])
        self.assertIn("| pat | page 1, consecutive | 2 | 2.200 | 4.40: b |", page)
        self.assertNotIn("x floor", page)

    def test_a_page_names_its_gpu(self):
        title = shapes_report.page("h200", [row("a", 10)], []).splitlines()[0]
        self.assertIn("on an H200", title)

    def test_layers_that_vary_are_set_beside_plain_ones(self):
        rows = [
            row("a", 10, compares="none", max_err=1e-4),
            row("a", 12, compares="fp8", max_err=2e-4),
            row("b", 99, compares="fp8", max_err=9.0),
        ]
        page = shapes_report.page("h200", [], rows)
        self.assertIn("| K and V of 8 bits, e4m3 | pat | f16 | 1 | 1.200 | 1.20 | 1.20: a | 1.20 | 2.0e-04 |", page)
        self.assertNotIn("shapes.jsonl", page)


if __name__ == "__main__":
    unittest.main()
