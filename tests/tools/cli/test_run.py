"""`trunkline run` through its real command line. Environment as for program_case.py."""

import sys
import unittest

from program_case import DATA, QUICK, TINY, ProgramTest


class RunningTest(ProgramTest):
    def checked(self, *arguments, **environment):
        rows = self.rows("run", "--check", "--repeat", 1, "--warm", *QUICK, *arguments, **environment)
        for row in rows:
            self.assertTrue(row["passed"], row)
            self.assertGreater(row["checked_requests"], 0)
            self.assertLessEqual(max(row["max_err"], row["max_lse_err"]), 1e-4)
        return rows


class RunIsRightTest(RunningTest):
    def test_every_policy_dtype_and_layout_is_right(self):
        for policy in ("flat", "node", "profit", "auto"):
            for dtype in ("f16", "bf16", "f32"):
                for layout in ("nhd", "hnd"):
                    with self.subTest(policy=policy, dtype=dtype, layout=layout):
                        (row,) = self.checked(
                            *TINY, "--policy", policy, "--dtype", dtype, "--layout", layout, "--heads", "4/2"
                        )
                        self.assertEqual((row["policy"], row["dtype"], row["layout"]), (policy, dtype, layout))
                        if policy != "auto":
                            self.assertEqual(row["chosen"], policy)

    def test_every_page_size_head_size_and_group_is_right(self):
        for page_size in (1, 16, 24, 32, 64, 128):
            with self.subTest(page_size=page_size):
                self.checked(*TINY, "--page-size", page_size, "--heads", "4/2", "--policy", "node")
        for head_dim in (64, 128, 256):
            with self.subTest(head_dim=head_dim):
                self.checked(*TINY, "--head-dim", head_dim, "--heads", "4/2", "--policy", "profit")
        for heads in ("1/1", "3/1", "10/2", "12/1", "14/2", "16/1"):
            with self.subTest(heads=heads):
                self.checked(*TINY, "--heads", heads, "--policy", "node", "--head-dim", 64)

    def test_every_split_is_right(self):
        for split in ("balance", "mean", "none"):
            with self.subTest(split=split):
                self.checked("--tree", "1,2/3000,5", "--split", split, "--heads", "4/2", "--policy", "node")

    def test_both_merges_are_right(self):
        for merge in ("fused", "separate"):
            with self.subTest(merge=merge):
                (row,) = self.checked(*TINY, "--heads", "4/2", "--policy", "node", "--merge", merge)
                self.assertEqual(row["merge"], merge)

    def test_every_variant_of_attention_is_right(self):
        plain = dict(kv_dtype="f16", window_left=-1, soft_cap=0, sinks=False)
        for words, changes in (
            ([], {}),
            (["--kv-dtype", "f8_e4m3"], dict(kv_dtype="f8_e4m3")),
            (["--kv-dtype", "f8_e5m2"], dict(kv_dtype="f8_e5m2")),
            (["--window-left", 9], dict(window_left=9)),
            (["--soft-cap", 2.5], dict(soft_cap=2.5)),
            (["--sinks"], dict(sinks=True)),
        ):
            with self.subTest(words=words):
                (row,) = self.checked(*TINY, "--heads", "4/2", "--policy", "node", "--device", "cpu", *words)
                self.assertEqual({name: row[name] for name in plain}, plain | changes)

    def test_portable_kernels_are_right(self):
        (row,) = self.checked(*TINY, "--heads", "4/2", TRUNKLINE_ISA="portable")
        self.assertEqual(row["isa"], "portable")


