"""Tests of the comparison inside SGLang, without it: turns of a batch, room in the KV cache, counters, commands."""

import json
import pathlib
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for folder in ("bench", "bench/vllm", "bench/sglang"):  # the last is looked through first: vLLM's have a `sides`, too
    sys.path.insert(0, str(ROOT / folder))
import sides  # noqa: E402, I001
import measure  # noqa: E402
import side_scheduler  # noqa: E402
from drawn import CONTEXT, Request, Workload  # noqa: E402


class Engine:
    """Decodes a step each time that it is let run; a step of `trunkline` takes half of another's."""

    def __init__(self, kv_tokens=100_000):
        self.kv_tokens, self.now, self.side, self.steps, self.live = kv_tokens, 0.0, "default", [], 0
        self.asked, self.flushed, self.ended = [], 0, False

    def ask(self, do, within_s=0.0, **given):
        self.asked.append(do)
        if do == "use":
            self.side, self.steps = given["side"], []
        if do == "steps":
            return list(self.steps)
        if do == "live":
            return {"running": self.live, "waiting": 0}
        if do == "statistics":
            count = 0 if self.asked.count("statistics") == 1 else 4
            return {"trunkline": {"decode_steps": count, "kv_tokens": 10 * count}}
        return None

    def let_run(self, seconds):
        for _ in range(max(1, int(seconds / 0.01))):
            self.now += 0.005 if self.side.startswith("trunkline") else 0.01
            self.steps.append((self.now, self.live))

    def add(self, name, request, temperature, max_tokens=None):
        self.live += 1

    def raise_ended(self):
        if self.ended:
            raise RuntimeError("r has ended: retracted")

    def abort_all(self):
        self.live = 0

    def flush(self):
        self.flushed += 1


def group(count, length=64):
    return Workload("group", "steps", [Request(list(range(10, 10 + length))) for _ in range(count)], "a group")


class StepsTest(unittest.TestCase):
    def test_a_turn_times_whole_steps_of_its_side(self):
        engine = Engine()
        batch = sides.Batch(engine, group(4), "r", 1.0)
        for side, expected in (("default", 10.0), ("trunkline", 5.0)):
            found = batch.turn(side, 10, 3, 1.0)
            self.assertEqual(len(found["ms"]), 10)
            self.assertTrue(all(abs(ms - expected) < 1e-6 for ms in found["ms"]))
            self.assertEqual(found["short"], 0)
        engine.live = 3
        self.assertEqual(batch.turn("default", 10, 3, 1.0)["short"], 10)

    def test_a_request_that_ends_stops_the_batch(self):
        engine = Engine()
        batch = sides.Batch(engine, group(2), "r", 1.0)
        engine.ended = True
        with self.assertRaisesRegex(RuntimeError, "retracted"):
            batch.turn("default", 4, 1, 1.0)

    def test_the_row_of_a_batch(self):
        engine = Engine()
        plan = measure.Plan(rounds=2, pairs=3, steps=10, fewest_steps=4)
        row = sides.steps_row(engine, group(4), plan, (128, 1e6))
        self.assertEqual(
            (row["kind"], row["baseline"], row["subject"], engine.flushed), ("sides", "default", "trunkline", 2)
        )
        self.assertAlmostEqual(row["ratio"], 2.0, places=6)
        self.assertAlmostEqual(row["null"]["ratio"], 1.0, places=6)
        self.assertAlmostEqual(row["subject_null"]["ratio"], 1.0, places=6)
        self.assertEqual(row["plans"]["kv_tokens"], 40)

    def test_texts_do_not_outgrow_the_cache(self):
        plan = measure.Plan(pairs=6, steps=40)
        self.assertIs(sides.with_room(plan, group(4), 1_000_000), plan)
        small = sides.with_room(plan, group(64), 64 * 900)
        turns = len(sides.SIDES) * (small.pairs + 1) * (small.steps + plan.drop + sides.EXTRA_STEPS)
        self.assertLessEqual(64 * turns, 64 * 900)
        self.assertLess(small.steps, plan.steps)
        long = sides.with_room(plan, group(2, CONTEXT - 1200), 1_000_000)
        self.assertLess(long.steps, plan.steps)
        with self.assertRaisesRegex(ValueError, "has room for"):
            sides.with_room(plan, group(64), 64 * 100)


class SchedulerTest(unittest.TestCase):
    def commands(self):
        worker = types.SimpleNamespace(model_runner=types.SimpleNamespace())
        return side_scheduler.Commands(types.SimpleNamespace(tp_worker=worker))

    def test_commands_write_their_results(self):
        class Scheduler:
            def process_batch_result(self, batch, result):
                self.processed = batch

        made = side_scheduler.with_sides(Scheduler)()
        for is_decode in (True, False):
            mode = types.SimpleNamespace(is_decode=lambda is_decode=is_decode: is_decode)
            made.process_batch_result(types.SimpleNamespace(forward_mode=mode, batch_size=lambda: 3), None)
        reply = pathlib.Path(tempfile.mkdtemp()) / "1"
        made.bench("steps", str(reply))
        [(_, rows)] = json.loads(reply.read_text())
        self.assertEqual(rows, 3)

    def test_sides_change_the_graphs_that_run(self):
        commands = self.commands()
        commands.runners = {"default": "a", "trunkline": "b"}
        commands.steps = [(0.0, 1)]
        self.assertEqual(commands.do_use("trunkline"), "trunkline")
        self.assertEqual((commands.runner.decode_cuda_graph_runner, commands.steps), ("b", []))


if __name__ == "__main__":
    unittest.main()
