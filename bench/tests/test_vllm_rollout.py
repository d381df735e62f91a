"""Tests of rollouts, with an engine that waits instead of computing and sides that differ in speed."""

import contextlib
import io
import json
import math
import pathlib
import statistics
import sys
import tempfile
import types
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vllm"), str(HERE.parent), str(HERE)]
import drawn  # noqa: E402
import rollout  # noqa: E402
import rollout_loop  # noqa: E402
import rollout_rows  # noqa: E402
import rollouts  # noqa: E402
import workloads  # noqa: E402
from drawn import Request, Workload  # noqa: E402
from fake_rollout_engine import FakeRolloutEngine  # noqa: E402
from scheduled import Scheduled, Step  # noqa: E402


class ShapesTest(unittest.TestCase):
    def test_five_shapes_have_their_prompts_samples_and_tokens(self):
        told = {name: (s.prompts, s.samples, s.length) for name, s in rollouts.ROLLOUTS.items()}
        self.assertEqual(
            list(told.values()),
            [(8, 8, 4096), (16, 16, 1024), (4, 8, 16384), (32, 8, 512), (2, 64, 8192)],
        )
        made = workloads.build("rollout_4x8x16k").requests
        self.assertEqual(len(made), 32)
        self.assertEqual(len({tuple(request.prompt) for request in made}), 4)
        self.assertEqual({len(request.prompt) for request in made}, {16384})

    def test_answers_have_long_tails_of_their_seed(self):
        answers = rollouts.Answers()
        lengths = answers.draw(drawn.Drawn("answers", 3), 20000)
        self.assertEqual(lengths, answers.draw(drawn.Drawn("answers", 3), 20000))
        self.assertNotEqual(lengths, answers.draw(drawn.Drawn("answers", 4), 20000))
        self.assertLess(abs(statistics.median(lengths) - 256), 8)
        beyond = 0.5 * math.erfc(math.log(1024 / 256) / 0.9 / math.sqrt(2))  # of the normal distribution
        cut = sum(length == 1024 for length in lengths) / len(lengths)
        self.assertLess(abs(cut - beyond), 0.01)
        self.assertGreaterEqual(min(lengths), 1)

    def test_crossover_has_every_sample_count_and_length(self):
        names = workloads.names_of(["crossover"])
        self.assertEqual(len(names), 6 * 7)
        made = workloads.build("crossover_4x2x512")
        self.assertEqual((made.kind, len(made.requests)), ("steps", 8))
        self.assertEqual(drawn.kv_tokens(made.requests, 0), (8 * 512, 4 * 496 + 8 * 16))

    def test_other_shapes_are_refused(self):
        for text in ("8x8", "0x8x512", "8x8x4m", "8x8x64k"):
            with self.assertRaisesRegex(ValueError, text):
                rollouts.shape_of(text)


class LoopTest(unittest.TestCase):
    def test_steps_go_to_prefill_and_to_their_live_requests(self):
        class Engine:
            """Two requests of 3 and 5 tokens; the first prompt takes a step without output."""

            def __init__(self):
                self.done, self.now, self.turn = Scheduled(), 0.0, 0
                self.script = [
                    (2.0, [], Step(1, 8192)),
                    (3.0, ["r.0"], Step(1, 100)),
                    (1.0, ["r.0", "r.1"], Step(2, 51)),
                    (0.5, ["r.0", "r.1"], Step(2, 2)),
                    (0.5, ["r.1"], Step(1, 1)),
                    (0.25, ["r.1"], Step(1, 1)),
                    (0.25, ["r.1"], Step(1, 1)),
                ]

            def add(self, key, request, temperature):
                self.now += 0.125

            def step(self):
                seconds, moved, step = self.script[self.turn]
                self.turn, self.now = self.turn + 1, self.now + seconds
                self.done.steps.append(step)
                ends = {"r.0": 4, "r.1": 7}
                return [(key, [1], self.turn == ends[key]) for key in moved]

            def synchronize(self):
                self.now += 1.0

        engine = Engine()
        workload = Workload("w", "serve", [Request([1], 3), Request([2], 5)], "")
        found = rollout_loop.Rollout(engine, workload, "r", lambda: engine.now).serve(100.0)
        self.assertEqual((found["prefill_s"], found["prefill_steps"]), (6.0, 2))
        self.assertEqual(found["by_live"], {"1": [3, 333.3333], "2": [1, 500.0]})
        self.assertEqual((found["decode_s"], found["admit_s"], found["other_s"]), (1.5, 0.25, 1.0))
        self.assertEqual((found["seconds"], found["tokens"], found["failures"]), (8.75, 8, 0))
        self.assertEqual(found["half_done_s"], (6.75 + 7.75) / 2)

    def test_ranges_of_live_requests(self):
        names = [rollout_loop.range_of(live) for live in (1, 2, 3, 4, 5, 8, 9, 256, 600)]
        self.assertEqual(names, ["1", "2", "3-4", "3-4", "5-8", "5-8", "9-16", "129-256", "513-"])
        results = [{"by_live": {"3": [1, 4.0], "4": [3, 8.0], "600": [1, 9.0]}}, {"by_live": {"1": [2, 5.0]}}]
        expected = {"1": [None, 5.0], "3-4": [7.0, None], "513-": [9.0, None]}
        self.assertEqual(rollout_loop.by_range(results), expected)

    def test_the_scheduler_tells_what_steps_were_made_of(self):
        updated = []
        scheduler = types.SimpleNamespace(update_from_output=lambda made, result: updated.append(result))
        done = Scheduled()
        done.watch(scheduler)
        for number, tokens in enumerate(({"a": 100, "b": 1}, {}, {"a": 1, "b": 1})):
            scheduler.update_from_output(types.SimpleNamespace(num_scheduled_tokens=tokens), number)
        self.assertEqual(updated, [0, 1, 2])
        self.assertEqual([(step, step.is_prefill) for step in done.take()], [((2, 101), True), ((2, 2), False)])
        self.assertEqual(done.take(), [])


