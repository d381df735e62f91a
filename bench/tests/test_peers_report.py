"""bench/results/peers/README.md, of made-up rows."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import peers_report  # noqa: E402


def row(method, us=None, **changed):
    made = {
        "suite": "pat", "case": "1,10/4096,416", "heads": "32/8", "head_dim": 128, "dtype": "bf16", "page_size": 16,
        "requests": 10, "method": method, "passed": True, "floor_us": 10.0, "plan_us": 30.4, "eager_us": 50.0,
        "timed": "graph replays", "device": "NVIDIA H100 80GB HBM3", "driver": "1", "cuda": "13.0", "torch": "2.14",
        "version": "0.2.0", "commit": "0123456789abcdef", "peer_version": "vLLM 0.33.0", "command": "compare_peers.py",
    }  # fmt: skip
    return made | ({"us": us} if us is not None else {}) | changed


OURS, FA3 = row("trunkline", 20.0), row("fa3", 40.0)


def page(*rows):
    return peers_report.page({"h100": list(rows)})


class PageTest(unittest.TestCase):
    def test_says_so_while_there_are_no_rows(self):
        self.assertTrue(peers_report.page({}).endswith("No rows yet: nothing of this was measured.\n"))

    def test_losses_stand_beside_wins(self):
        flat = {"suite": "flat", "case": "8x4096"}
        text = page(OURS, FA3, row("trunkline", 40.0, **flat), row("fa3", 36.0, **flat))
        self.assertIn("| pat | 32/8, d 128, page 16, bf16 | fa3 | 1 | 2.00 | 2.00 | 2.00 | 0 | 2.00 |", text)
        self.assertIn("| flat | 32/8, d 128, page 16, bf16 | fa3 | 1 | 0.90 | 0.90 | 0.90 | 1 | 4.00 |", text)
        self.assertIn(
            "- Trunkline is slower than `fa3` in 1 of 2 cases: flat `8x4096` at 32/8, d 128, page 16, bf16 (0.90).",
            text,
        )
        self.assertIn("| 10.0 | **20.0** | 40.0 | 30 / 30 |", text)
        self.assertIn("| 10.0 | 40.0 | **36.0** | 30 / 30 |", text)
        self.assertIn("vLLM 0.33.0; Trunkline 0.2.0, commit 0123456789ab;", text.replace("\n", " "))

    def test_what_was_refused_wrong_or_not_captured_is_named(self):
        refused = row("flashinfer_decode", refused="ValueError: group size 5")
        wrong = row("flashinfer_decode_tc", passed=False)
        eager = row("flashinfer_cascade", timed="eager calls")
        text = page(OURS, FA3, refused, wrong, eager).replace("\n  ", " ")
        at = "1 cases at 32/8, d 128, page 16, bf16"
        self.assertIn(f"- `flashinfer_decode`, refused: {at}: ValueError: group size 5.", text)
        self.assertIn(f"- `flashinfer_decode_tc`, wrong, and not timed: {at}.", text)
        self.assertIn(f"- `flashinfer_cascade`, timed by eager calls alone: {at}.", text)
        self.assertNotIn("than `flashinfer", text)

    def test_cases_without_a_time_of_ours_are_not_compared(self):
        text = page(row("trunkline", refused="UnsupportedError: heads"), FA3)
        self.assertIn("No row has a time.", text)
        self.assertIn("`trunkline`, refused", text)

    def test_check_fails_where_the_page_is_not_of_the_rows(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            results = pathlib.Path(folder) / "peers"
            for patch in (
                unittest.mock.patch.object(peers_report, "RESULTS", results),
                unittest.mock.patch.object(peers_report, "PAGE", pathlib.Path(folder) / "page.md"),
            ):
                stack.enter_context(patch)
            check = unittest.mock.patch.object(sys, "argv", ["peers_report.py", "--check"])
            with check, self.assertRaisesRegex(SystemExit, "is not what the rows say"):
                peers_report.main()
            with unittest.mock.patch.object(sys, "argv", ["peers_report.py"]):
                peers_report.main()
            with check, contextlib.redirect_stdout(io.StringIO()):
                peers_report.main()
            results.mkdir()
            (results / "h100.jsonl").write_text(json.dumps(OURS) + "\n")
            with check, self.assertRaisesRegex(SystemExit, "is not what the rows say"):
                peers_report.main()


if __name__ == "__main__":
    unittest.main()
