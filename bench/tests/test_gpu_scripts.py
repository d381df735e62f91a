"""The scripts around gpu_bench, on made-up output: no GPU, no binary."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import gpu_collect  # noqa: E402
import gpu_counters  # noqa: E402
import gpu_plot  # noqa: E402
import gpu_rows  # noqa: E402
import gpu_tables  # noqa: E402

HEADER = (
    '"ID","Process ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","lts__t_bytes.sum",'
    '"lts__t_sectors_srcunit_tex.sum"\n"","","","byte","byte","byte","sector"\n'
)
FORWARD = '"{}","7","void forward_kernel<__half, 128>(ForwardArgs)","4,194,304","1,024","5,000,000","131,072"\n'
MERGE = '"{}","7","merge_kernel(MergeArgs)","2,048","512","4,096","64"\n'
PLAN = {
    "suite": "packs", "case": "1,10/4096,416", "heads": "32/8", "dtype": "f16", "page_size": 32, "method": "default",
    "policy": "auto", "chosen": "trunk", "kv_bytes_distinct": 4194304, "kv_bytes_read": 8388608, "qo_bytes": 163840,
    "partial_bytes": 0, "device": "some GPU", "commit": "0123456789ab", "items": 8,
}  # fmt: skip


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


def measured(**changes):
    return {
        "suite": "pat", "case": "1,10/4096,416", "heads": "32/8", "dtype": "f16", "page_size": 32, "method": "default",
        "policy": "auto", "chosen": "trunk", "mode": "persistent", "merge": "separate", "tile": "auto", "items": 8,
        "partials": 80, "max_err": 1e-4, "us": 20.0, "us_p10": 19.0, "us_p90": 21.0, "floor_us": 10.0, "x_floor": 2.0,
        "forward_us": 12.0, "bubble_share": 0.25, "resolve_us": 4.0, "upload_us": 7.0, "run_us": 6.0, "plan_us": 30.0,
        "predicted_us": 18.0,
        "kv_bytes_distinct": 4670000, "kv_bytes_read": 9340000, "qo_bytes": 0, "partial_bytes": 0, "passed": True,
        "commit": "0123456789ab", **changes,
    }  # fmt: skip


def cells(table):
    """The lines of a Markdown table below its header."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


