"""Filing rows of engines' comparisons, and their page, on made-up rows."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench/vllm"), str(ROOT / "bench")]
import collect  # noqa: E402
import run_logs  # noqa: E402
import vllm_rates_plot  # noqa: E402
import vllm_report  # noqa: E402

COMMON = {
    "suite": "vllm", "model": "llama3-8b", "dtype": "bf16", "compilation": "default", "commit": "abc", "layers": 32,
    "command": "bench/vllm/paired.py --workloads groups", "device": "NVIDIA H200", "driver": "580", "vllm": "0.26.0",
    "torch": "2.11.0",
}  # fmt: skip
PAIR = {"baseline": "default", "subject": "trunkline"}
START = COMMON | {
    "workload": "start",
    "kind": "start",
    "engines": {"default": {"backend": "a.b.Flash", "runner": "V2"}},
}
CHECK = COMMON | PAIR | {
    "workload": "check", "kind": "check", "passed": True, "logprob_mean_diff": 0.004, "logprob_max_diff": 0.03,
    "mean_limit": 0.01, "max_limit": 0.1, "noise_mean_diff": 0.002, "noise_max_diff": 0.02, "tokens": 448,
}  # fmt: skip
GROUPS = COMMON | PAIR | {
    "workload": "groups_64x16k", "kind": "steps", "about": "", "requests": 64, "ratio": 3.2, "ratio_lo": 3.1,
    "ratio_hi": 3.3, "pairs": 12, "over": "turns", "step_ms": {"default": 25.3, "trunkline": 7.9},
    "kv_tokens_total": 1058000, "kv_tokens_distinct": 27000, "floor_ms": 0.76, "attention_ms": 20.5, "recovered": 0.88,
    "profile": {"default": {"attention_ms": 20.5}, "trunkline": {"attention_ms": 2.9}},
}  # fmt: skip
SIDE = {
    "tpot_ms": {"mean": 10.0, "p99": 20.0}, "ttft_ms": {"mean": 50.0, "p99": 90.0}, "e2e_ms": {"mean": 900.0},
    "tokens_per_s": 800.0,
}  # fmt: skip
SERVED = COMMON | PAIR | {
    "workload": "conversation@8", "kind": "serve", "about": "", "requests": 52, "rounds": 2, "ratio": 1.2,
    "ratio_lo": 1.1, "ratio_hi": 1.3, "over": "rounds", "served": {"default": SIDE, "trunkline": SIDE},
    "ratios": {"tpot_ms": {"ratio": 1.2, "ratio_lo": 1.1, "ratio_hi": 1.3, "over": "rounds"}},
    "failures": {"default": 0, "trunkline": 2},
}  # fmt: skip


def unshared(low, high, requests=8):
    middle = (low + high) / 2
    found = {
        "workload": f"unshared_{requests}",
        "requests": requests,
        "ratio": middle,
        "ratio_lo": low,
        "ratio_hi": high,
    }
    return {key: value for key, value in (GROUPS | found).items() if key != "recovered"}


class PageTest(unittest.TestCase):
    def page(self, *rows):
        return vllm_report.page({"vllm": [START, CHECK, *rows]})

    def test_rows_are_shown_with_their_intervals(self):
        text = self.page(GROUPS, SERVED)
        groups = (
            "| groups_64x16k | 64 | 1,058,000 | 27,000 | 25.30 | 7.90 | 3.200 (3.100 to 3.300) | 12 | 20.50 | 2.90 |"
        )
        self.assertIn(f"{groups} 0.76 | 0.88 |", text)
        self.assertIn("1.200 (1.100 to 1.300)", text)
        self.assertIn("| 800/800 | 0/2 |", text)
        self.assertIn("mean difference 0.0040 (limit 0.0100)", text)
        self.assertIn("default: Flash, model runner V2", text)
        self.assertIn("No row has the baseline faster.", text)

    def test_losses_are_named(self):
        text = self.page(GROUPS, unshared(0.95, 0.97, 64), unshared(0.99, 1.005))
        self.assertIn("The baseline is faster in 2 of 3 rows: unshared_64 (0.960 (0.950 to 0.970)), unshared_8", text)
        self.assertIn("the interval holds 1", text)

    def test_equality_needs_the_whole_interval(self):
        text = self.page(unshared(0.992, 1.008, 1), unshared(0.985, 1.008, 8), unshared(0.95, 0.97, 64))
        self.assertIn("1 requests: equal within 1 %; 8 requests: within 1 % or slower; 64 requests: slower by", text)
        text = self.page(unshared(1.02, 1.04, 1), unshared(0.995, 1.02, 8), unshared(0.98, 1.02, 64))
        self.assertIn("1 requests: faster by more than 1 %; 8 requests: within 1 % or faster; 64 requests: undec", text)

    def test_sides_of_one_engine_have_their_null(self):
        null = {"ratio": 1.001, "ratio_lo": 0.999, "ratio_hi": 1.003}
        own = {"ratio": 0.998, "ratio_lo": 0.996, "ratio_hi": 1.000}
        side = {"kind": "sides", "null": null, "subject_null": own, "build_us": {"default": 94.3, "trunkline": 98.7}}
        text = self.page(unshared(0.992, 1.008) | side)
        self.assertIn("### Decode steps inside one engine, `trunkline` against `default`", text)
        self.assertIn("| 1.001 (0.999 to 1.003) | 0.998 (0.996 to 1.000) | 12 | 94/99 | 20.50 |", text)
        self.assertIn("8 requests: equal within 1 %", text)

    def test_what_a_step_takes_before_its_layers(self):
        told = {"prepare_us": {"default": 301.2, "trunkline": 299.0}, "build_us": {"default": 94.3, "trunkline": 73.0}}
        profiled = {"profile": {"trunkline": {"plan_ms": 0.031, "attention_ms": 1.0}}}
        text = self.page(GROUPS | told | profiled, unshared(0.99, 1.005))
        self.assertIn("| 301/299 | 94/73 | 31 |", text)
        self.assertEqual(text.count("before its layers"), 1)
        self.assertIn("| 301/299 | 94/73 |\n", self.page(unshared(0.99, 1.005) | told))

    def test_several_gpus_are_apart_and_scale(self):
        null = {"ratio": 1.0, "ratio_lo": 0.99, "ratio_hi": 1.01}
        side = {"kind": "sides", "null": null, "build_us": {}, "plans": {"kv_tokens": 400, "kv_tokens_read": 100}}
        ranks = [
            {"attention_ms": 3.0, "plan_ms": 0.03, "collectives_ms": 1.0 + wait, "waits_ms": wait}
            for wait in (0.0, 0.25)
        ]
        profiled = {name: {"attention_ms": 3.0, "by_rank": ranks} for name in ("default", "trunkline")}
        two = {"tensor_parallel": 2, "step_ms": {"default": 16.0, "trunkline": 5.0}, "profile": profiled}
        decided = {"workload": "ranks", "kind": "ranks", "differ": {}, "mixed_decisions": 1200, "decided_apart": 3}
        text = self.page(GROUPS | side, GROUPS | side | two, COMMON | {"tensor_parallel": 2} | decided)
        self.assertIn("`trunkline` against `default`\n", text)
        self.assertIn("`trunkline` against `default`, tensor parallel 2\n", text)
        self.assertIn("| groups_64x16k | 1 | 3.000/3.000 | 0.030/0.030 | 1.250/1.250 | 0.250/0.250 |", text)
        self.assertIn("| groups_64x16k | `trunkline`, `default` | 2 | 1.58 | 1.58 |", text)
        self.assertIn("groups_64x16k 0.25.", text)
        self.assertIn("Tensor parallel 2: of 1,200 steps with prefill beside decode rows, ranks decided 3 diff", text)
        self.assertNotIn("Scaling", self.page(GROUPS | side | two))

    def test_what_shadow_mode_compared(self):
        row = {"kind": "shadow", "compared": 1.5e6, "beyond": 0.0, "most_so_far": 0.0078, "tolerance": 0.0156}
        text = self.page(COMMON | {"workload": "groups_16x2k", "requests": 16} | row)
        self.assertIn("| groups_16x2k | 16 | 1,500,000 | 0 |", text)
        self.assertIn("is 0.0078 of the vector's largest value, the tolerance 0.0156", text)

    def test_batches_that_were_not_whole_are_named(self):
        text = self.page(GROUPS | {"short_steps": 7}, unshared(0.99, 1.005) | {"short_steps": 0})
        self.assertIn("did not move all requests of their batch: groups_64x16k (7).", text)

    def test_failed_workloads_are_named(self):
        text = self.page(COMMON | {"workload": "deft_shots_20", "kind": "error", "error": "WorkerError: died\nmore"})
        self.assertIn("deft_shots_20: WorkerError: died\n", text)
        self.assertNotIn("more", text)

    def test_check_compares_the_page_with_the_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            results, page = pathlib.Path(folder), pathlib.Path(folder) / "page.md"
            (results / "vllm.jsonl").write_text("\n".join(json.dumps(row) for row in (START, CHECK, GROUPS)))
            with (
                unittest.mock.patch.object(vllm_report, "RESULTS", results),
                unittest.mock.patch.object(vllm_report, "PAGE", page),
                unittest.mock.patch.object(sys, "argv", ["vllm_report.py"]) as arguments,
            ):
                vllm_report.main()
                arguments.append("--check")
                vllm_report.main()
                page.write_text(page.read_text().replace("25.30", "99.00"))
                with self.assertRaisesRegex(SystemExit, "page.md"):
                    vllm_report.main()


class RatesPlotTest(unittest.TestCase):
    def row(self, workload, rounds, tpot):
        served = dict.fromkeys(vllm_rates_plot.METRICS, tpot)
        return {
            "kind": "http",
            "model": "llama3-8b",
            "workload": workload,
            "rounds": rounds,
            "served": {"default": served, "trunkline": served},
        }

    def test_rates_in_order_each_of_most_rounds(self):
        rows = [self.row("chat@16", 1, 9.0), self.row("chat@8", 1, 5.0), self.row("chat@16", 2, 7.0)]
        rows += [self.row("chat@16", 1, 8.0), self.row("alone@8", 1, 3.0), SERVED]
        found = vllm_rates_plot.content(rows)
        self.assertEqual(list(found), ["chat"])
        self.assertEqual(found["chat"]["p99_tpot_ms"]["trunkline"], [[8.0, 5.0], [16.0, 7.0]])


class CollectTest(unittest.TestCase):
    def file(self, *rows):
        with tempfile.TemporaryDirectory() as folder:
            results, given = pathlib.Path(folder) / "results", pathlib.Path(folder) / "vllm.jsonl"
            given.write_text("\n".join(json.dumps(row) for row in rows))
            with (
                unittest.mock.patch.object(collect, "RESULTS", results),
                unittest.mock.patch.object(sys, "argv", ["collect.py", str(given)]),
                unittest.mock.patch.object(collect, "trees_of", lambda commit: {"python_tree": f"tree of {commit}"}),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                collect.main()
            return [json.loads(line) for line in (results / "vllm.jsonl").read_text().splitlines()]

    def test_rows_get_their_trees(self):
        filed = self.file(START, CHECK, GROUPS)
        self.assertEqual(filed[2], GROUPS | {"python_tree": "tree of abc"})

    def test_what_is_not_sound_is_refused(self):
        for rows, why in (
            ([START, CHECK | {"passed": False}], "disagree"),
            ([START, GROUPS], "agree"),
            ([START, GROUPS | {"kind": "rollout"}], "agree"),
            ([COMMON | {"kind": "shadow", "workload": "groups_16x2k", "compared": 9.0, "beyond": 1.0}], "groups_16x2k"),
            ([COMMON | {"kind": "shadow", "workload": "unshared_8", "compared": 0.0, "beyond": 0.0}], "unshared_8"),
            ([START, CHECK, GROUPS | {"commit": "def"}], "2 commits"),
            ([row | {"commit": "abc-dirty"} for row in (START, CHECK, GROUPS)], "abc-dirty"),
        ):
            with self.assertRaisesRegex(SystemExit, why):
                self.file(*rows)

    def test_of_logs_is_kept_how_engines_ran_and_what_clients_saw(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "serve.log"
            lines = ["(EngineCore pid=9) INFO Using AttentionBackendEnum.CUSTOM backend.", "[transformers] Trunkline"]
            lines += [
                "INFO loading",
                "OSError: from /tmp/trunkline_vllm/x",
                "{'model': '/tmp/trunkline_vllm/served_model'}",
            ]
            lines += ["==== Serving Benchmark Result ====", f"Saved to {log.parent.resolve()}/x.json"]
            log.write_text("\n".join(lines))
            self.assertEqual(
                run_logs.text_of([log]),
                "== serve.log\nINFO Using AttentionBackendEnum.CUSTOM backend.\n{'model': 'SCRATCH'}\n"
                "==== Serving Benchmark Result ====\nSaved to OUT/x.json\n",
            )

    def test_what_others_lack_is_filed(self):
        other = CHECK | {"subject": "cascade", "passed": False}
        self.assertEqual(len(self.file(START, CHECK, other, GROUPS)), 4)

    def checks(self, *logs, commit="abc"):
        with tempfile.TemporaryDirectory() as folder:
            results, files = pathlib.Path(folder) / "results", []
            for i, log in enumerate(logs):
                files.append(pathlib.Path(folder) / f"{i}.log")
                files[-1].write_text(log)
            words = ["collect.py", "--checks", "--commit", commit, "--device", "NVIDIA H200", *map(str, files)]
            with (
                unittest.mock.patch.object(collect, "RESULTS", results),
                unittest.mock.patch.object(sys, "argv", words),
                unittest.mock.patch.object(collect, "trees_of", lambda commit: {"python_tree": f"tree of {commit}"}),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                collect.main()
                collect.main()
            return [json.loads(line) for line in (results / "checks/engine_check.jsonl").read_text().splitlines()]

    def test_checks_of_engines_are_kept_by_their_options(self):
        printed = {"runner": "V2", "heads": [32, 8], "speculative": "", "sleep": True, "requests": 7, "wrong": []}
        log = "INFO\n" + json.dumps(printed) + "\n"
        rows = self.checks(log, log.replace("V2", "V1"))
        self.assertEqual([row["runner"] for row in rows], ["V2", "V1"])
        self.assertEqual(rows[0]["command"], "tests/vllm/engine_check.py --runner V2 --heads 32 8 --sleep")
        self.assertEqual((rows[0]["python_tree"], rows[0]["device"]), ("tree of abc", "NVIDIA H200"))
        for log, why in (
            (json.dumps(printed | {"wrong": ["x differs"]}), "x differs"),
            ("Traceback", "it did not end"),
        ):
            with self.assertRaisesRegex(SystemExit, why):
                self.checks(log)
        with self.assertRaisesRegex(SystemExit, "commit"):
            self.checks(json.dumps(printed), commit="unknown")


if __name__ == "__main__":
    unittest.main()
