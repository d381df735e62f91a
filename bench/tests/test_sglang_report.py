"""bench/results/sglang: what is filed, and the page of made-up rows."""

import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/sglang")]
import file_rows  # noqa: E402
import sglang_report  # noqa: E402

COMMON = {
    "suite": "sglang", "device": "NVIDIA H200", "sglang": "0.5.23", "torch": "2.14", "driver": "1", "page_size": 1,
    "model": "llama3-8b", "layers": 32, "dtype": "bf16", "commit": "0123456789abcdef", "command": "sides.py --x",
    "baseline": "default", "subject": "trunkline",
}  # fmt: skip
SAME = {"ratio": 1.0, "ratio_lo": 0.99, "ratio_hi": 1.01}


def step_row(workload, ours, ratio, low, high):
    return COMMON | {
        "workload": workload, "kind": "sides", "requests": 8, "step_ms": {"default": 5.0, "trunkline": ours},
        "ratio": ratio, "ratio_lo": low, "ratio_hi": high, "null": SAME, "subject_null": SAME, "pairs": 6,
        "floor_ms": 0.4, "short_steps": 0, "build_us": {},
    }  # fmt: skip


def check_row(passed=True):
    limits = {"mean_limit": 0.1, "max_limit": 0.4, "noise_mean_diff": 0.03, "noise_max_diff": 0.1, "tokens": 420}
    found = {"logprob_mean_diff": 0.04, "logprob_max_diff": 0.2, "passed": passed}
    return COMMON | {"workload": "check", "kind": "check"} | limits | found


def shadow_log(**changed):
    shadow = {"compared": 1000.0, "beyond": 0.0, "most": 0.0078, "tolerance": 0.015625}
    printed = {"page_size": 64, "eager": False, "heads": [32, 8], "override": True, "sglang": "0.5.23"}
    printed |= {"statistics": [{"layer": {"shadow": shadow}}], "finished": 20, "aborted": 3, "wrong": []}
    return json.dumps(printed | changed)


class FiledRowsTest(unittest.TestCase):
    def file(self, *rows):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = pathlib.Path(folder) / "sglang.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def test_rows_whose_kernels_were_not_compared_or_differ_are_refused(self):
        timed = step_row("groups_64x2k", 4.0, 1.25, 1.2, 1.3)
        for rows in ([timed], [timed, check_row(passed=False)], [timed, check_row(), timed | {"kind": "error"}]):
            with self.assertRaises(SystemExit):
                file_rows.run_rows(self.file(*rows))

    def test_rows_of_an_unknown_commit_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "unknown"):
            file_rows.run_rows(self.file(check_row() | {"commit": "unknown"}))

    def test_a_check_that_found_something_is_refused(self):
        given = type("Given", (), {"commit": "HEAD", "device": "NVIDIA H200", "driver": "1"})
        with self.assertRaisesRegex(SystemExit, "tokens differ"):
            file_rows.check_row(self.file_of(shadow_log(wrong=["tokens differ"])), given)
        row = file_rows.check_row(self.file_of("a line of the log\n" + shadow_log()), given)
        self.assertEqual(row["command"], "tests/sglang/engine_check.py --page-size 64 --heads 32 8 --override")

    def test_a_check_of_a_narrow_cache_replaces_no_other(self):
        plain = json.loads(shadow_log())
        keys = [
            file_rows.key_of(row, file_rows.OPTIONS)
            for row in (plain, plain | {"kv_cache_dtype": "auto"}, plain | {"kv_cache_dtype": "fp8_e4m3"})
        ]
        self.assertEqual(keys[0], keys[1])
        self.assertNotEqual(keys[0], keys[2])

    def file_of(self, text):
        path = self.file()
        path.write_text(text + "\n")
        return path


class PageTest(unittest.TestCase):
    def test_losses_stand_beside_wins(self):
        rows = [
            check_row(),
            step_row("groups_64x2k", 4.0, 1.25, 1.2, 1.3),
            step_row("unshared_8", 5.3, 0.94, 0.9, 0.97),
        ]
        text = sglang_report.page({"h200": rows}, [])
        self.assertIn("## NVIDIA H200, llama3-8b, pages of 1", text)
        self.assertIn("| groups_64x2k | 8 | 5.000 | 4.000 | 1.250 (1.200 to 1.300) |", text)
        self.assertIn("8 requests: slower by more than 1 %", text)
        self.assertIn("The baseline is faster in 1 of 2 rows: unshared_8 (0.940 (0.900 to 0.970)).", text)

    def test_vectors_of_all_ranks_and_layers_are_counted(self):
        row = json.loads(shadow_log()) | {"command": "tests/sglang/engine_check.py --page-size 64", "commit": "0123"}
        row["statistics"] = row["statistics"] * 2
        text = sglang_report.page({}, [row | {"device": "NVIDIA H200"}])
        self.assertIn("| --page-size 64 | NVIDIA H200 | 0123 | 20 | 3 | 2,000 | 0 | 0.0078 |", text)


if __name__ == "__main__":
    unittest.main()