class RunTest(RunningTest):
    def test_row_has_the_names_of_result_files_and_consistent_counts(self):
        (row,) = self.checked("--tree", "1,4/64,16", "--heads", "8/2", "--head-dim", 64, "--policy", "node")
        for name in (
            "suite case heads dtype page_size policy mode us us_p10 us_p90 floor_us plan_us max_err " "device commit"
        ).split():
            self.assertIn(name, row)
        self.assertEqual((row["suite"], row["case"], row["heads"]), ("tree", "1,4/64,16", "8/2"))
        self.assertEqual((row["page_size"], row["caches"], row["requests"]), (16, "warm", 4))
        self.assertEqual((row["place"], row["mode"], row["merge"], row["upload_us"]), ("cpu", None, "fused", None))
        self.assertEqual(row["kv_tokens_total"], 4 * 80)
        self.assertEqual(row["kv_tokens_distinct"], 64 + 4 * 16)
        self.assertEqual(row["kv_tokens_read_by"]["flat"], 4 * 80)
        self.assertEqual(row["kv_tokens_read_by"]["node"], 64 + 4 * 16)
        self.assertEqual(row["kv_tokens_read"], 64 + 4 * 16)
        # K and V, 2 KV heads, 64 elements of 2 bytes
        self.assertEqual(row["kv_bytes_distinct"], 128 * 2 * 2 * 64 * 2)
        self.assertLessEqual(row["us_p10"], row["us"])
        self.assertLessEqual(row["us"], row["us_p90"])
        self.assertGreater(row["workspace_bytes"], 0)
        self.assertNotEqual(row["commit"], "")

    def test_real_batches_limit_and_several_inputs(self):
        keyword = DATA / "decode_batches" / "reasoning_keyword.jsonl"
        rows = self.checked(keyword, "--limit", 2, "--tree", "2/5", "--tree", "1/9", "--heads", "2/1", "--head-dim", 64)
        self.assertEqual([row["case"] for row in rows], ["1", "2", "2/5", "1/9"])
        self.assertEqual(rows[0]["suite"], "reasoning_keyword")
        self.assertEqual(rows[0]["requests"], 10)
        self.assertLess(rows[1]["kv_tokens_distinct"] * 5, rows[1]["kv_tokens_total"])

    def test_requests_of_no_token_and_requests_that_end_inside_the_tree(self):
        batch = self.file('{"nodes":[[-1,20],[0,5],[-1,0]],"requests":[0,1,2,1]}')
        (row,) = self.checked(batch, "--heads", "2/1", "--head-dim", 64)
        self.assertEqual((row["requests"], row["checked_requests"], row["kv_tokens_total"]), (4, 4, 70))

    def test_table_is_for_people(self):
        out = self.succeed("run", *TINY, "--heads", "4/2", "--repeat", 1, "--check", *QUICK)
        for words in (
            "one at a time",
            "distinct",
            "flat",
            "auto",
            "speed-up",
            "floor",
            "largest error",
            "1 of 1 batches are right",
        ):
            self.assertIn(words, out)

    def test_draft_trees_on_every_request_or_as_a_file_has_them(self):
        trees = DATA / "speculative" / "topologies.json"
        (row,) = self.checked(*TINY, "--draft", f"{trees}:eagle/mc_sim_7b_63", "--policy", "trunk")
        self.assertEqual(row["kv_tokens_total"], 6 * (80 + 26))
        batch = '{"nodes":[[-1,40],[0,9]],"requests":[0,1,1],"drafts":[[-1,0,0,1],[],[-1,0]]}'
        (row,) = self.checked(self.file(batch), "--policy", "flat")
        self.assertEqual(row["kv_tokens_total"], 44 + 49 + 51)

    def test_all_policies_are_timed_and_checked_in_one_run(self):
        (row,) = self.checked(*TINY, "--policy", "all")
        self.assertEqual(row["policy"], "all")
        self.assertEqual(set(row["us_by"]), set(row["kv_tokens_read_by"]))
        self.assertEqual((row["us_by"]["flat"], row["us_by"][row["chosen"]]), (row["flat_us"], row["us"]))
        self.assertAlmostEqual(row["regret"], row["us"] / min(row["us_by"].values()))
        text = self.succeed("run", *TINY, *QUICK, "--repeat", 1, "--warm", "--policy", "all")
        self.assertIn("Time of one layer by each policy", text)

    def test_seed_changes_nothing_that_is_counted(self):
        first, second = (self.checked(*TINY, "--heads", "2/1", "--seed", seed)[0] for seed in (1, 99))
        self.assertEqual(first["kv_tokens_distinct"], second["kv_tokens_distinct"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
