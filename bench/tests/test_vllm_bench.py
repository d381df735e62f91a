"""Tests of the comparison of engines, without any engine: workloads, statistics, serving loop, configurations."""

import contextlib
import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "bench/vllm"))
import check_prompts  # noqa: E402
import kernel_times  # noqa: E402
import measure  # noqa: E402
import models  # noqa: E402
import on_rank  # noqa: E402
import open_loop  # noqa: E402
import pairing  # noqa: E402
import rank_rows  # noqa: E402
import serve_http  # noqa: E402
import shadow  # noqa: E402
import shared_weights  # noqa: E402
import sides  # noqa: E402
import vllm_engine  # noqa: E402
import weights  # noqa: E402
import workloads  # noqa: E402
from drawn import Request, Workload, kv_tokens  # noqa: E402
from host_times import HostTimes  # noqa: E402


class WorkloadsTest(unittest.TestCase):
    def test_equal_seeds_give_equal_requests_and_others_differ(self):
        for name in workloads.names_of(list(workloads.SETS)):
            made = workloads.build(name, 3, 2.0)
            self.assertEqual(made, workloads.build(name, 3, 2.0), name)
            self.assertGreater(len(made.requests), 0, name)
        self.assertNotEqual(workloads.build("unshared_8", 3), workloads.build("unshared_8", 4))

    def test_other_processes_draw_the_same(self):
        program = "import workloads; print(workloads.build('fasttree_documents').requests[100].prompt[:2000:100])"
        found = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT / "bench/vllm", capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": "77"},
        ).stdout  # fmt: skip
        expected = workloads.build("fasttree_documents").requests[100].prompt[:2000:100]
        self.assertEqual(found.strip(), str(expected))

    def test_what_is_shared_is_counted_by_whole_pages(self):
        groups = workloads.build("groups_64x2k")
        # 2,047 tokens before the last one are 127 pages of 16; each sample has its own 16 and what it generates.
        self.assertEqual(kv_tokens(groups.requests, 0), (64 * 2048, 127 * 16 + 64 * 16))
        self.assertEqual(kv_tokens(groups.requests, 5), (64 * 2053, 127 * 16 + 64 * 21))
        alone = workloads.build("unshared_64")
        self.assertEqual(kv_tokens(alone.requests, 7), (64 * 1031, 64 * 1031))
        uneven = [Request([1] * 17), Request([1] * 16), Request([1] * 33)]
        self.assertEqual(kv_tokens(uneven, 0), (66, 16 + 1 + 16 + 16 + 1))

    def test_pages_with_equal_tokens_after_other_tokens_are_not_shared(self):
        requests = [Request([1] * 16 + [5] * 17), Request([2] * 16 + [5] * 17)]
        self.assertEqual(kv_tokens(requests, 0), (66, 66))

    def test_fasttrees_four_have_its_counts(self):
        for name in workloads.SETS["fasttree"]:
            self.assertEqual(len(workloads.build(name).requests), 128, name)
            whole = workloads.build(f"{name}_whole")
            self.assertEqual((whole.kind, {request.max_tokens for request in whole.requests}), ("serve", {256}))
        total, distinct = kv_tokens(workloads.build("fasttree_levels").requests, 0)
        self.assertEqual(total, 128 * (459 + 38 + 584 + 2112 + 80))
        # By hand: 459 once, 38 for three places, 584 + 2112 for four variants, 80 for each request, but for pages
        # that straddle levels.
        by_hand = 459 + 3 * 38 + 4 * (584 + 2112) + 128 * 80
        self.assertLess(abs(distinct - by_hand), 128 * 16 + 64)
        self.assertGreaterEqual(distinct, by_hand)

    def test_arrivals_are_poisson_of_the_rate_and_prompts_fit(self):
        made = workloads.build("conversation@16", 0, 60.0)
        self.assertLess(abs(len(made.requests) - 960), 4 * math.sqrt(960))
        times = [request.arrival_s for request in made.requests]
        self.assertEqual(times, sorted(times))
        self.assertLess(times[-1], 60.0)
        for request in made.requests:
            self.assertLessEqual(len(request.prompt) + request.max_tokens, workloads.PAT_CONTEXT)
        starts = {tuple(request.prompt[: sum(workloads.PAT_LEVELS)]) for request in made.requests}
        self.assertEqual(len(starts), 4)
        self.assertEqual(len({start[:46] for start in starts}), 1)
        self.assertEqual(len({start[: 46 + 348] for start in starts}), 3)
        self.assertEqual({r.arrival_s for r in workloads.build("conversation@inf").requests}, {0.0})

    def test_rates_have_prompts_of_their_own(self):
        slow, fast = (workloads.build(f"conversation@{rate}", 0, 5.0).requests for rate in (8, 16))
        self.assertEqual([len(r.prompt) for r in slow], [len(r.prompt) for r in fast[: len(slow)]])
        self.assertFalse({tuple(r.prompt[:16]) for r in slow} & {tuple(r.prompt[:16]) for r in fast})

    def test_questions_are_short_after_system_prompts(self):
        made = workloads.build("questions@12", 0, 30.0).requests
        system = sum(workloads.PAT_LEVELS)
        self.assertEqual(len({tuple(request.prompt[:system]) for request in made}), 4)
        own = [tuple(request.prompt[system:]) for request in made]
        self.assertEqual(len(set(own)), len(own))
        self.assertEqual((min(map(len, own)), max(map(len, own))), (16, 64))
        self.assertTrue(all(64 <= request.max_tokens <= 256 for request in made))

    def test_recorded_traces_keep_lengths_times_and_sharing(self):
        made = workloads.build("mooncake_toolagent", 0, 5.0)
        rows = [json.loads(line) for line in (ROOT / "data/serving/mooncake_toolagent.jsonl").read_text().splitlines()]
        for request, row in zip(made.requests, rows, strict=False):
            self.assertEqual(len(request.prompt), row["input_length"])
            self.assertEqual(request.max_tokens, row["output_length"])
        first, second = (r.prompt for r in made.requests[:2])
        self.assertEqual(rows[0]["hash_ids"][0], rows[1]["hash_ids"][0])
        self.assertEqual(first[:512], second[:512])
        self.assertNotEqual(first[512:1024], second[512:1024])

    def test_rows_without_filters_are_all_that_fit(self):
        made = workloads.build("toolagent_all@8", 0, 5.0)
        rows = workloads.traces.mooncake("mooncake_toolagent")
        fit = [row for row in rows if row["input_length"] + row["output_length"] <= workloads.CONTEXT]
        self.assertGreater(len(made.requests), 20)
        for request, row in zip(made.requests, fit, strict=False):
            self.assertEqual((len(request.prompt), request.max_tokens), (row["input_length"], row["output_length"]))
        filtered = {tuple(request.prompt[:512]) for request in workloads.build("toolagent@8", 0, 5.0).requests}
        self.assertTrue({tuple(request.prompt[:512]) for request in made.requests} - filtered)

    def test_thoughts_wait_for_their_parents(self):
        made = workloads.build("reasoning_keyword")
        nodes = [node for tree in workloads.traces.reasoning("keyword")[:8] for node in tree[1:] if node[2] > 0]
        self.assertEqual([request.max_tokens for request in made.requests], [node[2] for node in nodes])
        forks = [request for request in made.requests if request.parent is not None]
        self.assertGreater(len(forks), 100)
        for i, request in enumerate(made.requests):
            self.assertTrue(all(j < i for j in request.after), i)
            self.assertTrue(request.parent is None or request.parent in request.after, i)
            self.assertEqual(request.parent is None, bool(request.prompt), i)

    def test_unknown_names_are_refused(self):
        for name in ("groups_7", "conversation@0", "unshared@3", "toolagent@"):
            with self.assertRaisesRegex(ValueError, name):
                workloads.names_of([name])
        with self.assertRaisesRegex(ValueError, "a set"):
            workloads.build("conversation")


