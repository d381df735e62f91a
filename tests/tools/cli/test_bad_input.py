"""Options and files that the program refuses. Environment as for program_case.py."""

import json
import sys
import unittest

from program_case import DATA, TINY, ProgramTest, run


class BadInputTest(ProgramTest):
    def refused(self, arguments, *words):
        code, out, err = run(*arguments)
        self.assertEqual(code, 2, err)
        self.assertEqual(out, "")
        self.assertTrue(err.startswith("trunkline: error: "), err)
        self.assertEqual(err.count("\n"), 1, err)
        for word in words:
            self.assertIn(word, err)

    def test_options(self):
        for option, value, *words in (
            ("--heads", "32", "--heads", "32/8"),
            ("--heads", "0/0", "--heads"),
            ("--heads", "-4/2", "--heads"),
            ("--heads", "8/3", "8", "3"),
            ("--heads", "130/2", "65"),
            ("--head-dim", "80", "80", "64", "128", "256"),
            ("--head-dim", "many", "--head-dim"),
            ("--dtype", "f8", "--dtype", "f8", "bf16"),
            ("--kv-dtype", "f8", "--kv-dtype", "f8", "f8_e4m3"),
            ("--window-left", "-2", "--window-left"),
            ("--soft-cap", "-1", "--soft-cap"),
            ("--page-size", "0", "page_size", "0"),
            ("--page-size", "-16", "-16"),
            ("--page-size", "99999999999", "--page-size"),
            ("--head-dim", str(2**32 + 64), "--head-dim"),
            ("--policy", "best", "best", "flat", "profit"),
            ("--split", "half", "split", "half", "balance"),
            ("--layout", "abc", "--layout", "nhd"),
            ("--device", "tpu", "--device", "cpu", "cuda:N"),
            ("--device", "cuda:-1", "--device", "cuda:-1"),
            ("--mode", "late", "--mode", "persistent", "streams", "serial", "fixed"),
            ("--merge", "late", "--merge", "fused", "separate"),
            ("--threads", "0", "--threads"),
            ("--threads", "-1", "--threads"),
            ("--repeat", "0", "--repeat"),
            ("--seed", "-1", "--seed"),
            ("--limit", "0", "--limit"),
            ("--machine", "mine", "--machine"),
        ):
            with self.subTest(option=option, value=value):
                self.refused(["run", *TINY, f"{option}={value}"], *words)

    def test_profiles(self):
        good = json.loads((DATA / "machines" / "generic-cpu.json").read_text())
        for change, *words in (
            (lambda p: p.pop("launch_us"), 'field "launch_us" is missing'),
            (lambda p: p["item_us"].update(value=-1), "item_us is -1; it must be >= 0"),
            (lambda p: p["workers"].update(value=0.5), "workers is 0.5; an integer is needed"),
            (lambda p: p["workers"].pop("source"), 'field "workers.source" is missing'),
            (lambda p: p.update(speed=1), 'field "speed" is unknown'),
        ):
            profile = json.loads(json.dumps(good))
            change(profile)
            path = self.file(json.dumps(profile), "bad.json")
            with self.subTest(words=words):
                self.refused(["plan", *TINY, "--machine", path], f"{path}: ", *words)
                self.refused(["tune", "--tiles", path], f"{path}: ", *words)
        self.refused(["plan", *TINY, "--machine", self.file("{", "cut.json")], "cut.json: not JSON at column")
        self.refused(["plan", *TINY, "--machine", "no/such.json"], "no/such.json: cannot be opened")
        self.refused(["tune", "--tiles", DATA / "machines" / "generic-cpu.json"], "profile.gpu.sms is 0")
        self.refused(["tune", "--out", "/no/such/folder/x.json"], "--out /no/such/folder/x.json: cannot be opened")
        self.refused(["tune", "--out", "x.json", "--tiles", "y.json"], "--out excludes --tiles")

    def test_drafts(self):
        self.refused(["run", *TINY, "--draft", "trees.json"], '--draft is "trees.json"; a file of draft trees, a colon')
        trees = self.file('{"t": [[0], [1, 0]]}', "trees.json")
        self.refused(["plan", *TINY, "--draft", f"{trees}:t"], "t[1] is [1,0], and its parent is not in the tree")
        self.refused(["run", *TINY, "--draft", f"{trees}:u"], 'has no tree "u"; it has t')
        batch = self.file('{"nodes":[[-1,4]],"requests":[0],"drafts":[[-1,1]]}')
        self.refused(["run", batch], ":1: drafts[0][1] is 1, a cycle")

    def test_commands(self):
        self.refused([], "no command")
        self.refused(["fly"], "fly")
        self.refused(["run"], "no input")
        self.refused(["plan"], "no input")
        self.refused(["compare"], "no input")
        self.refused(["compare", *TINY, "--policy", "auto"], "--policy", "auto")
        self.refused(["compare", *TINY, "--policy", "node,,flat"], "policy")
        self.refused(["run", *TINY, "--no-such-option"], "--no-such-option")

    def test_trees(self):
        for tree, *words in (
            ("1,2", "no slash"),
            ("1/2/3", "tokens[0]"),
            ("4,2/1,1", "nodes[1] is 2"),
            ("1/0", "tokens[0] is 0"),
            ("a/b", 'nodes[0] is "a"'),
            ("", "no slash"),
        ):
            with self.subTest(tree=tree):
                self.refused(["plan", "--tree", tree], *words)

    def test_files(self):
        good = '{"nodes":[[-1,16]],"requests":[0]}\n'
        for content, *words in (
            ("", "no batch"),
            (good + '{"nodes":[[-1,16]],"requ', ":2: not JSON at column"),
            (good + '{"nodes":[[-1,-3]],"requests":[0]}', ":2: nodes[0][1] is -3"),
            (good + '{"nodes":[[0,3]],"requests":[0]}', ":2: nodes[0][0] is 0"),
            (good + '{"nodes":[[-1,3]],"requests":[5]}', ":2: requests[0] is 5"),
            (good + '{"nodes":[[-1,3],[-1,3]],"requests":[0]}', ":2: nodes[1] is on no request's path"),
            (b"\x00\xff\x7fELF" * 100, ":1: not JSON"),
            (b"[" * 1_000_000, ":1: nested more than"),
        ):
            for command in ("run", "plan"):
                with self.subTest(content=content[:60], command=command):
                    self.refused([command, self.file(content)], "input.jsonl", *words)
        self.refused(["run", "/nowhere.jsonl"], "/nowhere.jsonl: cannot be opened")
        self.refused(["run", self.folder.name], "is a directory")

    def test_a_bad_file_stops_the_good_one_before_it(self):
        good = self.file('{"nodes":[[-1,16]],"requests":[0]}', "good.jsonl")
        bad = self.file("{", "bad.jsonl")
        self.refused(["run", good, bad, "--json"], "bad.jsonl:1")

    def test_memory_is_refused_before_it_is_taken(self):
        # 512 x 1,000,000 tokens of 8 heads x 128 x 2 bytes, K and V: two terabytes.
        self.refused(
            ["run", "--tree", "1,512/1,1000000"],
            "1,512/1,1000000 needs ",
            "bytes of memory",
            "TiB",
            "available",
            "--heads",
            "--head-dim",
            "--dtype",
        )
        self.refused(["run", "--tree", "1/9", "--heads", "2000000000/2000000000", "--page-size", 2147483647])
        self.refused(["plan", "--page-size", 1, "--tree", "1,1000000/1,2000000000"], "page table needs", "--page-size")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
