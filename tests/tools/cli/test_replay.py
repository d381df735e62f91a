"""`trunkline replay` through its real command line. Environment as for program_case.py."""

import json
import os
import pathlib
import re
import unittest

from program_case import DATA, ProgramTest, run

TRACES = DATA / "traces"
MOONCAKE = TRACES / "mooncake_toolagent.jsonl"
H200 = ["--machine", DATA / "machines" / "h200-sxm.json"]
CPU = ["--machine", "generic", "--threads", "2"]
SMALL = ["--heads", "4/2", "--head-dim", "64"]


class ReplayCase(ProgramTest):
    def replay(self, trace, *arguments):
        """Steps and the summary that --json writes, and what is printed."""
        path = pathlib.Path(self.folder.name) / "steps.jsonl"
        out = self.succeed("replay", trace, "--json", path, *arguments)
        *steps, summary = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual(summary["kind"], "summary")
        self.assertEqual({step["kind"] for step in steps}, {"step"})
        return steps, summary, out


class ReplayTest(ReplayCase):
    def check_sums(self, steps, summary):
        self.assertEqual(summary["steps"], len(steps))
        self.assertEqual([step["step"] for step in steps], list(range(1, len(steps) + 1)))
        for name in ("requests", "kv_tokens_total", "kv_tokens_distinct"):
            self.assertEqual(summary[name], sum(step[name] for step in steps), name)
        for source, count in summary["plans"].items():
            self.assertEqual(count, sum(step["plan"] == source for step in steps), source)
        for event, count in summary["events"].items():
            self.assertEqual(count, sum(step["events"][event] for step in steps), event)
        times = [step["time_s"] for step in steps]
        self.assertEqual(times, sorted(times))

    def test_every_format_is_replayed_and_its_plans_are_right(self):
        for name, form, *more in (
            ("mooncake_toolagent.jsonl", "mooncake"),
            ("mooncake_conversation.jsonl", "mooncake", "--limit", 20),
            ("azure_code.csv", "azure"),
            ("weka_sessions.jsonl", "weka", "--page-size", 64, "--pool", 20000, "--steps", 2000),
            ("lmcache_magagent.jsonl", "lmcache", "--limit", 2, "--steps", 2000),
            ("../reasoning/docmerge.jsonl", "reasoning", "--limit", 2, "--steps", 3000),
        ):
            with self.subTest(trace=name):
                steps, summary, out = self.replay(TRACES / name, "--check", "--price-every", 64, *H200, *more)
                self.check_sums(steps, summary)
                self.assertEqual(summary["format"], form)
                self.assertEqual(
                    self.replay(TRACES / name, "--format", form, "--steps", 5, *H200, *more[:2])[1]["steps"], 5
                )
                self.assertIn("decode steps", out)
                self.assertIn("of the steps kept theirs", out)

    def test_priced_steps_have_every_policy_and_flat_reads_all(self):
        steps, summary, _ = self.replay(MOONCAKE, "--limit", 30, *H200)
        priced = [step for step in steps if "policies" in step]
        self.assertGreater(len(priced), 10)
        token_bytes = 2 * 8 * 128 * 2
        for step in priced:
            prices = step["policies"]
            self.assertEqual(prices["flat"]["kv_bytes"], step["kv_tokens_total"] * token_bytes)
            self.assertGreaterEqual(prices["node"]["kv_bytes"], step["kv_tokens_distinct"] * token_bytes)
        self.assertEqual(set(summary["policies"]), set(priced[0]["policies"]))
        steps, summary, _ = self.replay(MOONCAKE, "--limit", 5, "--policies", "flat,node", *H200)
        self.assertEqual(list(summary["policies"]), ["flat", "node"])

    def test_pat_style_shares_more(self):
        faithful = self.replay(MOONCAKE, *H200)[1]
        styled = self.replay(MOONCAKE, "--pat-style", *H200)[1]
        self.assertGreater(styled["sharing"], 1.5 * faithful["sharing"])
        self.assertEqual(styled["setting"]["rate"], 8)
        self.assertEqual(styled["output_tokens"], 256 * styled["admitted"])
        kept = self.replay(MOONCAKE, "--pat-style", "--pat-keep-root-zero", "--pat-max-tokens", 32000, *H200)[1]
        self.assertGreater(kept["admitted"], styled["admitted"])

    def test_arrivals_and_step_time_are_given(self):
        azure = TRACES / "azure_code.csv"
        plain = self.replay(azure, "--step-us", 10000, *H200)[1]
        self.assertAlmostEqual(self.replay(azure, "--step-us", 10000, *H200)[1]["seconds"], plain["seconds"])
        slower = self.replay(azure, "--step-us", 10000, "--time-scale", 3, *H200)[1]
        self.assertGreater(slower["seconds"], 2 * plain["seconds"])
        together = self.replay(azure, "--step-us", 10000, "--sessions", 50, *H200)[1]
        self.assertGreater(together["requests"] / together["steps"], plain["requests"] / plain["steps"])

    def test_drafts_are_truncated(self):
        _, summary, _ = self.replay(TRACES / "azure_code.csv", "--limit", 20, "--drafts", 3, "--check", *H200)
        self.assertGreater(summary["events"]["truncations"], 10)

    def test_planners(self):
        for planner in ("async", "sync"):
            with self.subTest(planner=planner):
                _, summary, _ = self.replay(MOONCAKE, "--limit", 40, "--planner", planner, *H200)
                self.assertEqual(summary["hidden_us"]["max"] > 0, planner == "async")
                self.assertGreater(summary["exposed_us"]["max"], 0)
        _, summary, _ = self.replay(MOONCAKE, "--limit", 40, "--planner", "sync", "--edit-share", 0.3, "--check", *H200)
        self.assertGreater(summary["plans"]["edited"], 0)

    def test_executed_steps_are_right(self):
        tree = DATA / "reasoning" / "docmerge.jsonl"
        arguments = ["--limit", 1, "--steps", 1000, "--execute", 240, "--pool", 2000, "--policies", "node,flatten"]
        steps, summary, out = self.replay(tree, *arguments, "--repeat", 1, *CPU, *SMALL)
        executed = [step["executed"] for step in steps if "executed" in step]
        self.assertEqual(len(executed), 4)
        for run_step in executed:
            self.assertTrue(run_step["passed"])
            self.assertLessEqual(run_step["max_err"], 1e-4)
            self.assertEqual(set(run_step["us_by"]), {"node", "flatten"})
        self.assertEqual((summary["executed_steps"], summary["wrong_steps"]), (4, 0))
        self.assertIn("4 of 4 executed steps are right", out)
        steps, _, _ = self.replay(MOONCAKE, "--limit", 4, "--execute", 100, "--drafts", 2, *CPU, *SMALL)
        self.assertTrue(any("executed" in step for step in steps))

    def test_a_progress_bar_is_for_terminals(self):
        self.assertNotIn("\r", self.replay(MOONCAKE, *H200)[2])


