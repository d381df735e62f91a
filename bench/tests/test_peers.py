"""The comparison with other packages' kernels, with packages on the CPU that stand in for them."""

import argparse
import contextlib
import io
import json
import math
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/peers"), str(ROOT / "bench/python")]
try:
    import numpy  # noqa: F401
    import torch
except ImportError:
    if __name__ == "__main__":
        sys.exit(77)  # skipped, to ctest
    raise unittest.SkipTest("torch is not installed") from None

import fake_peers  # noqa: E402

sys.modules.update(fake_peers.modules())
import compare_peers  # noqa: E402
import file_rows  # noqa: E402
import peer_flash_attention  # noqa: E402
import peer_flashinfer  # noqa: E402
import peer_method  # noqa: E402
import peer_trunkline  # noqa: E402
from cuda_case import Case  # noqa: E402
from peer_cases import SETTINGS, TREES, PeerCase, Setting, peer_cases, trees  # noqa: E402
from replay_timers import HostTimer  # noqa: E402

torch.set_num_threads(1)  # tensors are tiny
SMALL = Setting(4, 2, 64, 4)
TREE = "1,2,4/8,4,6"  # two levels of whole pages, then leaves that end inside a page


def chosen(notation=TREE, setting=SMALL):
    return PeerCase("pat", notation, notation, setting)


def case_of(peer_case, copies=3):
    with unittest.mock.patch.object(Case, "copies_of", lambda *_: copies):
        setting = peer_case.setting
        return Case(
            peer_case.batch(), setting.q_heads, setting.kv_heads, torch.bfloat16, torch.device("cpu"),
            head_dim=setting.head_dim, page_size=peer_case.page_size,
        )  # fmt: skip


def given(**changed):
    return argparse.Namespace(**{"dtype": "bf16", "device": "cpu", "repeat": 1, **changed})


def compared(makers, peer_case=None, timed=True):
    with unittest.mock.patch.object(Case, "copies_of", lambda *_: 3):
        return compare_peers.compare(peer_case or chosen(), makers, given(), HostTimer(1) if timed else None)


class CasesTest(unittest.TestCase):
    def test_names_are_the_gpu_suites(self):
        self.assertEqual(trees("flat")[2], ("8x4096", "8/4096"))
        self.assertEqual(trees("pat")[0], ("1,10/4096,416", "1,10/4096,416"))
        self.assertEqual([len(trees(suite)) for suite in TREES], [8, 20, 15, 40, 16])
        found = list(peer_cases(["flat", "fasttree"], SETTINGS[:2], ["8x4096", "1,2,64/8,256,32"]))
        self.assertEqual([(case.name, case.setting.heads) for case in found][:2], [
            ("8x4096", "32/8"), ("1,2,64/8,256,32", "32/8"),
        ])  # fmt: skip
        self.assertEqual(len(found), 4)

    def test_pages_are_no_longer_than_nodes(self):
        self.assertEqual(chosen("1,2,64/8,256,32", SETTINGS[0]).page_size, 8)
        self.assertEqual(chosen("1,10/4096,416", SETTINGS[0]).page_size, 16)
        self.assertEqual(chosen("1,10/4096,416", SETTINGS[-1]).page_size, 1)

    def test_levels_are_each_nodes_pages_once(self):
        case = chosen()
        batch = case.batch()
        first, second, third = case.levels(batch)
        self.assertEqual(first, ([0, 4], [0, 2], batch.rows[0][:2], [4]))
        self.assertEqual(second, ([0, 2, 4], [0, 1, 2], [batch.rows[0][2], batch.rows[2][2]], [4, 4]))
        self.assertEqual(third.query_begins, [0, 1, 2, 3, 4])
        self.assertEqual(third.page_begins, [0, 2, 4, 6, 8])
        self.assertEqual(third.last_page_tokens, [2] * 4)

    def test_levels_that_begin_inside_a_page_are_none(self):
        case = chosen("1,2/6,8", Setting(4, 2, 64, 4))
        self.assertIsNone(case.levels(case.batch()))


