"""bench/results/runtime/README.md, of made-up rows."""

import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import runtime_report  # noqa: E402


def ratio(value):
    return {"ratio": value, "ratio_lo": value - 0.1, "ratio_hi": value + 0.1, "pairs": 8}


def row(method, attention=10.0, **changed):
    made = {
        "suite": "few_shot", "case": "b=20", "method": method, "steps_timed": 8, "branches": 20, "prompt": 4096,
        "steps": 400, "attention_share": 0.5, "kv_bytes": 300 << 20, "max_err": 1e-6, "device": "A CPU",
        "threads": 2, "clock": "elapsed", "load": 0.1, "model": "smollm2", "layers": 30, "heads": "9/3",
        "head_dim": 64, "dtype": "f32",
        "torch": "2.11", "transformers": "5.24", "version": "0.2.0", "commit": "0123456789abcdef",
        "command": "bench/runtime/run.py --out OUT", "whole_mean_ms": 2 * attention, "attention_mean_ms": attention,
        "by_step": [[200, 20, attention, 2 * attention], [400, 20, attention + 1, 2 * attention]],
    }  # fmt: skip
    for part, value in (("whole", 2 * attention), ("attention", attention)):
        made |= {f"{part}_ms": value, f"{part}_ms_lo": value - 1, f"{part}_ms_hi": value + 1}
        if method != "trunk":
            made[f"{part}_over_trunk"] = ratio(value / 10.0 / (2 if part == "whole" else 1))
    return made | changed


def page(*rows):
    suites = {}
    for one in rows:
        suites.setdefault(one["suite"], []).append(one)
    return runtime_report.page({"cpu": suites}).replace("\n  ", " ")


class PageTest(unittest.TestCase):
    def test_says_so_while_there_are_no_rows(self):
        self.assertTrue(runtime_report.page({}).endswith("No rows yet: nothing of this was measured.\n"))

    def test_losses_are_named_beside_wins(self):
        text = page(row("trunk"), row("flat", 20.0), row("masks", 5.0), row("flatten", 9.5))
        self.assertIn("- Attention: `trunk` is behind in 2 of 3 comparisons, in 1 of them beyond the interval:", text)
        self.assertIn("`masks` in b=20, 0.50 (0.40 to 0.60).", text)
        self.assertIn("| b=20 | flat | 40 (39 to 41) | 20 (19 to 21) | 50% | 2.00 (1.90 to 2.10) |", text)

    def test_the_papers_figures_stand_beside_ours(self):
        text = page(row("trunk"), row("flat", 20.0))
        self.assertIn("| b=20 | 2.00 / 1.73 | - / 1.13 | - / 3.03 | 2.00 / 1.24 | - / 5.27 | - / 1.76 |", text)

    def test_reasoning_adds_up_whole_trees(self):
        tree = {"suite": "reasoning", "task": "set", "steps": 1000}
        text = page(
            row("trunk", case="set:0", **tree), row("flat", 20.0, case="set:0", **tree),
            row("trunk", 30.0, case="set:1", **tree), row("flat", 60.0, case="set:1", **tree),
        )  # fmt: skip
        self.assertIn("| set | 2 | trunk | 20 | 40 |", text)
        self.assertIn("| set | 2 | flat | 40 | 80 | 2.00 | 2.00 |", text)
        self.assertIn("| 200 | 20 | 10 | 20 |", text)
        self.assertIn("| set:0 | trunk | 20 | 50.0% | 0.0% | 0.0% | 0.0% | 50.0% |", text)
        self.assertNotIn("| set:1 | trunk | 60 | 50.0%", text)  # where time goes: the first tree of a task

    def test_speculative_compares_with_a_request_a_draft(self):
        drafts = {"suite": "speculative", "case": "t=64"}
        text = page(row("trunk", **drafts), row("flat", 12.0, **drafts), row("request_per_query", 300.0, **drafts))
        self.assertIn("| t=64 | 30.00 / 3.00 |", text)

    def test_searches_say_what_differs(self):
        made = {
            "suite": "searches", "case": "beams=4", "beams": 4, "seconds": 1.0, "seconds_lo": 0.9, "seconds_hi": 1.2,
            "first_s": 0.5, "attention_s": 0.1, "same_sequences": 4, "score_err": 2e-6, "new_tokens": 24,
            "log_probability_err": 1e-6,
        }  # fmt: skip
        text = page(row("trunk", **made), row("generate", **made))
        self.assertIn("| 300 | 4 of 4 sequences, scores 2e-06; forced 1e-06 |", text)

    def test_check_fails_where_the_page_is_not_of_the_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder)
            (results / "cpu").mkdir()
            (results / "cpu/few_shot.jsonl").write_text(json.dumps(row("trunk")) + "\n")
            with (
                unittest.mock.patch.object(runtime_report, "RESULTS", results),
                unittest.mock.patch.object(runtime_report, "PAGE", results / "README.md"),
            ):
                check = unittest.mock.patch.object(sys, "argv", ["runtime_report.py", "--check"])
                with check, self.assertRaisesRegex(SystemExit, "is not what the rows say"):
                    runtime_report.main()
                with unittest.mock.patch.object(sys, "argv", ["runtime_report.py"]):
                    runtime_report.main()
                with check:
                    runtime_report.main()
                self.assertIn("## cpu", (results / "README.md").read_text())


if __name__ == "__main__":
    unittest.main()
