"""`trunkline plan` and `compare` through their real command lines. Environment as for program_case.py."""

import os
import re
import subprocess
import sys
import unittest

from program_case import DATA, PROGRAM, QUICK, TINY, ProgramTest, run


class PlanTest(ProgramTest):
    # Four requests: all share 32 tokens, A, B and C share 64 more, then A 10, B 26, C 0, D 48 tokens of their own.
    GOLDEN = '{"source":"golden","nodes":[[-1,32],[0,64],[1,10],[1,26],[0,48]],"requests":[2,3,1,4]}'

    def test_json_matches_the_worked_example(self):
        (row,) = self.rows("plan", self.file(self.GOLDEN), "--policy", "node", "--split", "none", *QUICK)
        forest = row["forest"]
        self.assertEqual(forest["total_tokens"], 106 + 122 + 96 + 80)
        self.assertEqual(forest["distinct_tokens"], 32 + 64 + 10 + 26 + 48)
        self.assertEqual(
            [(node["parent"], node["begin"], node["end"], sorted(node["requests"])) for node in forest["nodes"]],
            [(-1, 0, 32, [0, 1, 2, 3]), (0, 32, 96, [0, 1, 2]), (1, 96, 106, [0]), (1, 96, 122, [1]), (0, 32, 80, [3])],
        )
        policies = row["policies"]
        self.assertEqual(policies["flat"]["kv_tokens_read"], 404)
        self.assertEqual(policies["node"]["kv_tokens_read"], 180)
        self.assertEqual({p["kv_tokens_distinct"] for p in policies.values()}, {180})
        self.assertIn("items", row["plan"])

    def test_text_shows_forest_policies_and_items(self):
        out = self.succeed("plan", self.file(self.GOLDEN), "--policy", "node", *QUICK)
        for words in (
            "4 requests, 5 nodes, 404 KV tokens one at a time, 180 distinct",
            "  32 tokens [0, 32), 4 requests\n",
            "    64 tokens [32, 96), 3 requests, 1 of them ends here\n",
            "      10 tokens [96, 106), 1 request\n",
            "node *",
            "profit",
            "Items of `node`",
            "partials",
        ):
            self.assertIn(words, out)

    def test_long_output_is_cut_unless_all_is_asked_for(self):
        tree = ["--tree", "40/100", "--policy", "flat"]
        short = self.succeed("plan", *tree, *QUICK)
        self.assertIn("40 leaves of 100 to 100 tokens, 4,000 in all, 40 requests", short)
        rest = (
            "  ... and 28 more items that read 2,800 of the plan's 4,000 tokens, 0 with partials (--all shows them)\n"
        )
        self.assertTrue(short.endswith(rest), short)
        whole = self.succeed("plan", *tree, "--all", *QUICK)
        self.assertEqual(whole.count("100 tokens [0, 100)"), 40)
        self.assertEqual(whole.count("\n  item "), 40)
        self.assertNotIn("more", whole)

    def test_items_of_many_spans_are_short_unless_all_is_asked_for(self):
        gpu = ["--machine", DATA / "machines" / "h200-sxm.json"]
        batch = [DATA / "demo.jsonl", "--limit", 3, "--policy", "trunk", *gpu]
        short = self.succeed("plan", *batch).splitlines()
        items = [line for line in short if line.startswith("  item ")]
        self.assertEqual(len(items), 3 * 12)
        self.assertLessEqual(max(map(len, items)), 140)
        self.assertTrue(any(re.search(r", [0-9,]+ tokens: .* \+ \d+ more spans -> ", line) for line in items))
        # Tokens of the items, and of those that are summed up, are the tokens that the plan reads.
        whole = self.succeed("plan", *batch, "--all")
        self.assertNotIn(" more spans", whole)
        read = [int(text.replace(",", "")) for text in re.findall(r"^trunk \* +\d+ +([0-9,]+)", whole, re.MULTILINE)]
        items = re.findall(r"^  item \d+: .*?, ([0-9,]+) tokens?: ", whole, re.MULTILINE)
        self.assertEqual(sum(int(tokens.replace(",", "")) for tokens in items), sum(read))

    def test_shared_files_can_all_be_planned(self):
        for path in sorted((DATA / "decode_batches").glob("*.jsonl")):
            with self.subTest(path=path.name):
                rows = self.rows("plan", path, *QUICK)
                self.assertEqual(len(rows), 8)
                for row in rows:
                    chosen = row["plan"]["statistics"]["kv_tokens_read"]
                    self.assertLessEqual(chosen, row["forest"]["total_tokens"])
                    self.assertGreaterEqual(chosen, row["forest"]["distinct_tokens"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_output_that_cannot_be_written_is_an_error(self):
        for arguments in (["plan", *TINY, *QUICK], ["plan", *TINY, *QUICK, "--json"], ["--version"]):
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                done = subprocess.run(
                    [PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=240, check=False
                )
                self.assertEqual(done.returncode, 3)
                self.assertEqual(done.stderr, "trunkline: error: standard output cannot be written\n")


class CompareTest(ProgramTest):
    def test_json_has_every_policy_autos_regret_and_means(self):
        *rows, means = self.rows("compare", *TINY, "--tree", "8/100", "--page-size", 1, *QUICK)
        self.assertEqual([row["case"] for row in rows], ["1,2,6/40,33,7", "8/100"])
        for row in rows:
            predicted = {name: plan["predicted_us"] for name, plan in row["policies"].items()}
            self.assertLessEqual({"flat", "node", "profit", "trunk"}, set(predicted))
            self.assertEqual(row["auto"]["predicted_us"], predicted[row["auto"]["chosen"]])
            self.assertAlmostEqual(row["auto"]["regret"], row["auto"]["predicted_us"] / min(predicted.values()))
        flat = rows[0]["policies"]["flat"]
        self.assertEqual((flat["kv_tokens_read"], flat["kv_tokens_distinct"]), (480, 148))
        self.assertAlmostEqual(flat["x_distinct"], 480 / 148)
        self.assertEqual((means["suite"], means["batches"]), ("geometric mean", 2))
        self.assertAlmostEqual(means["policies"]["flat"]["x_distinct"], (480 / 148) ** 0.5)

    def test_policies_can_be_named(self):
        row, _ = self.rows("compare", *TINY, *QUICK, "--policy", "node,flat")
        self.assertEqual(list(row["policies"]), ["flat", "node"])

    def test_policies_that_the_tiles_cannot_serve_are_left_out(self):
        tall = ["--machine", DATA / "machines" / "h200-sxm.json", "--tile", "128x64"]
        row, _ = self.rows("compare", *TINY, *tall)
        self.assertIn("trunk", row["policies"])
        self.assertNotIn("invariant", row["policies"])
        code, out, err = run("compare", *TINY, *tall, "--policy", "invariant", "--json")
        self.assertEqual((code != 0, out), (True, ""))
        self.assertIn("policy invariant needs one that works as one", err)

    def test_table_is_for_people(self):
        text = self.succeed("compare", *TINY, *QUICK)
        for words in ("KV tokens read", "x distinct", "auto: ", "auto's regret", "Geometric means over 1 batch"):
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