class RolloutTest(unittest.TestCase):
    def run_it(self, *options, wrong=(), code=0):
        """Rows and the engine's calls."""
        engines = []

        class Engine(FakeRolloutEngine):
            def __init__(self, given, **more):
                super().__init__(given, **more)
                self.wrong = frozenset(wrong)
                engines.append(self)

        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "rows.jsonl"
            words = ["rollout.py", "--out", str(out), "--commit", "abc", "--profile-steps", "2", *options]
            self.printed = io.StringIO()
            with (
                unittest.mock.patch.object(rollout, "VllmEngine", Engine),
                unittest.mock.patch.object(sys, "argv", words),
                contextlib.redirect_stdout(self.printed),
                contextlib.redirect_stderr(self.printed),
            ):
                found = rollout.main()
            rows = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual(found, code, self.printed.getvalue())
        return rows, engines[0]

    SMALL = ("--workloads", "rollout_2x4x64", "--answer-median", "6", "--answer-limit", "12", "--rounds", "3")

    def test_rounds_are_turns_of_all_sides(self):
        rows, engine = self.run_it(*self.SMALL, "--rival", "fake_rival:Backend", "--trees", '{"cuda_tree": "t"}')
        turns = [row for row in rows if row["kind"] == "rollout_turn"]
        sides_of = [row["side"] for row in turns]
        order = ["default", "trunkline", "rival"]
        self.assertEqual(sides_of, [*order, *order[::-1], *order])
        for number in range(3):
            tokens = {(row["tokens"], row["tokens_asked"]) for row in turns if row["round"] == number}
            self.assertEqual(len(tokens), 1)
            self.assertEqual(*tokens.pop())
        self.assertGreater(len({row["tokens_asked"] for row in turns}), 1)  # of other rounds others
        self.assertEqual({row["failures"] for row in turns}, {0})
        compared = [(row["baseline"], row["subject"]) for row in rows if row["kind"] == "rollout"]
        self.assertEqual(compared, [("default", "trunkline"), ("default", "rival"), ("rival", "trunkline")])
        first = next(row for row in rows if row["kind"] == "rollout")
        self.assertGreater(first["ratio"], 1.5)
        self.assertTrue(first["ratio_lo"] < first["ratio"] < first["ratio_hi"])
        self.assertEqual((first["pairs"], first["rounds"], first["cuda_tree"]), (3, 3, "t"))
        self.assertGreater(first["ratios"]["decode_s"]["ratio"], first["ratios"]["iteration_s"]["ratio"] / 2)
        self.assertIn("5-8", first["by_live"])
        self.assertGreater(first["by_live"]["5-8"]["ratio"], 1.5)
        last = rows[-1]
        self.assertEqual((last["kind"], list(last["profile"])), ("rollout_profile", order))
        self.assertEqual(engine.more, {"enable_sleep_mode": True})

    def test_weights_are_new_before_every_round_and_the_cache_wakes_last(self):
        _, engine = self.run_it(*self.SMALL, "--sleep-level", "1")
        weights = [call for call in engine.calls if call.startswith("weights")]
        # The first update is before the first round; of a round, the last turn brings the next round's.
        self.assertEqual(weights, [f"weights {number}" for number in (0, 0, 1, 1, 2, 2, 3)])
        self.assertEqual(engine.calls[:4], ["sleep 1", "wake weights", "weights 0", "wake kv_cache"])
        self.assertFalse(engine.asleep)
        rows, engine = self.run_it(*self.SMALL, "--sleep-level", "0")
        self.assertEqual({call.partition(" ")[0] for call in engine.calls}, {"weights"})
        self.assertEqual(engine.more, {})
        self.assertNotIn("sleep_s", next(row for row in rows if row["kind"] == "rollout_turn"))

    def test_kernels_that_disagree_are_not_timed(self):
        rows, _ = self.run_it(*self.SMALL, wrong=["differs"], code=1)
        self.assertEqual([(row["kind"], row["passed"]) for row in rows], [("check", False)])

    def test_an_engine_that_does_not_wake_is_a_row(self):
        rows, _ = self.run_it(*self.SMALL, wrong=["full"], code=1)
        self.assertEqual([row["kind"] for row in rows], ["check", "error", "counters"])
        self.assertIn("no memory to wake up", rows[1]["error"])

    def test_a_batch_without_room_is_a_row_that_says_so(self):
        rows, _ = self.run_it("--workloads", "rollout_64x4x16k", "--rounds", "3", code=1)
        (error,) = [row["error"] for row in rows if row["kind"] == "error"]
        self.assertIn("the KV cache holds 640,000: raise --kv-gib", error)

    def test_no_time_left_means_no_round(self):
        rows, _ = self.run_it(*self.SMALL, "--budget-s", "5")
        self.assertEqual([row["kind"] for row in rows], ["check", "check", "counters"])

    def test_wrong_options_are_refused(self):
        for options, what in (
            (["--rounds", "2"], "needs 3 or more"),
            (["--workloads", "groups"], "'groups' is neither"),
            (["--workloads", "rollout_8x8"], "PROMPTSxSAMPLESxLENGTH"),
        ):
            with self.assertRaises(SystemExit):
                self.run_it(*options)
            self.assertIn(what, self.printed.getvalue())

    def test_the_check_passes_an_engine_that_does_as_told(self):
        rows, _ = self.run_it("--check", "--rival", "fake_rival:Backend", "--again")
        self.assertIn('{"wrong": []}', self.printed.getvalue())
        self.assertEqual({row["commit"] for row in rows}, {"unknown"})

    def test_the_check_names_what_is_wrong(self):
        for wrong, what in (
            ("stuck", "other weights move log-probabilities by 0.00000"),
            ("lone", "trunkline runs no kernel of Trunkline"),
            ("loses", "were asked for"),
            ("awake", "sleep gave 0.0 GiB back"),
        ):
            self.run_it("--check", wrong=[wrong], code=1)
            self.assertIn(what, self.printed.getvalue(), wrong)