class ReplicasTest(ProgramTest):
    def test_lines_of_replicas_add_up(self):
        path = pathlib.Path(self.folder.name) / "replicas.jsonl"
        for routing in ("round_robin", "least_loaded", "prefix", "sibling"):
            words = ("--limit", 5, "--samples", 2, "--replicas", 3, "--routing", routing, "--json", path)
            out = self.succeed("replay", MOONCAKE, *words, *H200)
            *replicas, whole = [json.loads(line) for line in path.read_text().splitlines()]
            self.assertEqual([row["kind"] for row in replicas] + [whole["kind"]], ["replica"] * 3 + ["cluster"])
            self.assertEqual(whole["admitted"], 3 * 5 * 2)  # as many copies as replicas
            for name in ("admitted", "prompt_tokens", "cached_tokens", "output_tokens", "steps", "kv_tokens_total"):
                self.assertEqual(whole[name], sum(row[name] for row in replicas), name)
            self.assertIn(f"routed by {routing}", out)

    def test_options(self):
        for words, message in (
            (("--replicas", "1001"), "--replicas"),
            (("--routing", "prefix"), "--replicas"),
            (("--replicas", "2", "--routing", "random"), "round_robin, least_loaded, prefix, sibling"),
            (("--replicas", "2", "--html", "page.html"), "--html"),
            (("--replicas", "2", "--common-share", "0"), "--common-share is 0"),
        ):
            code, out, err = run("replay", MOONCAKE, *words, *H200)
            self.assertEqual((code, out), (2, ""), err)
            self.assertIn(message, err)