class PairingTest(unittest.TestCase):
    def test_ratio_is_the_geometric_mean_with_students_interval(self):
        found = pairing.ratio_of_pairs([2.0, 8.0, 4.0], [1.0, 2.0, 1.0])
        self.assertAlmostEqual(found["ratio"], 2 ** (5 / 3))
        logs = [math.log(2), math.log(4), math.log(4)]
        spread = math.sqrt(sum((x - sum(logs) / 3) ** 2 for x in logs) / 2)
        half = 4.303 * spread / math.sqrt(3)
        self.assertAlmostEqual(math.log(found["ratio_hi"]), sum(logs) / 3 + half, places=6)
        self.assertAlmostEqual(math.log(found["ratio_lo"]), sum(logs) / 3 - half, places=6)

    def test_equal_pairs_have_an_interval_of_no_width_and_one_pair_has_none(self):
        found = pairing.ratio_of_pairs([3.0, 6.0], [1.5, 3.0])
        self.assertEqual((found["ratio_lo"], found["ratio_hi"]), (2.0, 2.0))
        self.assertIsNone(pairing.ratio_of_pairs([3.0], [1.5])["ratio_lo"])
        with self.assertRaises(ValueError):
            pairing.ratio_of_pairs([], [])

    def test_t_meets_its_table(self):
        self.assertEqual(pairing.t95(1), 12.706)
        self.assertAlmostEqual(pairing.t95(31), 2.0395, places=3)
        self.assertAlmostEqual(pairing.t95(120), 1.9799, places=3)

    def test_rounds_are_compared_by_what_both_answered(self):
        two = pairing.ratio_of_rounds([[2.0, None, 4.0], [9.0]], [[1.0, 5.0, 2.0], [1.0]])
        self.assertEqual((two["over"], two["pairs"]), ("rounds", 2))
        self.assertAlmostEqual(two["ratio"], math.sqrt(2 * 9))
        with self.assertRaises(ValueError):
            pairing.ratio_of_rounds([[None]], [[1.0]])

    def test_percentiles_interpolate(self):
        self.assertEqual(pairing.percentile([4.0, 1.0, 2.0, 3.0], 0.5), 2.5)
        self.assertEqual(pairing.percentile([1.0], 0.99), 1.0)

    def test_recovered_is_of_what_lay_above_the_floor(self):
        self.assertAlmostEqual(pairing.recovered(26.0, 8.0, 21.0, 1.0), 0.9)
        self.assertIsNone(pairing.recovered(5.0, 5.0, 1.0, 1.0))


