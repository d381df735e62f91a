"""Tests of the tables and the plot of rollouts and of the crossover, on made-up rows."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vllm"), str(HERE.parent), str(HERE)]
import vllm_crossover_plot  # noqa: E402
import vllm_report  # noqa: E402
import vllm_rollout_tables  # noqa: E402
from test_vllm_report import CHECK, COMMON, GROUPS, PAIR, START  # noqa: E402


def rollout_row(**more):
    means = {
        "seconds": 8.0,
        "prefill_s": 1.0,
        "decode_s": 6.5,
        "half_done_s": 2.5,
        "tokens_per_s": 2400.0,
        "sleep_s": 0.5,
    }
    found = {"ratio": 1.5, "ratio_lo": 1.4, "ratio_hi": 1.6, "pairs": 4, "over": "rounds"}
    row = {
        "workload": "rollout_8x8x4k", "kind": "rollout", "requests": 64, "rounds": 4, **found, "sleep_level": 2,
        "about": "8 prompts of 4,096 tokens, 8 samples each; log-normal answers", "ratios": {"seconds": found},
        "means": {"default": means, "trunkline": means | {"seconds": 5.25, "sleep_s": 0.75}},
        "failures": {"default": 0, "trunkline": 0},
        "by_live": {"33-64": {"step_ms": {"default": 9.0, "trunkline": 6.0}, **found}},
    }  # fmt: skip
    return COMMON | PAIR | row | more


class RolloutTest(unittest.TestCase):
    def page(self, *rows):
        return vllm_report.page({"vllm_rollout": [START, CHECK, *rows]})

    def test_rollouts_have_their_parts_and_their_steps(self):
        text = self.page(rollout_row())
        self.assertIn("### Rollouts inside one engine, `trunkline` against `default`", text)
        line = (
            "| 8x8x4k | 4 | 8.00/5.25 | 1.500 (1.400 to 1.600) | 1.00/1.00 | 6.50/6.50 | - | 2.50/2.50 | 2,400/2,400 |"
        )
        self.assertIn(line, text)
        self.assertIn("sleep of level 2: sleep 0.50 to 0.75.", text)
        self.assertIn("| 8x8x4k | 9.00/6.00: 1.500 (1.400 to 1.600) |", text)
        self.assertIn("The baseline's steps are shorter in: none.", text)
        self.assertIn("No rollout as a whole has the baseline faster.", text)
        self.assertIn("All requests arrive at once; log-normal answers.", text)

    def test_sides_are_compared_apart_and_losses_named(self):
        means = rollout_row()["means"]["default"]
        behind = {"baseline": "rival", "ratio": 0.9, "ratio_lo": 0.85, "ratio_hi": 0.95, "by_live": {}}
        row = rollout_row(**behind, means={"rival": means, "trunkline": means})
        text = self.page(rollout_row(), row)
        self.assertIn("`trunkline` against `rival`", text)
        self.assertIn("The baseline is faster in 1 of 1 rows: rollout_8x8x4k (0.900 (0.850 to 0.950)).", text)

    def test_slower_steps_are_named_though_no_rollout_is_slower(self):
        steps = {"default": 6.0, "trunkline": 6.5}
        one = {"step_ms": steps, "ratio": 0.923, "ratio_lo": None, "ratio_hi": None, "pairs": 1}
        several = {"step_ms": steps, "ratio": 0.91, "ratio_lo": 0.8, "ratio_hi": 1.04, "pairs": 4}
        text = self.page(rollout_row(by_live={"1": one, "5-8": several}))
        told = "8x8x4k with 5-8 live (0.910 (0.800 to 1.040)), 8x8x4k with 1 live (0.923 (one pair))."
        self.assertIn(told, " ".join(text.split()))
        self.assertIn("No rollout as a whole has the baseline faster.", text)

    def test_no_sound_round_has_no_numbers(self):
        text = self.page(rollout_row(ratio=None, pairs=0, failures={"default": 3, "trunkline": 0}))
        self.assertIn("No round without failed requests.", text)

    def test_kernels_of_a_step(self):
        profile = {"attention_ms": 2.0, "plan_ms": 0.0, "kv_write_ms": 0.1, "sampling_ms": 0.25, "other_ms": 5.0}
        row = COMMON | {"workload": "rollout_8x8x4k", "kind": "rollout_profile", "profile": {"default": profile}}
        self.assertIn("| 8x8x4k | default | 2.000 | 0.000 | 0.100 | 0.250 | 5.000 |", self.page(row))


def crossover_row(samples, length, low, model="llama3-8b"):
    found = {"ratio": low + 0.01, "ratio_lo": low, "ratio_hi": low + 0.02, "null": None, "build_us": {}}
    return GROUPS | {"workload": f"crossover_4x{samples}x{length}", "kind": "sides", "model": model} | found


class CrossoverTest(unittest.TestCase):
    ROWS = (
        crossover_row(8, "256", 1.06), crossover_row(8, "1k", 1.01), crossover_row(8, "4k", 1.12),
        crossover_row(8, "16k", 2.1), crossover_row(1, "16k", 0.99),
    )  # fmt: skip

    def test_a_gain_counts_where_all_longer_prompts_have_it(self):
        text = vllm_report.page({"vllm_crossover": [START, CHECK, *self.ROWS]})
        # At 256 tokens 5.7 % are saved, but at 1,024 less than 2 %.
        self.assertIn("| 4 | 8 | 4,096 | 4,096 | 4,096 | 16,384 |", text)
        self.assertIn("| 4 | 1 | - | - | - | - |", text)
        self.assertIn("(crossover.svg)", text)

    def test_curves_by_model_and_samples(self):
        found = vllm_crossover_plot.content([*self.ROWS, crossover_row(8, "256", 1.25, "qwen3-8b"), GROUPS, START])
        self.assertEqual(list(found), ["llama3-8b, 4 prompts", "qwen3-8b, 4 prompts"])
        self.assertEqual(list(found["llama3-8b, 4 prompts"]), ["1", "8"])
        lengths = [point[0] for point in found["llama3-8b, 4 prompts"]["8"]]
        self.assertEqual(lengths, [256, 1024, 4096, 16384])
        self.assertEqual(found["qwen3-8b, 4 prompts"]["8"], [[256, 20.63, 20.0, 21.26]])
        self.assertEqual(vllm_crossover_plot.content([GROUPS, START]), {})

    def test_gain_is_of_the_baselines_step(self):
        self.assertEqual(vllm_rollout_tables.gain(2.0), 50.0)

    def test_the_plot_can_be_drawn(self):
        try:
            import matplotlib
        except ImportError:
            self.skipTest("no matplotlib")
        matplotlib.use("svg")
        figure = vllm_crossover_plot.figure(vllm_crossover_plot.content(list(self.ROWS)))
        self.assertEqual(len(figure.axes), 1)


if __name__ == "__main__":
    unittest.main()
