"""Commands that describe a machine, measure it and run on its GPUs. Environment as for program_case.py."""

import json
import pathlib
import sys
import unittest

from program_case import DATA, TINY, ProgramTest, run


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
            ("--dtype", "f32", "q_dtype and kv_dtype are f32; supported on cuda"),
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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