class CheckTest(unittest.TestCase):
    def test_prompts_are_shared_in_levels_and_end_anywhere(self):
        prompts, forced = check_prompts.check_prompts(0)
        self.assertEqual(len(prompts), len(forced))
        self.assertGreater(len({len(prompt) % 16 for prompt in prompts}), 8)
        total, distinct = kv_tokens([Request(prompt) for prompt in prompts], 0)
        self.assertGreater(total, 3 * distinct)

    def test_verdicts(self):
        base = [[-10.0, -11.0], [-12.0]]
        near = [[-10.004, -11.0], [-12.001]]
        self.assertTrue(check_prompts.verdict(base, base, near)["passed"])
        one_off = [[-10.0, -11.0], [-12.2]]
        self.assertFalse(check_prompts.verdict(base, base, one_off)["passed"])
        noisy = [[-10.0, -11.0], [-12.15]]
        self.assertTrue(check_prompts.verdict(base, noisy, one_off)["passed"])
        self.assertFalse(check_prompts.verdict(base, base, [[math.nan, -11.0], [-12.0]])["passed"])
        with self.assertRaises(ValueError):
            check_prompts.verdict(base, base, [[-10.0], [-12.0]])


class KernelTimesTest(unittest.TestCase):
    def test_families(self):
        for kernel, family in {
            "void flash::FlashAttnFwdSm90<...>": "attention",
            "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90>>": "attention",
            "void trunkline::sm90::forward_kernel<64, 64>(Args)": "attention",
            "trunkline::(anonymous namespace)::merge_kernel": "attention",
            "void trunkline::plan_kernel(trunkline::PlanArgs)": "plan",
            "trunkline::cuda::(anonymous namespace)::planner_kernel(trunkline::cuda::ClusterArgs)": "plan",
            "void vllm::reshape_and_cache_flash_kernel<...>": "kv_write",
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(Args)": "collectives",
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "collectives",
            "nvjet_tst_128x64_64x6_1x2_h_bz_TNT": "other",
            "triton_red_fused_flash_add": "other",
        }.items():
            self.assertEqual(kernel_times.family(kernel), family, kernel)

    def test_every_kernel_of_ours_is_known(self):
        """By its name and the namespaces around it, as a profiler prints them."""
        cuda = ROOT / "src/exec/cuda"
        families = {}
        for path in (*cuda.rglob("*.cu"), *cuda.rglob("*.cuh")):
            text = path.read_text()
            names = re.findall(r"__global__[^;{]*?(\w+_kernel)\(", text)
            space = re.search(r"namespace (trunkline[\w:]*) \{", text)
            families |= {name: kernel_times.family(f"{space[1]}::{name}(Args)") for name in names}
            if path.parent.name == "single_query":
                self.assertEqual({families[name] for name in names}, {"attention"} if names else set())
        attention = {name for name, family in families.items() if family == "attention"}
        self.assertEqual(attention, {"forward_kernel", "merge_kernel", "merge_states_kernel"})
        self.assertLess({"resolve_kernel", "check_kernel", "lay_out_kernel", "find_forest_kernel"}, set(families))

    def test_sums_are_of_one_step(self):
        found = kernel_times.per_step({"flash::a": 800.0, "flash::b": 800.0, "gemm": 1600.0}, 8)
        self.assertEqual((found["attention_ms"], found["other_ms"], found["kernels_ms"]), (0.2, 0.2, 0.4))

    def test_a_rank_that_waits_has_longer_collectives(self):
        slow = {"flash::a": 900.0, "cross_device_reduce_1stage": 100.0}
        fast = {"flash::a": 500.0, "cross_device_reduce_1stage": 500.0}
        found = kernel_times.of_ranks([slow, fast], 1)
        told = [(rank["attention_ms"], rank["collectives_ms"], rank["waits_ms"]) for rank in found["by_rank"]]
        self.assertEqual(told, [(0.9, 0.1, 0.0), (0.5, 0.5, 0.4)])
        self.assertEqual(found["attention_ms"], 0.9)
        self.assertNotIn("by_rank", kernel_times.of_ranks([slow], 1))


