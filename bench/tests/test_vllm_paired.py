"""The protocol between driver and engines, and whole runs, with workers that sleep instead of computing."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench/vllm"))
import engine_client  # noqa: E402

FAKE_WORKER = ROOT / "bench/tests/fake_vllm_worker.py"


class ProtocolTest(unittest.TestCase):
    def start(self, fake="", config="default"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        log = pathlib.Path(folder.name) / "log"
        command = [sys.executable, str(FAKE_WORKER), "--config", config]
        client = engine_client.EngineClient(config, command, log, {"FAKE": fake})
        self.addCleanup(client.kill)
        return client

    def test_a_batch_takes_turns(self):
        client = self.start()
        self.assertEqual(client.started(20)["device"], "NVIDIA H200")
        self.assertEqual(client.ask("load", 10, name="groups_16x2k")["requests"], 16)
        client.ask("begin", 10)
        found = client.ask("steps", 10, count=5, drop=2)
        self.assertEqual((len(found["ms"]), found["short"]), (5, 0))
        self.assertGreater(found["generated"], 1)
        self.assertEqual(client.ask("profile", 10, steps=4)["attention_ms"], 0.2)
        client.ask("end", 10)
        client.quit()

    def test_failed_commands_leave_the_worker_alive(self):
        client = self.start()
        client.started(20)
        for command, arguments, what in (("dance", {}, "dance"), ("load", {"name": "nothing"}, "nothing")):
            with self.assertRaisesRegex(engine_client.WorkerError, what) as raised:
                client.ask(command, 10, **arguments)
            self.assertFalse(raised.exception.dead)
        self.assertEqual(client.ask("load", 10, name="unshared_1")["requests"], 1)

    def test_hung_and_dead_workers_end(self):
        for fake, what, limit in (("default:hangs", "in time", 0.5), ("default:dies", "ended", 20)):
            client = self.start(fake)
            client.started(20)
            client.ask("load", 10, name="unshared_1")
            with self.assertRaisesRegex(engine_client.WorkerError, what) as raised:
                client.ask("begin", limit)
            self.assertTrue(raised.exception.dead)
            self.assertIsNotNone(client.process.poll())
            with self.assertRaisesRegex(engine_client.WorkerError, "dead"):
                client.ask("stats", 1)

    def test_an_engine_that_does_not_start_says_why(self):
        with self.assertRaisesRegex(engine_client.WorkerError, "no memory"):
            self.start("default:refuses").started(20)


class PairedTest(unittest.TestCase):
    def run_it(self, *options, fake="default:slow", code=0):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        out = pathlib.Path(folder.name) / "vllm.jsonl"
        command = [
            sys.executable, str(ROOT / "bench/vllm/paired.py"), "--out", str(out), "--worker", str(FAKE_WORKER),
            "--scratch", folder.name, "--commit", "abc", "--rounds", "2", "--pairs", "2", "--steps", "12",
            "--seconds", "0.5", "--serve-rounds", "2", *options,
        ]  # fmt: skip
        done = subprocess.run(
            command, env={**os.environ, "FAKE": fake}, capture_output=True, text=True, check=False, timeout=100
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return [json.loads(line) for line in out.read_text().splitlines()]

    def test_rows_say_who_is_faster(self):
        trees = ["--trees", '{"cuda_tree": "t"}']
        rows = self.run_it("--workloads", "groups_16x2k", "conversation@8", "reasoning_keyword", *trees)
        self.assertEqual([row["kind"] for row in rows], ["start", "check", "steps", "serve", "serve", "counters"])
        steps, serve = rows[2], rows[3]
        self.assertGreater(steps["ratio"], 1.5)
        self.assertTrue(steps["ratio_lo"] < steps["ratio"] < steps["ratio_hi"])
        self.assertGreater(steps["step_ms"]["default"], 1.5 * steps["step_ms"]["trunkline"])
        self.assertEqual((steps["pairs"], steps["steps_per_turn"], steps["short_steps"]), (4, 12, 0))
        self.assertEqual(steps["build_us"], {"default": 50.0, "trunkline": 50.0})
        self.assertEqual(steps["weights"], "of default")
        self.assertAlmostEqual(steps["floor_ms"], steps["kv_tokens_distinct"] * 131072 / 4670000 / 1e3)
        times = steps["step_ms"]["default"] - steps["step_ms"]["trunkline"]
        self.assertAlmostEqual(steps["recovered"], times / (steps["attention_ms"] - steps["floor_ms"]))
        self.assertEqual((steps["cuda_tree"], steps["commit"], steps["layers"]), ("t", "abc", 32))
        self.assertEqual((serve["rounds"], serve["failures"]), (2, {"default": 0, "trunkline": 0}))
        self.assertEqual(rows[-1]["counters"], {"steps": 5})

    def test_a_third_engine_has_rows_of_its_own(self):
        rows = self.run_it("--workloads", "unshared_1", "--configs", "default", "trunkline", "cascade")
        self.assertEqual([r["baseline"] for r in rows if r["kind"] == "steps"], ["default", "cascade"])
        self.assertEqual([r["subject"] for r in rows if r["kind"] == "check"], ["trunkline", "cascade"])

    def test_engines_that_disagree_are_not_timed(self):
        rows = self.run_it("--workloads", "unshared_1", fake="trunkline:differs", code=1)
        self.assertEqual([row["kind"] for row in rows], ["start", "check"])
        self.assertFalse(rows[1]["passed"])

    def test_no_time_left_means_no_workload(self):
        rows = self.run_it("--workloads", "unshared_1", "--budget-s", "5")
        self.assertEqual([row["kind"] for row in rows], ["start", "check", "counters"])

    def test_an_engine_that_does_not_start_is_a_row(self):
        rows = self.run_it("--workloads", "unshared_1", fake="trunkline:refuses", code=1)
        self.assertEqual([row["kind"] for row in rows], ["error"])
        self.assertIn("no memory", rows[0]["error"])

    def test_another_engine_may_own_the_weights(self):
        rows = self.run_it("--workloads", "unshared_1", "--owner", "trunkline")
        self.assertEqual({row["weights"] for row in rows}, {"of trunkline"})
        command = [sys.executable, str(ROOT / "bench/vllm/paired.py"), "--out", "unused", "--owner", "cascade"]
        refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        self.assertIn("--owner cascade: it is none of --configs default trunkline", refused.stderr)


class HttpTest(unittest.TestCase):
    def run_it(self, fake="", code=0, after=None, workloads=("conversation@8",), limit_s=30.0):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        out = pathlib.Path(folder.name) / "vllm_http.jsonl"
        program = f"""import sys; sys.path.insert(0, {str(ROOT / "bench/vllm")!r})
