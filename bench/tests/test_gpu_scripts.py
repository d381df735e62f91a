"""The scripts around gpu_bench, on made-up output: no GPU, no binary."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import gpu_collect  # noqa: E402
import gpu_counters  # noqa: E402
import gpu_growth_plot  # noqa: E402
import gpu_pat_plot  # noqa: E402
import gpu_report  # noqa: E402
import gpu_rows  # noqa: E402
import gpu_turns  # noqa: E402
import source_trees  # noqa: E402
from gpu_made_rows import FORWARD, GROWTH, HEADER, MERGE, PLAN, measured, pair  # noqa: E402


class CountersTest(unittest.TestCase):
    def test_kernels_go_with_the_run_that_launched_them(self):
        kernels = gpu_counters.read_kernels(HEADER + FORWARD.format(0) + MERGE.format(1) + FORWARD.format(2))
        rows = gpu_counters.join([PLAN, {**PLAN, "method": "node"}], kernels)
        self.assertEqual([row["method"] for row in rows], ["default", "default", "node"])
        self.assertEqual(rows[0]["dram_read_bytes"], 4194304)
        self.assertEqual(rows[0]["l2_sm_bytes"], 131072 * 32)
        self.assertEqual(rows[1]["dram_write_bytes"], 512)
        self.assertEqual(rows[2]["kv_bytes_read"], 8388608)
        self.assertNotIn("items", rows[0])
        self.assertNotIn("kernels", rows[0])
        one_run = gpu_counters.join([{**PLAN, "kernels": "hopper"}], kernels[:2])
        self.assertEqual([row["kernels"] for row in one_run], ["hopper", "hopper"])

    def test_other_numbers_of_runs_are_refused(self):
        kernels = gpu_counters.read_kernels(HEADER + FORWARD.format(0))
        with self.assertRaisesRegex(SystemExit, "2 runs, but 1 forward"):
            gpu_counters.join([PLAN, PLAN], kernels)

    def test_other_units_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "Mbyte"):
            gpu_counters.read_kernels(HEADER.replace('"byte"', '"Mbyte"') + FORWARD.format(0))


class CounterScriptTest(unittest.TestCase):
    """scripts/gpu_counters.sh with programs that stand in for ncu and gpu_bench."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("bench/gpu_bench", f"echo '{json.dumps(PLAN)}'")

    def program(self, name, body):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)

    def count(self):
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", ROOT / "scripts/gpu_counters.sh", self.folder, self.folder / "out"],
            capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PATH": path},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, (self.folder / "out/counters.jsonl").read_text().splitlines()

    def test_rows_of_what_was_counted(self):
        (self.folder / "counted.csv").write_text(HEADER + FORWARD.format(0))
        self.program(
            "bin/ncu",
            f"""if [ "$1" = --import ]; then cat {self.folder}/counted.csv; exit; fi
echo "==PROF== Connected to process 7"
while [ "$1" != -o ]; do shift; done
touch "$2.ncu-rep"
"${{@:3}}" """,
        )
        _, rows = self.count()
        self.assertEqual([json.loads(row)["dram_read_bytes"] for row in rows], [4194304, 4194304])

    def test_says_so_where_counters_cannot_be_read(self):
        self.program("bin/ncu", 'echo "==ERROR== ERR_NVGPUCTRPERM: no permission"; exit 1')
        out, rows = self.count()
        self.assertEqual(rows, [])
        self.assertIn("policies: counters cannot be read here: skipped\n==ERROR== ERR_NVGPUCTRPERM", out)