class CompareTest(unittest.TestCase):
    def test_every_method_is_right_on_every_copy_and_gets_a_row(self):
        with unittest.mock.patch.object(peer_flashinfer, "MAX_LEVELS", 3):
            rows = compared(fake_peers.makers(peer_method.MODULES))
        self.assertEqual([row["method"] for row in rows], list(peer_method.MODULES))
        for row in rows:
            self.assertTrue(row["passed"], row)
            self.assertEqual((row["requests"], row["levels"], row["copies"]), (4, 3, 3))
            self.assertEqual(row["floor_us"], 7.5)
            self.assertEqual(row["timed"], "eager calls")  # a CPU has no graphs
            self.assertGreater(row["eager_us"], 0)
            self.assertNotIn("us", row)

    def test_rows_of_a_gpu_have_the_rates_of_its_profile(self):
        gpu = types.SimpleNamespace(
            device=torch.device("cuda", 0), q_heads=4, kv_heads=2, head_dim=64, page_size=4, dtype=torch.bfloat16
        )
        ours = types.SimpleNamespace(attention=fake_peers.DecodeAttention(4, 2, 64, 4))
        found = peer_trunkline.facts(gpu, ours)
        self.assertEqual((found["read_bytes_per_us"], found["launch_us"]), (3.12e6, 4.4))

    def test_a_cascade_has_at_most_two_levels(self):
        made = fake_peers.makers(["flashinfer_cascade"])
        self.assertEqual(compared(made), [])
        self.assertEqual([row["passed"] for row in compared(made, chosen("1,3/8,6"))], [True])
        self.assertEqual([row["passed"] for row in compared(made, chosen("3/8"))], [True])

    def test_flash_attention_gets_the_splits_that_the_method_names(self):
        for name, splits in (("fa3", 0), ("fa3_splits32", 32)):
            fake_peers.CALLS.clear()
            compared(fake_peers.makers([name]), timed=False)
            self.assertEqual({call["num_splits"] for call in fake_peers.CALLS}, {splits})
            self.assertEqual({call["scheduler_metadata"] for call in fake_peers.CALLS}, {f"schedule of {splits}"})

    def test_a_method_that_reads_another_copy_is_wrong_and_gets_no_time(self):
        def stays(case, peer_case):
            method = peer_flash_attention.METHODS["fa3"](case, peer_case)
            method.move = lambda copy: None
            return method

        (row,) = compared({"fa3": stays})
        self.assertFalse(row["passed"])
        self.assertTrue(math.isnan(row["max_relative_err"]))
        self.assertNotIn("eager_us", row)

    def test_a_page_that_is_left_out_is_wrong(self):
        def shortened(case, peer_case):
            method = peer_flash_attention.METHODS["fa3"](case, peer_case)
            method._call.lens.sub_(16)
            return method

        (row,) = compared({"fa3": shortened}, chosen("2/4096", Setting(4, 2, 64, 16)), timed=False)
        self.assertFalse(row["passed"])
        (row,) = compared(fake_peers.makers(["fa3"]), chosen("2/4096", Setting(4, 2, 64, 16)), timed=False)
        self.assertTrue(row["passed"], row)

    def test_results_of_replays_are_compared_too(self):
        class Spoiling(HostTimer):
            def time(self, works):
                found = super().time(works)
                works[0].calls[0]().zero_()
                return found

        with unittest.mock.patch.object(Case, "copies_of", lambda *_: 1):
            (row,) = compare_peers.compare(chosen(), fake_peers.makers(["fa3"]), given(), Spoiling(1))
        self.assertFalse(row["passed"])
        self.assertNotIn("eager_us", row)

    def test_a_refusal_costs_its_own_row_alone(self):
        def refuses(case, peer_case):
            raise ValueError("group size 6\nand more")

        rows = compared(
            {"fa3": refuses, "flashinfer_decode": fake_peers.makers(["flashinfer_decode"])["flashinfer_decode"]}
        )
        self.assertEqual(rows[0]["refused"], "ValueError: group size 6")
        self.assertTrue(rows[1]["passed"])

    def test_other_copies_are_nan_meanwhile_and_come_back(self):
        case = case_of(chosen())
        before = [part.clone() for part in case.kv]
        pages = case.batch.num_pages
        with case.only_copy(1):
            self.assertTrue(case.kv[0][:pages].isnan().all() and case.kv[1][2 * pages :].isnan().all())
            self.assertTrue(torch.equal(case.kv[0][pages : 2 * pages], before[0][pages : 2 * pages]))
        for part, was in zip(case.kv, before, strict=True):
            self.assertTrue(torch.equal(part, was))

    def test_packages_that_are_not_installed_are_named(self):
        said = io.StringIO()
        missing = unittest.mock.patch.dict(peer_method.MODULES, fa3="peer_of_no_package")
        with missing, contextlib.redirect_stderr(said):
            makers, versions = peer_method.load(["flashinfer_decode", "fa3"])
        self.assertEqual(list(makers), ["flashinfer_decode"])
        self.assertEqual(versions, {"flashinfer_decode": "FlashInfer 0"})
        self.assertIn("fa3: left out: No module named 'peer_of_no_package'", said.getvalue())


class FileRowsTest(unittest.TestCase):
    ROW = {
        "suite": "flat", "case": "8x4096", "heads": "32/8", "head_dim": 128, "dtype": "bf16", "page_size": 16,
        "method": "trunkline", "passed": True, "commit": "abc", "device": "NVIDIA H100 80GB HBM3", "us": 5.0,
    }  # fmt: skip

    def refusal(self, *rows):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "peers.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            try:
                file_rows.checked_rows(path)
            except SystemExit as error:
                return str(error)
            return None

    def test_only_right_rows_of_one_commit_are_kept(self):
        self.assertIsNone(self.refusal(self.ROW, {**self.ROW, "method": "fa3", "passed": False}))
        self.assertIn("Trunkline is wrong", self.refusal({**self.ROW, "passed": False}))
        self.assertIn("2 values of commit", self.refusal(self.ROW, {**self.ROW, "commit": "b"}))
        self.assertIn("2 values of device", self.refusal(self.ROW, {**self.ROW, "device": "NVIDIA H200"}))
        self.assertIn("of a commit only", self.refusal({**self.ROW, "commit": "unknown"}))

    def test_new_rows_replace_those_of_the_same_case_and_method(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "peers.jsonl"
            patches = (
                unittest.mock.patch.object(file_rows, "RESULTS", pathlib.Path(folder) / "filed"),
                unittest.mock.patch.object(file_rows.source_trees, "trees_of", lambda *_: {"plan_tree": "1"}),
                unittest.mock.patch.object(sys, "argv", ["file_rows.py", str(out)]),
                contextlib.redirect_stdout(io.StringIO()),
            )
            with contextlib.ExitStack() as stack:
                for patch in patches:
                    stack.enter_context(patch)
                for rows in ([self.ROW, {**self.ROW, "case": "1x1024"}], [{**self.ROW, "us": 4.0, "commit": "b"}]):
                    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
                    file_rows.main()
            lines = (pathlib.Path(folder) / "filed/h100.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        self.assertEqual([(row["case"], row["us"]) for row in found], [("8x4096", 4.0), ("1x1024", 5.0)])
        self.assertEqual(found[0]["plan_tree"], "1")


if __name__ == "__main__":
    unittest.main()