class ReplayBadInputTest(ReplayCase):
    def refused(self, arguments, *words):
        code, out, err = run("replay", *arguments)
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith("trunkline: error: "), err)
        for word in words:
            self.assertIn(str(word), err)

    def test_options(self):
        for option, value, *words in (
            ("--format", "burst", "--format", "burst", "mooncake", "azure", "weka", "lmcache", "reasoning"),
            ("--rate", "0", "--rate"),
            ("--time-scale", "-1", "--time-scale", "-1"),
            ("--sessions", "0", "--sessions"),
            ("--batch", "0", "--batch", "0"),
            ("--token-budget", "16", "--token-budget", "16", "256"),
            ("--pool", "0", "num_pages", "0"),
            ("--drafts", "-1", "--drafts"),
            ("--accept", "2", "--accept", "2"),
            ("--layers", "0", "--layers", "0"),
            ("--rest-us", "-1", "--rest-us"),
            ("--step-us", "0", "--step-us", "0"),
            ("--price-every", "0", "--price-every"),
            ("--planner", "late", "--planner", "async", "sync"),
            ("--policies", "best", "best", "flat"),
            ("--growth-limit", "0.5", "growth_limit", "0.5"),
            ("--execute", "0", "--execute"),
            ("--repeat", "3", "--repeat", "--execute"),
            ("--pat-max-tokens", "100", "--pat-style"),
            ("--limit", "0", "--limit"),
            ("--heads", "8/3", "8", "3"),
        ):
            with self.subTest(option=option):
                self.refused([MOONCAKE, *H200, option, value], *words)
        self.refused([], "TRACE")
        self.refused([MOONCAKE, "--execute", 4, *H200], "cuda")
        self.refused([MOONCAKE, "--execute", 4, "--pool", 2000000000, *CPU], "--execute needs", "--pool")
        self.refused([TRACES / "azure_code.csv", "--pat-style", *H200], "--pat-style", "azure")
        self.refused([DATA / "reasoning" / "docmerge.jsonl", "--drafts", 2, *H200], "--drafts", "searches")

    def test_traces(self):
        lines = MOONCAKE.read_text().splitlines()
        swapped = self.file("\n".join([lines[0], lines[60], lines[1]]), "swapped.jsonl")
        self.refused([swapped, *H200], "swapped.jsonl:3", "timestamp", "comes ahead of it")
        self.refused([self.file("what?\n"), *H200], "input.jsonl:1", "no known trace format")
        self.refused([MOONCAKE, "--format", "reasoning", *H200], "mooncake_toolagent.jsonl:1", "nodes")
        self.refused(["none.jsonl", *H200], "none.jsonl")
        self.refused([self.folder.name, *H200], "is a directory")

    def test_outputs_are_opened_before_the_work(self):
        nowhere = pathlib.Path(self.folder.name) / "none" / "out"
        for option in ("--json", "--html"):
            for path in (nowhere, self.folder.name):
                self.refused([MOONCAKE, *H200, option, path], f"{option} {path}: cannot be written")
        if os.path.exists("/dev/full"):
            self.refused([MOONCAKE, "--limit", 3, *H200, "--html", "/dev/full"], "--html /dev/full: cannot be written")

    def test_help_names_the_formats(self):
        self.assertTrue(re.search(r"mooncake,\s+azure,\s+weka", self.succeed("replay", "--help")))


if __name__ == "__main__":
    unittest.main()