class ScriptedEngine:
    """Gives each live request one token a step, and notes what it was asked."""

    def __init__(self):
        self.live, self.prompts, self.refused, self.now = {}, {}, set(), 0.0

    def clock(self):
        return self.now

    def add(self, key, request, temperature):
        if len(request.prompt) in self.refused:
            raise ValueError("too long")
        self.live[key] = request.max_tokens
        self.prompts[key] = request.prompt

    def step(self):
        self.now += 1.0
        moved = []
        for key in list(self.live):
            self.live[key] -= 1
            moved.append((key, [int(self.now)], self.live[key] == 0))
            if self.live[key] == 0:
                del self.live[key]
        return moved

    def abort(self, keys):
        for key in keys:
            self.live.pop(key, None)

    def synchronize(self):
        pass


class OpenLoopTest(unittest.TestCase):
    def serve(self, requests, refused=(), limit_s=100.0):
        engine = ScriptedEngine()
        engine.refused = set(refused)
        loop = open_loop.OpenLoop(engine, Workload("w", "serve", requests, ""), "run", engine.clock)
        return engine, loop.serve(limit_s)

    def test_times_are_from_arrival(self):
        _, found = self.serve([Request([1], 4), Request([2], 3, arrival_s=1.5)])
        self.assertEqual(found["ttft_ms"], [1000.0, 1500.0])  # the second is admitted at 2 and answered at 3
        self.assertEqual(found["tpot_ms"], [1000.0, 1000.0])
        self.assertEqual(found["e2e_ms"], [4000.0, 3500.0])
        self.assertEqual((found["tokens"], found["failures"], found["itl_p99_ms"]), (7, 0, 1000.0))

    def test_forks_begin_with_their_parents_text(self):
        requests = [Request([1, 2], 2), Request([3], 1), Request([], 2, parent=0, after=(0, 1))]
        engine, found = self.serve(requests)
        self.assertEqual(engine.prompts["run.2"], [1, 2, 1, 2])
        self.assertEqual(found["ttft_ms"][2], 1000.0)
        self.assertEqual(found["failures"], 0)

    def test_what_is_refused_or_late_is_a_failure(self):
        _, found = self.serve([Request([1, 1, 1], 2), Request([2], 2)], refused=[3])
        self.assertEqual((found["failures"], found["ttft_ms"][0]), (1, None))
        self.assertIn("too long", found["why"])
        engine, found = self.serve([Request([1], 50), Request([2], 2)], limit_s=10.0)
        self.assertEqual((found["failures"], found["tpot_ms"][0], found["tpot_ms"][1]), (1, None, 1000.0))
        self.assertEqual(engine.live, {})


