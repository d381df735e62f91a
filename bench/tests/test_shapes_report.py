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
        page = shapes_report.page("h100", rows)
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
        page = shapes_report.page("h200", rows)
        self.assertIn("| pat | page 1, consecutive | 2 | 2.200 | 4.40: b |", page)
        self.assertNotIn("x floor", page)

    def test_a_page_names_its_gpu(self):
        self.assertTrue(
            shapes_report.page("h200", [row("a", 10)]).startswith("# Head sizes and page sizes on an H200\n")
        )


if __name__ == "__main__":
    unittest.main()