class TableTest(unittest.TestCase):
    def test_ablation_compares_with_the_default_and_with_the_papers_method(self):
        rows = [measured(), measured(method="PAT", us=40.0), measured(method="PAT-serial", us=44.0)]
        found = cells(gpu_tables.ablation(rows, []))
        self.assertEqual(found[1][:5], ["PAT", "1", "2.000", "2.00 to 2.00", "1.000"])
        self.assertEqual(
            found[2], ["PAT-serial", "1", "2.200", "2.20 to 2.20", "1.100", "1.10 to 1.10", "+4.8 %", "25 %"]
        )

    def test_ablation_takes_the_default_of_another_file(self):
        rows = [measured(method=None, mode="serial", us=30.0), measured(method=None, mode="serial", case="other")]
        found = cells(gpu_tables.ablation(rows, [measured()]))
        self.assertEqual(found, [["serial, auto, tile auto", "2", "1.500", "1.50 to 1.50", "", "", "", "25 %"]])

    def test_losses_name_the_cases(self):
        rows = [measured(recorded_us={"pat": 25.0, "fa3": 15.0}), measured(heads="64/8", recorded_us={"pat": 30.0})]
        found = gpu_tables.losses({"pat": [*rows, measured(case="not recorded")]})
        self.assertIn("in 1 of 2 cases: pat 1,10/4096,416 at 32/8, page 32 (0.75).", found)

    def test_summary_has_a_line_for_each_head_set(self):
        rows = [measured(x_floor=1.0), measured(x_floor=4.0, recorded_us={"pat": 30.0}), measured(heads="64/8")]
        found = cells(gpu_tables.summary({"pat": rows}))
        self.assertEqual(found[0], ["pat", "32/8", "2", "2.00", "1.00", "4.00"] + ["1.50"] * 6)
        self.assertEqual(found[1][:6], ["pat", "64/8", "1", "2.00", "2.00", "2.00"])

    def test_host_times_count_those_within_the_aim(self):
        rows = [measured(), measured(), measured(run_us=9.5, case="slow")]
        self.assertEqual(
            cells(gpu_tables.host_times({"pat": rows})),
            [["pat", "3", "13.0", "16.5", "7.0 + 9.5: slow, 8 items, default", "2"]],
        )
        old = measured()
        del old["run_us"]
        self.assertEqual(gpu_tables.host_times({"pat": [old]}), "")

    def test_merges_set_cases_with_partials_apart(self):
        pair = [measured(method="separate"), measured(method="fused", us=10.0)]
        alone = [measured(method=name, case="direct", partials=0) for name in ("separate", "fused")]
        self.assertEqual(
            cells(gpu_tables.merges(pair + alone)),
            [["32/8", "2", "0.707", "0.50 to 1.00", "1", "0.500", "0.50 to 0.50"]],
        )

    def test_equivalence_has_the_rate_and_the_spread(self):
        rows = [measured(tile="16x64", us=1.25), measured(tile="64x64", us=2.0)]
        self.assertEqual(
            cells(gpu_tables.equivalence(rows)),
            [
                ["1,10/4096,416", "16x64", "1", "3.74", "80.0 %", ""],
                ["1,10/4096,416", "64x64", "2", "2.33", "50.0 %", "60.0 %"],
            ],
        )

    def test_pages_compare_with_the_largest(self):
        rows = [measured(page_size=1, us=30.0), measured(page_size=256)]
        self.assertEqual([row[4] for row in cells(gpu_tables.pages(rows))], ["1.500", "1.000"])

    def test_bf16_is_compared_with_f16(self):
        found = cells(gpu_tables.half_types([measured(dtype="bf16", us=22.0), measured(case="other")], [measured()]))
        self.assertEqual(found, [["pat", "2", "1.100", "1.10 to 1.10", "1e-04"]])

    def test_counters_are_summed_over_the_kernels_of_a_run(self):
        kernels = gpu_counters.read_kernels(HEADER + FORWARD.format(0) + MERGE.format(1) + FORWARD.format(2))
        rows = gpu_counters.join([{**PLAN, "method": "node"}, {**PLAN, "method": "profit"}], kernels)
        node, profit = cells(gpu_tables.counted_policies(rows))
        self.assertEqual((node[0], profit[0], profit[2]), ("node", "profit", "1.000"))
        self.assertAlmostEqual(float(node[2]), (4194304 + 1024 + 2048 + 512) / (4194304 + 1024), 3)
        self.assertEqual(cells(gpu_tables.counted_cases(rows)), [])
        one = gpu_counters.join([{**PLAN, "suite": "flat"}], kernels[:2])
        self.assertEqual(cells(gpu_tables.counted_cases(one))[0][7], "4.2")

    def test_changed_sources_are_named(self):
        rows = [measured(cuda_tree="a", plan_tree="b", machine_tree="c")]
        present = {"cuda_tree": "a", "plan_tree": "x", "machine_tree": "c"}
        self.assertEqual(gpu_rows.changed_sources(rows, present), ["src/plan"])


class PlotTest(unittest.TestCase):
    def test_a_plot_of_other_rows_is_not_current(self):
        rows = [measured(recorded_us={"pat": 30.0})]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plot.svg"
            self.assertFalse(gpu_plot.is_current(rows, path))
            path.write_text(f"<svg>{gpu_plot.digest(rows)}</svg>")
            self.assertTrue(gpu_plot.is_current(rows, path))
            self.assertFalse(gpu_plot.is_current([measured(x_floor=2.5)], path))


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
        self.assertIn("wrong output in bad", self.refusal("pat.jsonl", measured(passed=False, case="bad")))
        self.assertIn("several commits", self.refusal("pat.jsonl", measured(), measured(commit="ba9876543210")))
        self.assertIn("of a commit only", self.refusal("pat.jsonl", measured(commit="0123456789ab-dirty")))

    def test_counters_need_no_check_of_their_own(self):
        self.assertIsNone(self.refusal("counters.jsonl", PLAN))
        self.assertIn("wrong output", self.refusal("pat.jsonl", PLAN))


if __name__ == "__main__":
    unittest.main()
