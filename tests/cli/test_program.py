"""The program's commands through their real command lines.

Needs TRUNKLINE_PROGRAM (the binary) and TRUNKLINE_DATA (the repository's data folder) in the environment.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["TRUNKLINE_PROGRAM"]
DATA = pathlib.Path(os.environ["TRUNKLINE_DATA"])
TINY = ["--tree", "1,2,6/40,33,7"]
# Facts of the machine do not matter to these tests, and few repetitions keep them short.
QUICK = ["--machine", "generic", "--threads", "2"]


def run(*arguments, **environment):
    """Runs the program; returns exit code, standard output, standard error."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, content, name="input.jsonl"):
        path = pathlib.Path(self.folder.name) / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
        return path

    def succeed(self, *arguments, **environment):
        code, out, err = run(*arguments, **environment)
        self.assertEqual((code, err), (0, ""))
        return out

    def rows(self, *arguments, **environment):
        """The JSON lines of a command that succeeds; nothing else may be on standard output."""
        return [json.loads(line) for line in self.succeed(*arguments, "--json", **environment).splitlines()]


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


class PlanTest(ProgramTest):
    # Four requests: all share 32 tokens, A, B and C share 64 more, then A 10, B 26, C 0, D 48 tokens of their own.
    GOLDEN = '{"source":"golden","nodes":[[-1,32],[0,64],[1,10],[1,26],[0,48]],"requests":[2,3,1,4]}'

    def test_json_matches_the_worked_example(self):
        (row,) = self.rows("plan", self.file(self.GOLDEN), "--policy", "node", "--split", "none", *QUICK)
        forest = row["forest"]
        self.assertEqual(forest["total_tokens"], 106 + 122 + 96 + 80)
        self.assertEqual(forest["distinct_tokens"], 32 + 64 + 10 + 26 + 48)
        self.assertEqual(
            [(node["parent"], node["begin"], node["end"], sorted(node["requests"])) for node in forest["nodes"]],
            [(-1, 0, 32, [0, 1, 2, 3]), (0, 32, 96, [0, 1, 2]), (1, 96, 106, [0]), (1, 96, 122, [1]), (0, 32, 80, [3])],
        )
        policies = row["policies"]
        self.assertEqual(policies["flat"]["kv_tokens_read"], 404)
        self.assertEqual(policies["node"]["kv_tokens_read"], 180)
        self.assertEqual({p["kv_tokens_distinct"] for p in policies.values()}, {180})
        self.assertIn("items", row["plan"])

    def test_text_shows_forest_policies_and_items(self):
        out = self.succeed("plan", self.file(self.GOLDEN), "--policy", "node", *QUICK)
        for words in (
            "4 requests, 5 nodes, 404 KV tokens one at a time, 180 distinct",
            "  32 tokens [0, 32), 4 requests\n",
            "    64 tokens [32, 96), 3 requests, 1 of them ends here\n",
            "      10 tokens [96, 106), 1 request\n",
            "node *",
            "profit",
            "Items of `node`",
            "partials",
        ):
            self.assertIn(words, out)

    def test_long_output_is_cut_unless_all_is_asked_for(self):
        tree = ["--tree", "40/100", "--policy", "flat"]
        short = self.succeed("plan", *tree, *QUICK)
        self.assertIn("40 leaves of 100 to 100 tokens, 4,000 in all, 40 requests", short)
        self.assertIn("more items (--all shows them)", short)
        self.assertEqual(self.succeed("plan", *tree, "--all", *QUICK).count("100 tokens [0, 100)"), 40)

    def test_shared_files_can_all_be_planned(self):
        for path in sorted((DATA / "decode_batches").glob("*.jsonl")):
            with self.subTest(path=path.name):
                rows = self.rows("plan", path, *QUICK)
                self.assertEqual(len(rows), 8)
                for row in rows:
                    chosen = row["plan"]["statistics"]["kv_tokens_read"]
                    self.assertLessEqual(chosen, row["forest"]["total_tokens"])
                    self.assertGreaterEqual(chosen, row["forest"]["distinct_tokens"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_output_that_cannot_be_written_is_an_error(self):
        for arguments in (["plan", *TINY, *QUICK], ["plan", *TINY, *QUICK, "--json"], ["--version"]):
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                done = subprocess.run(
                    [PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=240, check=False
                )
                self.assertEqual(done.returncode, 3)
                self.assertEqual(done.stderr, "trunkline: error: standard output cannot be written\n")


class CompareTest(ProgramTest):
    def test_json_has_every_policy_autos_regret_and_means(self):
        *rows, means = self.rows("compare", *TINY, "--tree", "8/100", "--page-size", 1, *QUICK)
        self.assertEqual([row["case"] for row in rows], ["1,2,6/40,33,7", "8/100"])
        for row in rows:
            predicted = {name: plan["predicted_us"] for name, plan in row["policies"].items()}
            self.assertLessEqual({"flat", "node", "profit", "trunk"}, set(predicted))
            self.assertEqual(row["auto"]["predicted_us"], predicted[row["auto"]["chosen"]])
            self.assertAlmostEqual(row["auto"]["regret"], row["auto"]["predicted_us"] / min(predicted.values()))
        flat = rows[0]["policies"]["flat"]
        self.assertEqual((flat["kv_tokens_read"], flat["kv_tokens_distinct"]), (480, 148))
        self.assertAlmostEqual(flat["x_distinct"], 480 / 148)
        self.assertEqual((means["suite"], means["batches"]), ("geometric mean", 2))
        self.assertAlmostEqual(means["policies"]["flat"]["x_distinct"], (480 / 148) ** 0.5)

    def test_policies_can_be_named(self):
        row, _ = self.rows("compare", *TINY, *QUICK, "--policy", "node,flat")
        self.assertEqual(list(row["policies"]), ["flat", "node"])

    def test_policies_that_the_tiles_cannot_serve_are_left_out(self):
        tall = ["--machine", DATA / "machines" / "h200-sxm.json", "--tile", "128x64"]
        row, _ = self.rows("compare", *TINY, *tall)
        self.assertIn("trunk", row["policies"])
        self.assertNotIn("invariant", row["policies"])
        code, out, err = run("compare", *TINY, *tall, "--policy", "invariant", "--json")
        self.assertEqual((code != 0, out), (True, ""))
        self.assertIn("policy invariant needs one that works as one", err)

    def test_table_is_for_people(self):
        text = self.succeed("compare", *TINY, *QUICK)
        for words in ("KV tokens read", "x distinct", "auto: ", "auto's regret", "Geometric means over 1 batch"):
            self.assertIn(words, text)


class DoctorTest(ProgramTest):
    def test_text(self):
        out = self.succeed("doctor")
        for words in ("CPU", "cores usable", "GB/s, measured", "GFLOP/s, measured", "kernels used", "CUDA"):
            self.assertIn(words, out)

    def test_json(self):
        (row,) = self.rows("doctor", "--threads", 1)
        self.assertEqual(row["threads"], 1)
        self.assertGreater(row["read_bytes_per_us"], 0)
        self.assertGreater(row["flops_per_us"], 0)
        self.assertIn(row["isa"], ("portable", "avx2", "avx512"))

    def test_help_and_version(self):
        for arguments in (["--help"], ["run", "--help"], ["plan", "--help"], ["doctor", "--help"], ["--version"]):
            with self.subTest(arguments=arguments):
                self.assertIn("trunkline" if "--version" in arguments else "--help", self.succeed(*arguments))


class TuneTest(ProgramTest):
    def test_profile_is_written_and_can_be_used(self):
        path = pathlib.Path(self.folder.name) / "mine.json"
        out = self.succeed("tune", "--device", "cpu", "--out", path)
        for words in ("read bandwidth", "latency", "C(rows, tokens)", "Transfers from cold memory", str(path)):
            self.assertIn(words, out)
        profile = json.loads(path.read_text())
        self.assertEqual(profile["device"], "cpu")
        for figure in ("read_bytes_per_us", "flops_per_us", "latency_us", "launch_us", "item_us", "cost_table"):
            self.assertTrue(profile[figure]["source"].startswith("measured: "), figure)
        for figure in ("read_bytes_per_us", "flops_per_us", "latency_us", "item_us", "partial_us_per_kib"):
            self.assertGreater(profile[figure]["value"], 0, figure)
        self.assertGreater(profile["flop_efficiency"]["value"], 0.02)
        table = profile["cost_table"]["value"]
        self.assertEqual(len(table["us"]), len(table["rows"]))
        # However noisy the machine, 64 times the tokens and 32 times the rows take longer.
        self.assertGreater(table["us"][0][-1], table["us"][0][0])
        self.assertGreater(table["us"][-1][-1], table["us"][1][-1])
        self.succeed("plan", *TINY, "--machine", path)
        (row,) = self.rows("run", *TINY, "--machine", path, "--check", "--repeat", 1, "--heads", "4/2")
        self.assertTrue(row["passed"])

    def test_tiles_are_derived_for_each_gpu(self):
        for name in ("a100-80gb", "h100-sxm", "h200-sxm"):
            with self.subTest(name=name):
                out = self.succeed("tune", "--tiles", DATA / "machines" / f"{name}.json")
                for words in ("must be in flight", "64x128", "no: (2) bytes in flight", "Differences from PAT A100"):
                    self.assertIn(words, out)
        self.assertIn("64x64, only derived: ", out)

    def test_gpu_profiles_are_for_predictions(self):
        path = DATA / "machines" / "h200-sxm.json"
        (row,) = self.rows("plan", "--tree", "1,64/2048,256", "--machine", path)
        self.assertEqual(row["plan"]["shape"]["device"], "cuda")
        self.assertLess(row["plan"]["statistics"]["predicted_us"], 60)
        code, out, err = run("run", *TINY, "--machine", path, "--device", "cpu")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("is a profile of a cuda device, and --device is cpu", err)


class CudaTest(ProgramTest):
    """On a machine whose CUDA can be used, what runs there; elsewhere, that it is refused with the reason."""

    MODES = ("persistent", "streams", "serial", "fixed")
    SHARED = ["--tree", "1,3,24/700,130,40"]

    @classmethod
    def setUpClass(cls):
        code, out, err = run("doctor", "--json", "--threads", 1)
        assert code == 0, err
        cls.cuda = json.loads(out)["cuda"]

    def need_cuda(self):
        if not self.cuda["usable"]:
            self.skipTest(self.cuda["reason"])

    def checked(self, *arguments):
        rows = self.rows("run", "--device", "cuda", "--check", "--repeat", 2, *arguments)
        for row in rows:
            self.assertTrue(row["passed"], row)
            self.assertGreater(row["checked_requests"], 0)
            self.assertEqual((row["place"], row["device"]), ("cuda:0", self.cuda["device_list"][0]["name"]))
            self.assertGreater(min(row["us"], row["flat_us"], row["upload_us"], row["resolve_us"], row["floor_us"]), 0)
        return rows

    def test_without_cuda_it_is_refused_with_the_reason(self):
        if self.cuda["usable"]:
            self.skipTest("CUDA can be used here")
        for command in (["run", *TINY], ["plan", *TINY], ["compare", *TINY], ["tune"]):
            with self.subTest(command=command):
                code, out, err = run(*command, "--device", "cuda")
                self.assertEqual((code, out), (2, ""))
                self.assertIn(self.cuda["reason"], err)

    def test_what_is_of_cuda_is_refused_on_the_cpu(self):
        for option in (["--mode", "streams"], ["--check-pages"], ["--trace", "trace.json"]):
            with self.subTest(option=option):
                code, out, err = run("run", *TINY, "--device", "cpu", *option)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(f"{option[0]} needs --device cuda", err)

    def test_a_gpus_plan_is_predicted_without_one(self):
        path = DATA / "machines" / "h200-sxm.json"
        (row,) = self.rows("plan", *TINY, "--machine", path, "--device", "cuda")
        self.assertEqual(row["plan"]["shape"]["device"], "cuda")
        self.assertIn("for NVIDIA H200", self.succeed("compare", *TINY, "--machine", path))

    def test_a_tile_of_halves_leaves_out_what_needs_another(self):
        tall = ["--machine", DATA / "machines" / "h200-sxm.json", "--tile", "128x64"]
        (row,) = self.rows("plan", *TINY, *tall, "--policy", "node")
        self.assertEqual(row["plan"]["policy"], "node")
        self.assertIn("flat", row["policies"])
        self.assertNotIn("invariant", row["policies"])
        code, out, err = run("plan", *TINY, *tall, "--policy", "invariant")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("all tiles have 128 rows and work as two halves", err)

    def test_every_mode_and_merge_is_right(self):
        self.need_cuda()
        for mode in self.MODES:
            for merge in ("fused", "separate"):
                with self.subTest(mode=mode, merge=merge):
                    (row,) = self.checked(*self.SHARED, "--policy", "node", "--mode", mode, "--merge", merge)
                    self.assertEqual((row["mode"], row["merge"], row["chosen"]), (mode, merge, "node"))

    def test_shapes_policies_pages_and_warm_caches(self):
        self.need_cuda()
        self.checked(*self.SHARED, "--policy", "all")
        self.checked(*self.SHARED, "--warm", "--check-pages", "--layout", "hnd", "--page-size", 24)
        for head_dim, dtype, heads in ((64, "f16", "4/4"), (128, "bf16", "12/1"), (256, "bf16", "16/1")):
            self.checked(*self.SHARED, "--head-dim", head_dim, "--dtype", dtype, "--heads", heads)

    def test_traces(self):
        self.need_cuda()
        path = pathlib.Path(self.folder.name) / "trace.json"
        for mode in self.MODES:
            with self.subTest(mode=mode):
                rows = self.checked(*self.SHARED, "--tree", "9/70", "--trace", path, "--mode", mode)
                events = json.loads(path.read_text())["traceEvents"]
                tasks = [event for event in events if event["ph"] == "X"]
                self.assertEqual({event["pid"] // 1000 for event in tasks}, {0, 1})
                for row in rows:
                    self.assertGreaterEqual(row["bubble_share"], 0)
                    self.assertLess(row["bubble_share"], 1)
                for event in tasks:
                    self.assertGreaterEqual(event["ts"], 0)
                    self.assertGreaterEqual(event["dur"], 0)

    def test_auto_runs_here_and_tables_say_so(self):
        self.need_cuda()
        out = self.succeed("run", *self.SHARED, "--repeat", 1, "--check")
        for words in ("cuda:0, ", "persistent launches", "upload", "resolve", "1 of 1 batches are right"):
            self.assertIn(words, out)
        (row,) = self.rows("plan", *TINY)
        self.assertEqual(row["plan"]["shape"]["device"], "cuda")

    def test_tune_measures_the_device_and_its_profile_can_be_used(self):
        self.need_cuda()
        path = pathlib.Path(self.folder.name) / "gpu.json"
        out = self.succeed("tune", "--device", "cuda", "--out", path)
        for words in (
            "read bandwidth",
            "one worker alone",
            "Transfers from cold memory",
            "Rounding rows up",
            "KV tile",
        ):
            self.assertIn(words, out)
        profile = json.loads(path.read_text())
        self.assertEqual(profile["device"], "cuda")
        for figure in ("read_bytes_per_us", "cache_bytes_per_us", "latency_us", "launch_us", "item_us", "cost_table"):
            self.assertTrue(profile[figure]["source"].startswith("measured: "), figure)
        for figure in ("read_bytes_per_us", "latency_us", "launch_us", "item_us", "worker_read_bytes_per_us"):
            self.assertGreater(profile[figure]["value"], 0, figure)
        table = profile["cost_table"]["value"]
        self.assertGreater(table["us"][0][-1], table["us"][0][0])
        self.checked(*self.SHARED, "--machine", path)

    def test_devices_and_types_that_are_not_there(self):
        self.need_cuda()
        for option, value, words in (
            ("--device", "cuda:99", "99"),
            ("--dtype", "f32", "dtype is f32; supported on cuda"),
        ):
            with self.subTest(option=option):
                code, out, err = run("run", *TINY, "--device", "cuda", option, value)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(words, err)
        # A GPU of these figures may be here, but no kernel with tiles of 256 rows.
        profile = json.loads((DATA / "machines" / "h200-sxm.json").read_text())
        profile["tiles"]["value"] = [[16, 64], [256, 64]]
        path = self.file(json.dumps(profile), "tall.json")
        code, out, err = run("run", *TINY, "--machine", path)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("tiles has 256x64; this build has tiles of", err)


class BadInputTest(ProgramTest):
    def refused(self, arguments, *words):
        code, out, err = run(*arguments)
        self.assertEqual(code, 2, err)
        self.assertEqual(out, "")
        self.assertTrue(err.startswith("trunkline: error: "), err)
        self.assertEqual(err.count("\n"), 1, err)
        for word in words:
            self.assertIn(word, err)

    def test_options(self):
        for option, value, *words in (
            ("--heads", "32", "--heads", "32/8"),
            ("--heads", "0/0", "--heads"),
            ("--heads", "-4/2", "--heads"),
            ("--heads", "8/3", "8", "3"),
            ("--heads", "34/2", "17"),
            ("--head-dim", "80", "80", "64", "128", "256"),
            ("--head-dim", "many", "--head-dim"),
            ("--dtype", "f8", "--dtype", "f8", "bf16"),
            ("--page-size", "0", "page_size", "0"),
            ("--page-size", "-16", "-16"),
            ("--page-size", "99999999999", "--page-size"),
            ("--head-dim", str(2**32 + 64), "--head-dim"),
            ("--policy", "best", "best", "flat", "profit"),
            ("--split", "half", "split", "half", "balance"),
            ("--layout", "abc", "--layout", "nhd"),
            ("--device", "tpu", "--device", "cpu", "cuda:N"),
            ("--device", "cuda:-1", "--device", "cuda:-1"),
            ("--mode", "late", "--mode", "persistent", "streams", "serial", "fixed"),
            ("--merge", "late", "--merge", "fused", "separate"),
            ("--threads", "0", "--threads"),
            ("--threads", "-1", "--threads"),
            ("--repeat", "0", "--repeat"),
            ("--seed", "-1", "--seed"),
            ("--limit", "0", "--limit"),
            ("--machine", "mine", "--machine"),
        ):
            with self.subTest(option=option, value=value):
                self.refused(["run", *TINY, f"{option}={value}"], *words)

    def test_profiles(self):
        good = json.loads((DATA / "machines" / "generic-cpu.json").read_text())
        for change, *words in (
            (lambda p: p.pop("launch_us"), 'field "launch_us" is missing'),
            (lambda p: p["item_us"].update(value=-1), "item_us is -1; it must be >= 0"),
            (lambda p: p["workers"].update(value=0.5), "workers is 0.5; an integer is needed"),
            (lambda p: p["workers"].pop("source"), 'field "workers.source" is missing'),
            (lambda p: p.update(speed=1), 'field "speed" is unknown'),
        ):
            profile = json.loads(json.dumps(good))
            change(profile)
            path = self.file(json.dumps(profile), "bad.json")
            with self.subTest(words=words):
                self.refused(["plan", *TINY, "--machine", path], f"{path}: ", *words)
                self.refused(["tune", "--tiles", path], f"{path}: ", *words)
        self.refused(["plan", *TINY, "--machine", self.file("{", "cut.json")], "cut.json: not JSON at column")
        self.refused(["plan", *TINY, "--machine", "no/such.json"], "no/such.json: cannot be opened")
        self.refused(["tune", "--tiles", DATA / "machines" / "generic-cpu.json"], "profile.gpu.sms is 0")
        self.refused(["tune", "--out", "/no/such/folder/x.json"], "--out /no/such/folder/x.json: cannot be opened")
        self.refused(["tune", "--out", "x.json", "--tiles", "y.json"], "--out excludes --tiles")

    def test_drafts(self):
        self.refused(["run", *TINY, "--draft", "trees.json"], '--draft is "trees.json"; a file of draft trees, a colon')
        trees = self.file('{"t": [[0], [1, 0]]}', "trees.json")
        self.refused(["plan", *TINY, "--draft", f"{trees}:t"], "t[1] is [1,0], and its parent is not in the tree")
        self.refused(["run", *TINY, "--draft", f"{trees}:u"], 'has no tree "u"; it has t')
        batch = self.file('{"nodes":[[-1,4]],"requests":[0],"drafts":[[-1,1]]}')
        self.refused(["run", batch], ":1: drafts[0][1] is 1, a cycle")

    def test_commands(self):
        self.refused([], "no command")
        self.refused(["fly"], "fly")
        self.refused(["run"], "no input")
        self.refused(["plan"], "no input")
        self.refused(["compare"], "no input")
        self.refused(["compare", *TINY, "--policy", "auto"], "--policy", "auto")
        self.refused(["compare", *TINY, "--policy", "node,,flat"], "policy")
        self.refused(["run", *TINY, "--no-such-option"], "--no-such-option")

    def test_trees(self):
        for tree, *words in (
            ("1,2", "no slash"),
            ("1/2/3", "tokens[0]"),
            ("4,2/1,1", "nodes[1] is 2"),
            ("1/0", "tokens[0] is 0"),
            ("a/b", 'nodes[0] is "a"'),
            ("", "no slash"),
        ):
            with self.subTest(tree=tree):
                self.refused(["plan", "--tree", tree], *words)

    def test_files(self):
        good = '{"nodes":[[-1,16]],"requests":[0]}\n'
        for content, *words in (
            ("", "no batch"),
            (good + '{"nodes":[[-1,16]],"requ', ":2: not JSON at column"),
            (good + '{"nodes":[[-1,-3]],"requests":[0]}', ":2: nodes[0][1] is -3"),
            (good + '{"nodes":[[0,3]],"requests":[0]}', ":2: nodes[0][0] is 0"),
            (good + '{"nodes":[[-1,3]],"requests":[5]}', ":2: requests[0] is 5"),
            (good + '{"nodes":[[-1,3],[-1,3]],"requests":[0]}', ":2: nodes[1] is on no request's path"),
            (b"\x00\xff\x7fELF" * 100, ":1: not JSON"),
            (b"[" * 1_000_000, ":1: nested more than"),
        ):
            for command in ("run", "plan"):
                with self.subTest(content=content[:60], command=command):
                    self.refused([command, self.file(content)], "input.jsonl", *words)
        self.refused(["run", "/nowhere.jsonl"], "/nowhere.jsonl: cannot be opened")
        self.refused(["run", self.folder.name], "is a directory")

    def test_a_bad_file_stops_the_good_one_before_it(self):
        good = self.file('{"nodes":[[-1,16]],"requests":[0]}', "good.jsonl")
        bad = self.file("{", "bad.jsonl")
        self.refused(["run", good, bad, "--json"], "bad.jsonl:1")

    def test_memory_is_refused_before_it_is_taken(self):
        # 512 x 1,000,000 tokens of 8 heads x 128 x 2 bytes, K and V: two terabytes.
        self.refused(
            ["run", "--tree", "1,512/1,1000000"],
            "1,512/1,1000000 needs ",
            "bytes of memory",
            "TiB",
            "available",
            "--heads",
            "--head-dim",
            "--dtype",
        )
        self.refused(["run", "--tree", "1/9", "--heads", "2000000000/2000000000", "--page-size", 2147483647])
        self.refused(["plan", "--page-size", 1, "--tree", "1,1000000/1,2000000000"], "page table needs", "--page-size")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