class RowsTest(unittest.TestCase):
    def turn(self, seconds, failures=0):
        by_live = {"1": [10, seconds]}
        return {"seconds": seconds, "iteration_s": seconds + 1, "failures": failures, "tokens": 90, "by_live": by_live}

    def test_rounds_with_failures_are_left_out(self):
        found = {"default": [self.turn(8.0), self.turn(9.0), self.turn(4.0)]}
        found["trunkline"] = [self.turn(4.0), self.turn(9.0, failures=2), self.turn(2.0)]
        (row,) = rollout_rows.rows_of(found, "rival", "trunkline")
        self.assertEqual((row["ratio"], row["rounds"], row["pairs"]), (2.0, 2, 2))
        self.assertEqual(row["failures"], {"default": 0, "trunkline": 2})
        self.assertEqual(row["by_live"]["1"]["step_ms"], {"default": 6.0, "trunkline": 3.0})
        found["trunkline"] = [self.turn(4.0, failures=1)] * 3
        self.assertIsNone(rollout_rows.rows_of(found, "rival", "trunkline")[0]["ratio"])
        with self.assertRaisesRegex(ValueError, "no round"):
            rollout_rows.rows_of({"default": [], "trunkline": []}, "rival", "trunkline")


if __name__ == "__main__":
    unittest.main()
