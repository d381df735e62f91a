"""bench/runtime on a tiny model with drawn weights: its checks, its trees, its rows."""

import argparse
import importlib.util
import math
import pathlib
import sys
import unittest

try:
    import torch
    import transformers
    import trunkline
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench/runtime"))
import batches  # noqa: E402
import check_methods  # noqa: E402
import recorded  # noqa: E402
import rows  # noqa: E402
import searches  # noqa: E402
import tree_suites  # noqa: E402
from references import attention_error  # noqa: E402
from stepping import SteppedTree, WrongResult  # noqa: E402
from trunkline.integrations.transformers import TransformersModel  # noqa: E402


def tiny_model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=1100, hidden_size=256, num_attention_heads=4, num_key_value_heads=2, intermediate_size=256,
        num_hidden_layers=2, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config.pad_token_id = 0
    return TransformersModel(model)


def given(**changed):
    made = {
        "workers": trunkline.Workers(1), "profile": None, "methods": None, "timed": 2, "branches": [3], "prompt": 40,
        "steps": 6, "tasks": ["set"], "trees": 1, "draft_sizes": [32], "beams": [3], "samples": 4, "tree_nodes": 8,
        "search_prompt": 30, "new_tokens": 5, "repeat": 2, "tokenizer": None,
    }  # fmt: skip
    return argparse.Namespace(**(made | changed))


class Wrong(tree_suites.Policy):
    """Its output is off in one element."""

    added = 0.01

    def attend(self, *arguments):
        out = super().attend(*arguments)
        out[-1, 0, 0] += self.added
        return out


@unittest.skipUnless(importlib.util.find_spec("psutil"), "psutil is not installed")
class BatchesTest(unittest.TestCase):
    def test_samples_of_one_prompt_read_it_once(self):
        sizes = {"batch_prompt": 64, "batch_page": 16, "batch_tokens": 128, "batch_attention": None}
        found = {row["method"]: row for row in batches.batches(tiny_model(), given(repeat=1, new_tokens=2, **sizes))}
        self.assertEqual(list(found), list(batches.SIDES))
        ours = found["trunk"]
        self.assertLess(ours["kv_tokens_read"], ours["kv_tokens"] / 2)
        self.assertEqual(ours["engine_steps"], 0)
        self.assertGreater(ours["compared"], 0)
        self.assertEqual(ours["new_tokens"], [2, 8])


class MethodsTest(unittest.TestCase):
    model = tiny_model()

    def test_all_methods_give_the_log_probabilities_of_eager_attention(self):
        errors = check_methods.check(self.model, given(), list(tree_suites.NAMES))
        self.assertEqual(set(errors), set(tree_suites.NAMES))
        self.assertLess(max(errors.values()), 1e-4)

    def test_a_wrong_output_is_found(self):
        for added in (0.01, float("nan")):
            method = Wrong("trunk", self.model, 16, trunkline.Workers(1), None)
            method.added = added
            stepped = SteppedTree(self.model, [method], num_pages=8)
            step = stepped.begin([stepped.tree.add_root(range(20))])
            with self.assertRaisesRegex(WrongResult, "trunk, layer 0: differs from fp64"):
                stepped.measure(step, check=True)

    def test_the_reference_sees_no_other_branch(self):
        stepped = SteppedTree(self.model, [], num_pages=16)
        root = stepped.tree.add_root(range(20))
        stepped.begin([root])
        leaves = stepped.tree.fork(root, 2)
        for leaf in leaves:
            stepped.tree.append(leaf, [1])
        stepped.begin(leaves)
        for part in stepped.cache.layers[0]:
            part.flatten(0, 1)[stepped.tree.slots(leaves[0])[-1]] = float("nan")
        q = torch.ones(1, 4, 64)
        for leaf, sees in ((leaves[0], True), (leaves[1], False)):
            stepped.tree.append(leaf, [2])
            self.assertEqual(math.isnan(attention_error(stepped.begin([leaf]), 0, q, q)), sees)


class RecordedTest(unittest.TestCase):
    def test_a_search_is_walked_as_recorded_within_its_peak(self):
        (tree,) = recorded.reasoning_trees("keyword", 1)
        pages = -(-tree.peak_tokens(16) // 16)
        stepped = SteppedTree(tiny_model(), [], num_pages=pages)
        for iteration, leaves in recorded.replay(tree, stepped):
            running = [thought for thought in tree.thoughts[1:] if thought.first <= iteration <= thought.last]
            self.assertEqual(len(leaves), len(running))
            step = stepped.begin(leaves)
            self.assertEqual(len(step.given.tokens), len(running))
        self.assertEqual(stepped.tree.pages_in_use, 0)

    def test_draft_trees_have_a_path_for_each_accepted_count(self):
        for size in (32, 64, 128, 256):
            drafts = recorded.draft_tree(size)
            self.assertEqual(len(drafts.parents), size - 1)
            for accepted in set(recorded.accepted_counts()) - {1}:
                path = drafts.paths[accepted - 1]
                self.assertEqual([drafts.parents[draft] for draft in path], [-1, *path[:-1]])


class SuitesTest(unittest.TestCase):
    model = tiny_model()

    def rows_of(self, suite, **changed):
        options = given(**changed)
        return {row["method"]: row for row in {**tree_suites.SUITES, **searches.SUITES}[suite](self.model, options)}

    def test_few_shot_counts_a_copy_for_each_branch(self):
        found = self.rows_of("few_shot")
        self.assertEqual(list(found), tree_suites.DEFAULTS["few_shot"])
        token = searches.token_bytes(self.model)
        self.assertEqual(found["copies"]["kv_bytes"], 3 * 46 * token)
        self.assertEqual(found["trunk"]["kv_bytes"], (2 + 3) * 16 * token)  # the pages of the prompt, and a page each
        for row in found.values():
            self.assertEqual([step for step, *_ in row["by_step"]], [3, 6])
            self.assertLess(row["max_err"], 1e-4)
            self.assertGreater(row["whole_ms"], row["attention_ms"])
        self.assertIn("ratio", found["flat"]["attention_over_trunk"])
        self.assertNotIn("attention_over_trunk", found["trunk"])

    def test_reasoning_and_speculative_check_each_method(self):
        for suite in ("reasoning", "speculative"):
            found = self.rows_of(suite)
            self.assertEqual(list(found), tree_suites.DEFAULTS[suite])
            self.assertTrue(all(0 < row["max_err"] < 1e-4 for row in found.values()))

    def test_searches_are_those_of_generate(self):
        found = list(searches.searches(self.model, given()))
        cases = [(row["case"], row["method"]) for row in found]
        names = ("beams=3", "best of 4", "tree search of 8 nodes")
        self.assertEqual(cases, [(name, side) for name in names for side in searches.SIDES])
        self.assertEqual(found[0]["same_sequences"], 3)
        self.assertTrue(all(row["kv_bytes"] > 0 and row["seconds"] > 0 for row in found))


class RowsTest(unittest.TestCase):
    def test_the_interval_of_a_median(self):
        self.assertEqual(rows.median_with_interval([3.0, 1.0, 2.0]), (2.0, 1.0, 3.0))
        middle, low, high = rows.median_with_interval([float(value) for value in range(1, 22)])
        self.assertEqual((middle, low, high), (11.0, 6.0, 16.0))  # ranks 6 and 16 of 21


if __name__ == "__main__":
    unittest.main()