class BatchAtTest(unittest.TestCase):
    def test_requests_that_decode_have_what_they_had_of_their_answers(self):
        engine = ScriptedEngine()
        # After 6 s half of the first answer is there; the second answer has ended, the third has not begun.
        requests = [Request([1, 2], 10), Request([3], 2), Request([4], 5, arrival_s=8.5)]
        loop = open_loop.OpenLoop(engine, Workload("w@8", "serve", requests, ""), "run", engine.clock)
        loop.serve(100.0)
        made = loop.batch_at(5.5)
        self.assertEqual((made.name, made.kind, len(made.requests)), ("w@8:live", "steps", 1))
        self.assertEqual(made.requests[0].prompt, [1, 2, 1, 2, 3, 4, 5])
        self.assertEqual(loop.batch_at(1000.0).requests, [])


class ShadowTest(unittest.TestCase):
    def rows(self, *compared, beyond=0.0):
        """The rows of a run whose counters have these values after each workload."""
        counts = iter((0.0, *compared))

        class Engine(ScriptedEngine):
            def __init__(self, given):
                super().__init__()

            def info(self):
                return dict.fromkeys(("device", "vllm", "torch", "cuda", "layers"), "")

            def forget(self):
                return not self.live

            def statistics(self):
                found = {"compared": next(counts), "beyond": beyond, "most": 0.01, "tolerance": 0.0156}
                return [{"a layer": {"layers": 2, "decode_rows": found["compared"] / 10, "shadow": found}}]

        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "rows.jsonl"
            words = ["shadow.py", "--out", str(out), "--scratch", folder, "--steps", "3", "--seconds", "0.5"]
            words += ["--workloads", "deft_shots_20", "conversation@4"]
            with (
                unittest.mock.patch.object(shadow, "VllmEngine", Engine),
                unittest.mock.patch.object(sys, "argv", words),
                unittest.mock.patch.dict(os.environ),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                return shadow.main(), [json.loads(line) for line in out.read_text().splitlines()]

    def test_what_was_compared_while_each_workload_ran(self):
        code, rows = self.rows(100.0, 250.0)
        self.assertEqual(code, 0)
        self.assertEqual(
            [(row["compared"], row["decode_rows"], row["steps"]) for row in rows], [(100, 20, 3), (150, 30, 3)]
        )
        self.assertEqual([row.get("short_steps", row.get("failures")) for row in rows], [0, 0])

    def test_a_difference_or_nothing_compared_fails(self):
        self.assertEqual(self.rows(100.0, 250.0, beyond=1.0)[0], 1)
        self.assertEqual(self.rows(0.0, 0.0)[0], 1)


class SidesTest(unittest.TestCase):
    def test_what_was_served_is_followed_by_its_batch(self):
        class Switch:
            def use(self, side):
                pass

        class Engine(ScriptedEngine):
            def forget(self):
                return True

        engine = Engine()
        requests = [Request([1, 2], 40), Request([3], 40)]
        workload = Workload("burst@inf", "serve", requests, "")
        plan = measure.Plan(serve_rounds=1, limit_s=1e9)
        row, live = sides.served_row(engine, Switch(), workload, plan)
        self.assertEqual((row["kind"], row["baseline"], len(live.requests)), ("serve", "default", 2))
        self.assertGreater(len(live.requests[0].prompt), 2)

    def test_all_sides_run_the_same_batch_in_turns(self):
        order = []

        class Engine:
            def __init__(self):
                self.host, self.keys = HostTimes(), []

            def add(self, key, request, temperature):
                self.keys.append(key)

            def step(self):
                self.host.found["build_us"].append(7.0)
                return [(key, [1], False) for key in self.keys]

            def abort(self, keys):
                self.keys = [key for key in self.keys if key not in keys]

            def synchronize(self):
                pass

        switch = types.SimpleNamespace(use=order.append)
        plan = measure.Plan(rounds=2, pairs=2, steps=12)
        workload = Workload("two", "steps", [Request([5, 6]), Request([5, 7])], "")
        found = sides.time_steps(Engine(), switch, workload, plan)
        warm = sides.SIDES
        self.assertEqual(order, [*warm, *warm, *warm[::-1], *warm, *warm[::-1], *warm])
        self.assertEqual({side: len(times) for side, times in found["medians"].items()}, dict.fromkeys(warm, 4))
        self.assertEqual((found["short"], found["steps"], found["build_us"]["trunkline"]), (0, 12, [7.0] * 4))


class HostTimesTest(unittest.TestCase):
    def test_a_step_is_its_input_and_its_tables(self):
        class Runner:
            def prepare_inputs(self, batch):
                return batch + 1

            def prepare_attn(self, batch, slots=0):
                return batch + slots

        times, runner = HostTimes(), Runner()
        times.watch_preparing(runner)
        for _ in range(3):
            self.assertEqual((runner.prepare_inputs(1), runner.prepare_attn(2, slots=3)), (2, 5))
        self.assertEqual((len(times.found["prepare_us"]), times.medians()["build_us"]), (3, None))
        self.assertGreater(times.medians()["prepare_us"], 0)
        times.forget()
        self.assertEqual(times.medians(), {"build_us": None, "prepare_us": None})
        times.watch_preparing(object())  # another runner: nothing to time

    def test_a_step_waits_for_the_slowest_rank(self):
        workers = [types.SimpleNamespace(), types.SimpleNamespace()]

        def on_ranks(function, *arguments):
            return [function(worker, *arguments) for worker in workers]

        with unittest.mock.patch.object(
            on_rank, "watch_host", lambda worker: setattr(worker, "host_times", HostTimes())
        ):
            times = vllm_engine.HostTimesOfRanks(on_ranks)
        for worker, us in zip(workers, (40.0, 70.0), strict=True):
            worker.host_times.found["build_us"].append(us)
        self.assertEqual(times.medians(), {"build_us": 70.0, "prepare_us": None})
        times.forget()
        self.assertEqual(times.medians(), {"build_us": None, "prepare_us": None})


class RankRowsTest(unittest.TestCase):
    def counted(self, mixed, engine):
        return {"l0": {"decode_steps": 40 + mixed, "mixed_steps": mixed, "engine_steps": engine}}

    def test_ranks_are_compared(self):
        rows = rank_rows.counter_rows([self.counted(10, 5), self.counted(8, 7)], [["1101"], ["10010"]])
        self.assertEqual(
            [(row["kind"], row.get("rank")) for row in rows], [("counters", 0), ("counters", 1), ("ranks", None)]
        )
        self.assertEqual(rows[2]["differ"], {"decode_steps": 2, "mixed_steps": 2, "engine_steps": 2})
        # The second step, and a fifth that the first rank did not see.
        self.assertEqual((rows[2]["mixed_decisions"], rows[2]["decided_apart"]), (5, 2))
        self.assertEqual(len(rank_rows.counter_rows([self.counted(10, 5)])), 1)

    def test_plans_of_a_workload(self):
        before = [{"l0": {"decode_steps": 4, "kv_tokens": 10, "kv_tokens_read": 9}}]
        after = [{"l0": {"decode_steps": 9, "shared_steps": 2, "kv_tokens": 110, "kv_tokens_read": 59}}]
        expected = {"decode_steps": 5, "shared_steps": 2, "kv_tokens": 100, "kv_tokens_read": 50}
        self.assertEqual(rank_rows.plans_since(before, after), expected)


class ConfigurationTest(unittest.TestCase):
    def test_key_and_value_bytes(self):
        self.assertEqual(models.kv_bytes_per_token(models.shape_of("llama3-8b")), 131072)
        self.assertEqual(models.kv_bytes_per_token(models.shape_of("qwen3-8b")), 147456)
        self.assertEqual(models.shape_of("llama3-8b", 4)["num_hidden_layers"], 4)
        self.assertEqual(models.kv_bytes_per_token(models.shape_of("llama3-70b")), 327680)
        yi = models.shape_of("yi-6b")
        by_ranks = [models.kv_bytes_per_token(yi, ranks=ranks) for ranks in (1, 2, 4, 8)]
        self.assertEqual(by_ranks, [65536, 32768, 16384, 16384])  # 4 KV heads

    def test_what_sets_up_one_process_is_refused_on_several_gpus(self):
        given = types.SimpleNamespace(tensor_parallel=2, weights=None, config="trunkline")
        vllm_engine.require_one_gpu(given)
        for change in ({"weights": "/file"}, {"config": "forest"}):
            with self.assertRaisesRegex(ValueError, "--tensor-parallel 2; supported: 1"):
                vllm_engine.require_one_gpu(types.SimpleNamespace(**vars(given) | change))

    def test_configurations_differ_in_what_their_names_say(self):
        made = {name: vllm_engine.engine_arguments(name, "default", "m", 1, 8) for name in vllm_engine.CONFIGURATIONS}
        self.assertEqual(made["trunkline"], made["default"] | {"attention_backend": "CUSTOM"})
        self.assertEqual(made["cascade"], made["default"] | {"disable_cascade_attn": False})
        piecewise = {"compilation_config": {"cudagraph_mode": "PIECEWISE"}}
        self.assertEqual(made["forest"], made["trunkline"] | piecewise)
        self.assertEqual(made["default"]["kv_cache_memory_bytes"], 2**30)
        self.assertEqual(serve_http.flags("cascade", "default"), ["--no-disable-cascade-attn"])
        expected = ["--attention-backend", "CUSTOM", "--enforce-eager"]
        self.assertEqual(serve_http.flags("trunkline", "eager"), expected)

    def test_weights_are_drawn_and_norms_are_one(self):
        class Tensor:
            def __init__(self, dimensions):
                self.dimensions, self.data, self.done = dimensions, self, None

            def dim(self):
                return self.dimensions

            def numel(self):
                return 3

            def normal_(self, mean, std, generator):
                self.done = (mean, std, generator)

            def fill_(self, value):
                self.done = value

        generator = types.SimpleNamespace(manual_seed=lambda seed: f"seed {seed}")
        sys.modules["torch"], before = (
            types.SimpleNamespace(Generator=lambda device: generator), sys.modules.get("torch")
        )  # fmt: skip
        try:
            matrix, norm = Tensor(2), Tensor(1)
            model = types.SimpleNamespace(parameters=lambda: [matrix, norm])
            self.assertEqual(weights.draw_weights(model, 0.02), 6)
        finally:
            del sys.modules["torch"]
            if before is not None:
                sys.modules["torch"] = before
        self.assertEqual((matrix.done, norm.done), ((0, 0.02, "seed 1"), 1))

    def test_an_owner_that_does_not_start_is_not_waited_for(self):
        with self.assertRaisesRegex(TimeoutError, "the engine that owns the weights did not start"):
            shared_weights.adopt(None, pathlib.Path("/nowhere"), 0.01)


class HttpTest(unittest.TestCase):
    def test_traces_keep_tokens_and_times(self):
        workload = workloads.build("conversation@8", 0, 1.0)
        rows = [json.loads(line) for line in serve_http.trace_lines(workload)]
        self.assertEqual([row["hash_ids"] for row in rows], [request.prompt for request in workload.requests])
        self.assertTrue(all(row["input_length"] == len(row["hash_ids"]) for row in rows))
        with self.assertRaisesRegex(ValueError, "wait"):
            serve_http.trace_lines(workloads.build("reasoning_keyword"))

    def test_rounds_are_pairs(self):
        def result(tpot, failed=0):
            return dict.fromkeys(serve_http.KEYS, 1.0) | {"mean_tpot_ms": tpot, "failed": failed}

        row = serve_http.row_of(
            {"default": [result(4), result(4)], "trunkline": [result(2), result(2, 1)]}, "default", "trunkline"
        )
        self.assertEqual((row["ratio"], row["pairs"], row["failures"]), (2.0, 2, {"default": 0, "trunkline": 1}))


if __name__ == "__main__":
    unittest.main()