class PlotTest(unittest.TestCase):
    def test_a_plot_of_other_rows_is_not_current(self):
        rows = [measured(recorded_us={"pat": 30.0})]
        with tempfile.TemporaryDirectory() as folder:
            plot = dataclasses.replace(gpu_pat_plot.PLOT, path=pathlib.Path(folder) / "plot.svg")
            self.assertFalse(plot.is_current(rows))
            plot.path.write_text(f"<svg>{plot.digest(rows)}</svg>")
            self.assertTrue(plot.is_current(rows))
            self.assertFalse(plot.is_current([measured(x_floor=2.5)]))

    def test_kernels_have_a_line_each(self):
        panel = gpu_pat_plot.content([measured(), measured(kernels="hopper", x_floor=1.5)])["panels"]["32/8"]
        self.assertEqual(panel, {"Trunkline, portable": [[0, 2.0]], "Trunkline, hopper": [[0, 1.5]]})

    def test_growth_has_a_curve_a_method_and_the_floor(self):
        self.assertEqual(
            gpu_growth_plot.content(GROWTH)["batch"],
            {
                "portable default": [[1, 20.0], [4, 30.0]],
                "portable flat": [[1, 40.0], [4, 90.0]],
                "floor": [[1, 10.0], [4, 11.0]],
            },
        )