import models, serve_http
models.write_tokenizer = lambda folder, shape: None  # needs the tokenizers package
sys.exit(serve_http.main())"""
        command = [
            sys.executable, "-c", program, "--out", str(out), "--python", str(ROOT / "bench/tests/fake_vllm_cli.py"),
            "--scratch", folder.name, "--port", str(port), "--workloads", *workloads, "--rounds", "2",
            "--seconds", "1", "--limit-s", str(limit_s),
            *(["--begin-after", str(pathlib.Path(folder.name) / "go")] if after else []),
        ]  # fmt: skip
        if after:
            threading.Timer(after, (pathlib.Path(folder.name) / "go").touch).start()
        environment = {**os.environ, "FAKE_HTTP": fake, "FAKE_PORT": str(port)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return [json.loads(line) for line in out.read_text().splitlines()]

    def test_servers_are_asked_in_turn(self):
        (row,) = self.run_it()
        self.assertEqual((row["kind"], row["ratio"], row["pairs"]), ("http", 2.0, 2))
        self.assertEqual(
            (row["served"]["default"]["mean_tpot_ms"], row["vllm"], row["torch"]), (6.0, "0.26.0", "2.11.0")
        )
        self.assertEqual(row["failures"], {"default": 0, "trunkline": 0})

    def test_a_client_lives_as_long_as_its_server(self):
        self.run_it()
        pids = (self.folder / "pids.txt").read_text().split()
        self.assertEqual((len(pids), len(set(pids))), (4, 2))

    def test_after_a_replay_that_hangs_there_is_another_client(self):
        error, row = self.run_it("hangs", code=1, workloads=("conversation@8", "conversation@12"), limit_s=3.0)
        self.assertIn("did not answer within 3 s", error["error"])
        self.assertEqual((row["workload"], row["rounds"]), ("conversation@12", 2))
        self.assertEqual(len(set((self.folder / "pids.txt").read_text().split())), 3)

    def test_nothing_is_measured_before_the_file_is_there(self):
        began = time.monotonic()
        self.run_it(after=5)
        self.assertGreater(time.monotonic() - began, 5)

    def test_servers_and_clients_that_fail_are_rows(self):
        faults = {
            "trunkline:refuses": "no memory",
            "fails": "ValueError: no such dataset",
            "ends": "the client did not start",
        }
        for fake, what in faults.items():
            (row,) = self.run_it(fake, code=1)
            self.assertEqual(row["kind"], "error")
            self.assertIn(what, row["error"])


if __name__ == "__main__":
    unittest.main()
