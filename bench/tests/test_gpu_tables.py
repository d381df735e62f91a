"""The tables of bench/results/h200/README.md, of made-up rows."""

import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import gpu_counters  # noqa: E402
import gpu_floors  # noqa: E402
import gpu_recorded  # noqa: E402
import gpu_report  # noqa: E402
import gpu_suite_tables  # noqa: E402
import gpu_tables  # noqa: E402
import source_trees  # noqa: E402
from gpu_made_rows import FORWARD, HEADER, MERGE, PLAN, measured, pair  # noqa: E402


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

    def test_what_is_recorded_of_a_papers_kernel(self):
        rows = [measured(recorded_us={"pat": 25.0}), measured(case="256/4096", recorded_us={"fa3": 15.0})]
        found = gpu_recorded.how_timed({"pat": rows}).replace("\n", " ")
        self.assertTrue(found.endswith("PAT's kernel has times for 1 of 2 trees; without one: `256/4096`."), found)
        self.assertNotIn("without one", gpu_recorded.how_timed({"pat": rows[:1]}))

    def test_a_method_is_set_beside_its_papers_kernel(self):
        rows = [
            measured(method="PAT", us=40.0, recorded_us={"pat": 20.0}),
            measured(method="PAT", us=160.0, recorded_us={"pat": 20.0}),
            measured(method="PAT", us=40.0, recorded_us={"fa3": 1.0}),
            measured(method="PAT-serial", us=40.0, recorded_us={"pat": 1.0}),
        ]
        found = gpu_recorded.methods_over_papers(rows).replace("\n", " ")
        self.assertIn("PAT here, on the portable kernels, takes 4.00 (2.00 to 8.00)", found)
        self.assertIn("over 2 trees. So these rows neither confirm", found)
        self.assertEqual(gpu_recorded.methods_over_papers(rows[2:]), "")

    def test_losses_name_the_cases(self):
        rows = [measured(recorded_us={"pat": 25.0, "fa3": 15.0}), measured(heads="64/8", recorded_us={"pat": 30.0})]
        found = gpu_tables.losses({"pat": [*rows, measured(case="not recorded")]})
        self.assertIn("in 1 of 2 cases: pat 1,10/4096,416 at 32/8, page 32 (0.75).", found)

    def test_summary_has_a_line_for_each_head_set(self):
        rows = [measured(x_floor=1.0), measured(x_floor=4.0, recorded_us={"pat": 30.0}), measured(heads="64/8")]
        found = cells(gpu_tables.summary({"pat": rows}))
        self.assertEqual(found[0], ["pat", "portable", "32/8", "2", "2.00", "1.00", "4.00"] + ["1.50"] * 6)
        self.assertEqual(found[1][:7], ["pat", "portable", "64/8", "1", "2.00", "2.00", "2.00"])

    def test_kernels_are_apart(self):
        rows = [measured(recorded_us={"pat": 15.0}), measured(kernels="hopper", x_floor=1.5, recorded_us={"pat": 25.0})]
        found = cells(gpu_tables.summary({"pat": rows}))
        self.assertEqual(
            [line[1:5] for line in found], [["portable", "32/8", "1", "2.00"], ["hopper", "32/8", "1", "1.50"]]
        )
        self.assertEqual([line[1] for line in cells(gpu_tables.host_times({"pat": rows}))], ["portable", "hopper"])
        losses = gpu_tables.losses({"pat": rows})
        self.assertIn("portable kernels, slower than the best recorded kernel in 1 of 1", losses)
        self.assertIn("hopper kernels, slower than the best recorded kernel in 0 of 1", losses)
        apart = gpu_tables.each_kernels(rows, gpu_tables.cases)
        self.assertIn("On Hopper's kernels (`wgmma`, compute capability 9.0):\n\n| case |", apart)
        self.assertNotIn("kernels", gpu_tables.each_kernels(rows[:1], gpu_tables.cases))
        # A method's time is set beside the default's by the same kernels alone.
        alone = gpu_tables.ablation([measured(method="serial", kernels="hopper")], [measured()])
        self.assertEqual(cells(alone)[0][2], "")

    def test_kernels_are_named(self):
        portable, hopper = measured(), measured(kernels="hopper")
        self.assertEqual(
            gpu_tables.which_kernels({"pat": [portable], "flat": [portable]}),
            "All rows ran on the portable kernels (`mma.sync`, compute capability 8.0 and later).",
        )
        self.assertEqual(
            gpu_tables.which_kernels({"pat": [portable, hopper], "flat": [hopper]}),
            "On the portable kernels (`mma.sync`, compute capability 8.0 and later) ran rows of `pat`. "
            "On Hopper's kernels (`wgmma`, compute capability 9.0) ran rows of `pat`, `flat`.",
        )

    def test_host_times_count_those_within_the_aim(self):
        rows = [measured(), measured(), measured(run_us=9.5, case="slow")]
        self.assertEqual(
            cells(gpu_tables.host_times({"pat": rows})),
            [["pat", "portable", "3", "13.0", "16.5", "7.0 + 9.5: slow, 8 items, default", "2"]],
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
        rows = [measured(kernels_tree="a", planner_tree="d", plan_tree="b", machine_tree="c")]
        present = {"kernels_tree": "a", "planner_tree": "x", "plan_tree": "b", "machine_tree": "c"}
        self.assertEqual(source_trees.changed_parts(rows, present), ["device planner"])


class FloorTest(unittest.TestCase):
    NAMED = {"read_bytes_per_us": 3.12e6, "flops_per_us": 790e6, "launch_us": 4.4}

    def test_rows_without_rates_have_an_h200s(self):
        self.assertEqual(gpu_floors.rates_of(measured()), gpu_floors.Rates(4.67e6, 790e6, 4.4))
        self.assertEqual(gpu_floors.rates_of(measured(**self.NAMED)), gpu_floors.Rates(3.12e6, 790e6, 4.4))

    def test_earlier_rows_are_counted_with_the_profiles_launch(self):
        earlier = gpu_floors.with_profile_floor(measured(us=20.0, floor_us=11.4, x_floor=20.0 / 11.4))
        self.assertAlmostEqual(earlier["floor_us"], 10.0)
        self.assertAlmostEqual(earlier["x_floor"], 2.0)
        named = measured(**self.NAMED)
        self.assertIs(gpu_floors.with_profile_floor(named), named)

    def test_a_rate_is_compared_with_the_rate_of_the_gpu_that_ran(self):
        found = cells(gpu_tables.equivalence([measured(tile="16x64", us=2.0, **self.NAMED)]))
        self.assertEqual(found[0][3:5], ["2.33", "74.8 %"])


class TestsLineTest(unittest.TestCase):
    def line(self, *output, **more):
        record = {"commit": "abcdef" * 3, "command": "scripts/gpu_bench.sh BUILD OUT tests", "output": output, **more}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tests.json"
            path.write_text(json.dumps(record))
            return gpu_report.tests_line(path)

    def test_what_passed(self):
        passed = "[  PASSED  ] 9 tests.", "========= ERROR SUMMARY: 0 errors"
        self.assertEqual(
            self.line(*passed), "Tests on commit abcdefabcdef: 9 tests passed; of 1 sanitizers, 1 found nothing."
        )

    def test_what_failed_is_said_with_what_is_known_of_it(self):
        for line, said in (
            ("gpu_test: trunkline run with fixed launches failed", "trunkline run with fixed launches failed"),
            ("gpu_test: memcheck failed with exit code 3", "memcheck failed with exit code 3"),
            ("[  FAILED  ] 2 tests, listed below:", "[  FAILED  ] 2 tests, listed below:"),
        ):
            self.assertTrue(self.line("[  PASSED  ] 9 tests.", line).endswith(f" **{said}**: not explained."), line)
        self.assertTrue(self.line("gpu_test: x failed", remark="mended").endswith("**x failed**: mended."))


class SuiteTableTest(unittest.TestCase):
    def test_cases_are_set_beside_flat_by_a_field(self):
        rows = pair(20.0, 40.0, case="ragged#0", x_floor=1.0) + pair(20.0, 10.0, case="ragged#1", x_floor=4.0)
        rows += pair(10.0, 20.0, case="ragged#2", heads="28/4") + [measured(case="without flat")]
        found = cells(gpu_suite_tables.over_floor_and_flat(rows, "heads"))
        self.assertEqual(found[0], ["32/8", "2", "2.00", "4.00: ragged#1", "1.00", "0.50", "2.00: ragged#1"])
        self.assertEqual([line[:2] for line in found], [["32/8", "2"], ["28/4", "1"], ["all", "3"]])
        each = cells(gpu_suite_tables.each_beside_flat(rows))
        self.assertEqual(each[0][:6], ["ragged#0", "32/8", "32", "7", "9", "5"])
        self.assertEqual(each[0][-2:], ["40.0", "0.50"])
        self.assertEqual(cells(gpu_suite_tables.over_floor_and_flat(rows[-1:], "heads")), [])

    def test_flat_is_of_the_same_kernels(self):
        rows = pair(20.0, 40.0) + pair(10.0, 30.0, kernels="hopper")
        self.assertEqual([row["over_flat"] for row in gpu_suite_tables.beside_flat(rows)], [0.5, 1 / 3])

    def test_regret_is_over_the_best_that_is_not_auto(self):
        def methods(case, chosen, auto, **times):
            fixed = [measured(case=case, method=name, policy=name, us=us) for name, us in times.items()]
            return [measured(case=case, method="auto", chosen=chosen, us=auto), *fixed]

        rows = methods("a", "node", 20.0, flat=40.0, node=20.0) + methods("b", "flat", 8.0, flat=8.0, node=2.0)
        rows.append(measured(case="b", method="trunk, 16 rows", policy="trunk", us=4.0))
        found = cells(gpu_suite_tables.regret(rows))
        self.assertEqual(found[0], ["auto", "2", "2.000", "4.00: b", "1", "", ""])
        self.assertEqual(found[1], ["flat", "2", "2.828", "4.00: b", "0", "0", "1"])
        self.assertEqual(found[2], ["node", "2", "1.000", "1.00: a", "2", "2", "1"])
        self.assertEqual(found[3], ["trunk, 16 rows", "1", "2.000", "2.00: b", "0", "0", ""])

    def test_the_cost_model_is_set_beside_measured_times(self):
        rows = [measured(predicted_us=10.0), measured(case="other", predicted_us=40.0), measured(heads="64/8")]
        rows.append(measured(kernels="hopper", method="flat"))
        found = cells(gpu_suite_tables.cost_model({"pat": rows}))
        self.assertEqual(found[0], ["pat", "portable", "32/8", "default", "2", "1.00", "0.50", "2.00"])
        self.assertEqual([line[1:5] for line in found[1:]], [
            ["portable", "64/8", "default", "1"], ["hopper", "32/8", "flat", "1"],
        ])  # fmt: skip


class KernelsComparedTest(unittest.TestCase):
    def test_cases_of_both_kernels_are_compared(self):
        rows = [
            measured(us=20.0),
            measured(us=10.0, kernels="hopper"),
            measured(us=9.0, kernels="hopper", case="alone"),
        ]
        ((suite, cases, mean, least, _, slower),) = cells(gpu_suite_tables.hopper_over_portable({"pat": rows}))
        self.assertEqual((suite, cases, mean, slower), ("pat", "1", "0.50", "0"))
        self.assertTrue(least.startswith("0.50: "))

    def test_idle_workers_have_a_median_and_the_most(self):
        rows = [measured(bubble_share=share, case=f"c{share}") for share in (0.1, 0.3, 0.2)]
        found = cells(gpu_suite_tables.idle_workers({"pat": rows}))
        self.assertEqual(found[0][2:4], ["3", "20 %"])
        self.assertTrue(found[0][4].startswith("30 %: c0.3"))

    def test_recorded_kernels_are_set_beside_ours_and_the_papers(self):
        rows = [measured(us=10.0, recorded_us={"pat": 20.0, "fa3": 60.0})]
        found = cells(gpu_recorded.each_recorded({"pat": rows}))
        self.assertEqual(found[0][1:4] + found[0][6:7], ["pat", "1", "2.00", ""])
        self.assertEqual(found[1][1:4] + found[1][6:7], ["fa3", "1", "6.00", "3.00"])


if __name__ == "__main__":
    unittest.main()