class PageTest(unittest.TestCase):
    """The page of made-up rows."""

    def page(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, rows in files.items():
                run = {"gpu": "some GPU", "driver": "1", "sm_clock": "2", "memory_clock": "3", "page_order": "shuffled"}
                trees = {tree: "0123456789abcdef" for tree in source_trees.TREES}
                lines = [json.dumps({**run, **trees, **row}) for row in rows]
                (pathlib.Path(folder) / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
            with unittest.mock.patch.object(gpu_rows, "RESULTS", pathlib.Path(folder)):
                return gpu_report.page()

    def test_suites_have_sections_where_they_were_measured(self):
        ragged = pair(20.0, 40.0, suite="ragged", case="ragged#0")
        policies = [measured(suite="policies", method=name, policy=name) for name in ("auto", "flat")]
        text = self.page(pat=[measured()], ragged=ragged, growth=GROWTH, policies=policies)
        for part in ("## Random forests\n", "## Growth\n", "## Policies, ", "(growth.svg)", "ragged#0"):
            self.assertIn(part, text)
        alone = self.page(pat=[measured()])
        self.assertIn("`ragged`, `growth`, `policies`", alone)
        self.assertNotIn("## Random forests", alone)
        self.assertNotIn("growth.svg", alone)

    def test_both_kernels_of_a_file_have_a_table_each(self):
        text = self.page(ragged=pair(20.0, 40.0) + pair(10.0, 40.0, kernels="hopper"))
        self.assertIn("On Hopper's kernels (`wgmma`, compute capability 9.0) ran rows of `ragged`.", text)
        self.assertEqual(text.count("| over `flat` |"), 2)


class CollectTest(unittest.TestCase):
    def refusal(self, name, *rows):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            try:
                gpu_collect.checked_rows(path)
            except SystemExit as error:
                return str(error)
            return None

    def test_only_checked_rows_of_one_commit_are_kept(self):
        self.assertIsNone(self.refusal("pat.jsonl", measured(), measured(heads="64/8")))
        self.assertIsNone(self.refusal("growth.jsonl", *GROWTH))
        self.assertIn("wrong output in bad", self.refusal("pat.jsonl", measured(passed=False, case="bad")))
        self.assertIn("several commits", self.refusal("pat.jsonl", measured(), measured(commit="ba9876543210")))
        self.assertIn("of a commit only", self.refusal("pat.jsonl", measured(commit="0123456789ab-dirty")))

    def test_counters_need_no_check_of_their_own(self):
        self.assertIsNone(self.refusal("counters.jsonl", PLAN))
        self.assertIn("wrong output", self.refusal("pat.jsonl", PLAN))

    def test_rows_of_other_kernels_stay(self):
        filed = [measured(kernels="hopper", us=1.0), measured(kernels="portable", us=2.0)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "pat.jsonl"
            self.assertEqual(gpu_collect.rows_of_other_kernels(path, filed), [])
            path.write_text("".join(json.dumps(row) + "\n" for row in filed))
            for new, kept in ({"hopper"}, [filed[1]]), ({"hopper", "portable"}, []):
                rows = [measured(kernels=name) for name in new]
                self.assertEqual([json.loads(line) for line in gpu_collect.rows_of_other_kernels(path, rows)], kept)

    def test_plans_for_another_memory_are_rows_of_their_own(self):
        plain = measured(suite="plan_time", us=1.0)
        other = measured(suite="plan_time", us=2.0, memory_of="NVIDIA H200 SXM 141GB")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plan_time.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in (plain, other)))
            for new, kept in (plain, other), (other, plain):
                lines = gpu_collect.rows_of_other_kernels(path, [new])
                self.assertEqual([json.loads(line) for line in lines], [kept])
        command = gpu_collect.command_of_planning(plain)["command"]
        self.assertEqual(command, "BUILD/bench/plan_time > OUT/plan_time.jsonl")
        self.assertIn(" PROFILE >> ", gpu_collect.command_of_planning(other)["command"])

    def test_rows_are_filed_by_the_kind_of_gpu(self):
        for gpu, folder in {
            "NVIDIA H200": "h200",
            "NVIDIA H100 80GB HBM3": "h100",
            "NVIDIA A100-SXM4-80GB": "a100",
        }.items():
            self.assertEqual(gpu_collect.results_of(gpu).name, folder)
        with self.assertRaisesRegex(SystemExit, "the GPU is 'unknown'"):
            gpu_collect.results_of("unknown")

    def test_a_log_keeps_no_folder_of_the_machine(self):
        for line, kept in {
            "/home/a-1/repo/tests/cuda/steps_test.cpp:279: Skipped": "tests/cuda/steps_test.cpp:279: Skipped",
            "../../tests/cuda/steps_test.cpp:279: Skipped": "tests/cuda/steps_test.cpp:279: Skipped",
            "wrote /tmp/tmp.Xa12/graph.json": "wrote TMP/graph.json",
            "ratio 12/3 of tests/capi/run_test.cpp:7": "ratio 12/3 of tests/capi/run_test.cpp:7",
        }.items():
            self.assertEqual(gpu_collect.without_folders(line), kept)


class TurnsTest(unittest.TestCase):
    def rows(self, us, output_hash=7, case="a", passed=True):
        return [
            dict(
                case=case, heads="32/8", dtype="f16", page_size=16, policy="auto", page_order="consecutive", us=us,
                output_hash=output_hash, passed=passed, device="H",
            )
        ]  # fmt: skip

    def test_the_least_of_the_rounds_counts(self):
        old = gpu_turns.merge_rounds([self.rows(10.0), self.rows(12.0)])
        new = gpu_turns.merge_rounds([self.rows(13.0), self.rows(11.0)])
        found = gpu_turns.compare("flat", old, new)
        self.assertEqual((found["mean_ratio"], found["cases"], found["same_bits"]), (1.1, 1, 1))
        self.assertEqual(found["slowest"], {"ratio": 1.1, "case": "a", "heads": "32/8", "us": 11.0})

    def test_other_bits_and_failed_cases_show(self):
        old = gpu_turns.merge_rounds([self.rows(10.0) + self.rows(10.0, case="b")])
        new = gpu_turns.merge_rounds([self.rows(10.0, output_hash=8) + self.rows(9.0, case="b", passed=False)])
        found = gpu_turns.compare("flat", old, new)
        self.assertEqual((found["cases"], found["only_one"], found["same_bits"]), (1, 1, 0))

    def test_bits_that_differ_between_rounds_are_not_the_same(self):
        rounds = gpu_turns.merge_rounds([self.rows(10.0, output_hash=1), self.rows(10.0, output_hash=2)])
        self.assertEqual(gpu_turns.compare("flat", rounds, rounds)["same_bits"], 0)
        self.assertEqual(gpu_turns.compare("flat", {}, rounds), {"suite": "flat", "cases": 0})


if __name__ == "__main__":
    unittest.main()
