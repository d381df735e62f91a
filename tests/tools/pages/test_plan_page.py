"""`trunkline plan --html`: what the page holds, and what a browser makes of it.

Needs TRUNKLINE_PROGRAM (the binary) and TRUNKLINE_DATA (the repository's data folder) in the environment.
"""

import itertools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import browser

CHECKS = (pathlib.Path(__file__).resolve().parent / "page_checks.js").read_text()
PROGRAM = os.environ["TRUNKLINE_PROGRAM"]
DATA = pathlib.Path(os.environ["TRUNKLINE_DATA"])
H200 = ["--machine", str(DATA / "machines" / "h200-sxm.json")]
CPU = ["--machine", "generic", "--threads", "2"]
TREE = ["--tree", "1,8,64/32,512,256"]
# Four requests: all share 32 tokens, A, B and C share 64 more, then A 10, B 26, C 0, D 48 tokens of their own.
GOLDEN = '{"source":"golden","nodes":[[-1,32],[0,64],[1,10],[1,26],[0,48]],"requests":[2,3,1,4]}'
NARROWEST_PHONE = 360
# Width, dark, media
VIEWS = (
    (1400, False, "screen"),
    (1100, True, "screen"),
    (NARROWEST_PHONE, False, "screen"),
    (430, True, "screen"),
    (718, True, "print"),
)


def run(*arguments):
    done = subprocess.run(
        [PROGRAM, "plan", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def page_data(html):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(found.group(1))


def large_batch():
    """1,000 requests below 11 nodes of 100,000 tokens and 100 smaller ones, no two of one length."""
    nodes, requests = [[-1, 100000]], []
    for group in range(10):
        nodes.append([0, 100000 + 7 * group])
        parent = len(nodes) - 1
        for child in range(10):
            nodes.append([parent, 501 + 13 * child + group])
            inner = len(nodes) - 1
            for leaf in range(10):
                nodes.append([inner, 1 + (997 * len(nodes)) % 2999 + leaf])
                requests.append(len(nodes) - 1)
    return json.dumps({"nodes": nodes, "requests": requests})


def trace_of(policy, name, shape):
    """A trace of a made-up run: each worker of two takes the next task of the plan's items, with a break of 1 us."""
    heads = shape["kv_heads"]
    events = [{"name": "process_name", "ph": "M", "pid": sm, "args": {"name": f"{name}, SM {sm}"}} for sm in (0, 1)]
    now = [0.0, 0.5]
    for item, head in itertools.product(policy["items"], range(heads)):
        worker = now.index(min(now))
        args = {"rows": item["rows"], "tokens": item["tokens"], "tile": item["tile"]}
        where = {"pid": worker, "tid": 40 + worker, "ts": now[worker], "dur": 3.25}
        events.append({"name": f"item {item['index']} head {head}", "ph": "X", **where, "args": args})
        now[worker] += 4.25
    return {"displayTimeUnit": "ns", "traceEvents": events}


def items_of(row):
    """Rows, tokens and tiles of the items of a plan in JSON."""
    lengths = {}
    for node in row["forest"]["nodes"]:
        for request in node["requests"]:
            lengths[request] = max(lengths.get(request, 0), node["end"])
    group = row["plan"]["shape"]["q_heads"] // row["plan"]["shape"]["kv_heads"]
    items = []
    for index, item in enumerate(row["plan"]["items"]):
        tokens = 0
        for span in item["spans"]:
            length = lengths[span["slot"]]
            begin = span["begin"] + (length if span["begin_from_end"] else 0)
            tokens += span["end"] + (length if span["end_from_end"] else 0) - begin
        tile = f"{item['tile']['m']}x{item['tile']['n']}"
        items.append({"index": index, "rows": len(item["queries"]) * group, "tokens": tokens, "tile": tile})
    return items


class PageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, content, name="input.jsonl"):
        path = self.folder / name
        path.write_text(content)
        return path

    def page(self, *arguments):
        """Writes a page beside --json; returns its path, its data, and the row of JSON."""
        path = self.folder / "page.html"
        code, out, err = run(*arguments, "--json", "--html", path)
        self.assertEqual((code, err), (0, ""))
        return path, page_data(path.read_text()), json.loads(out)

    def traced_page(self, *arguments):
        _, data, row = self.page(*arguments)
        trace = trace_of({"items": items_of(row)}, "tree:1,4/64,16", data["shape"])
        return self.page(*arguments, "--trace", self.file(json.dumps(trace), "trace.json"))


class DataTest(PageTest):
    def check_page(self, data, row):
        statistics = {name: dict(values) for name, values in row["policies"].items()}
        self.assertEqual([policy["name"] for policy in data["policies"]], list(statistics))
        for policy in data["policies"]:
            expected = statistics[policy["name"]]
            self.assertEqual(policy["items"], expected.pop("items"))
            self.assertEqual(policy["statistics"], expected)
            self.check_shapes(policy, data["shape"])
            self.check_timeline(policy["predicted"], policy["items"], data)
        self.assertEqual(data["chosen"], row["plan"]["policy"])
        forest = row["forest"]
        self.assertEqual(data["forest"]["nodes"], len(forest["nodes"]))
        self.assertEqual(data["forest"]["distinct_tokens"], forest["distinct_tokens"])
        order = data["forest"]["order"]
        for (index, parent, begin, end, first, last, _), node in zip(
            data["forest"]["drawn"], forest["nodes"], strict=True
        ):
            self.assertEqual((parent, begin, end), (node["parent"], node["begin"], node["end"]), index)
            self.assertEqual(order[first:last], node["requests"])

    def check_shapes(self, policy, shape):
        shapes, rest = policy["shapes"]["drawn"], policy["shapes"]["not_drawn"]
        self.assertEqual(sum(entry[0] for entry in shapes) + rest["items"], policy["items"])
        read = sum(entry[0] * entry[8] for entry in shapes) + rest["tokens"]
        self.assertEqual(read, policy["statistics"]["kv_tokens_read"])
        partials = sum(entry[0] * entry[3] for entry in shapes)
        if rest["items"] == 0:
            self.assertEqual(partials, policy["statistics"]["partials"])
            self.assertAlmostEqual(self.computed(shapes, shape) / policy["statistics"]["flops_padded"], 1, places=9)

    @staticmethod
    def computed(shapes, shape):
        """FLOPs with padding of all that is drawn."""
        pairs = 0
        for items, _, queries, _, first_half, rows, _, _, _, _, spans in shapes:
            bands = [(0, queries)] if first_half == 0 else [(0, first_half), (first_half, queries)]
            for span in spans:
                tokens, readers = (span, [0, queries]) if isinstance(span, int) else span
                runs = list(zip(readers[::2], readers[1::2], strict=True))
                needed = sum(any(begin < high and low < end for begin, end in runs) for low, high in bands)
                pairs += items * tokens * rows * needed
        return 2 * (shape["head_dim_qk"] + shape["head_dim_v"]) * shape["kv_heads"] * pairs

    def check_timeline(self, timeline, items, data):
        self.assertEqual(len(timeline["workers"]), data["machine"]["workers"])
        self.assertEqual(timeline["tasks"], items * data["shape"]["kv_heads"])
        self.assertEqual(sum(sum(blocks[2::5]) for blocks in timeline["workers"]), timeline["tasks"])
        for blocks in timeline["workers"]:
            ends = [begin + length for begin, length in zip(blocks[::5], blocks[1::5], strict=True)]
            self.assertTrue(all(end <= begin for end, begin in zip(ends, blocks[5::5], strict=False)))
        if timeline["resolution_ns"] == 0:
            busy = sum(sum(blocks[1::5]) for blocks in timeline["workers"])
            whole = len(timeline["workers"]) * (timeline["end_ns"] - timeline["begin_ns"])
            self.assertAlmostEqual(timeline["bubble_share"], 1 - busy / whole, places=9)

    def test_pages_hold_what_plans_say(self):
        for arguments in (
            [self.file(GOLDEN), *CPU],
            [*TREE, *H200],
            ["--tree", "2,20/300,40", *H200, "--heads", "10/2", "--page-size", 1],
            [DATA / "demo.jsonl", "--batch", 2, *H200],
            [DATA / "decode_batches" / "mooncake_toolagent_window.jsonl", "--batch", 3, *CPU],
        ):
            with self.subTest(arguments=arguments):
                _, data, row = self.page(*arguments)
                self.check_page(data, row)

    def test_the_prediction_is_the_schedules_to_within_the_planners_rounding(self):
        # The generic CPU predicts single tasks; where memory as a whole binds, the schedule ends before.
        for arguments in (["--tree", "30/500", *CPU], [self.file(GOLDEN), *CPU]):
            _, data, _ = self.page(*arguments)
            for policy in data["policies"]:
                end, predicted = policy["predicted"]["end_ns"], 1e3 * policy["statistics"]["predicted_us"]
                self.assertLess(end, 1.04 * predicted, policy["name"])
        policy = next(p for p in data["policies"] if p["name"] == "flat")
        self.assertAlmostEqual(policy["predicted"]["end_ns"] / (1e3 * policy["statistics"]["predicted_us"]), 1, 1)

    def test_a_recorded_run_is_shown_with_its_policy(self):
        _, data, _ = self.traced_page("--tree", "1,4/64,16", *H200, "--policy", "node")
        (traced,) = [policy for policy in data["policies"] if "measured" in policy]
        self.assertIn(traced["name"], ("node", "profit", "greedy", "balanced"))  # that have the same items
        self.assertEqual(data["chosen"], "node")
        self.assertEqual(traced["name"], "node")
        measured = traced["measured"]
        tasks = traced["items"] * 8
        self.assertEqual(measured["tasks"], tasks)
        self.assertEqual(measured["begin_ns"], 0)
        self.assertEqual(len(measured["workers"]), 132, "workers without a task are idle")
        self.assertEqual(sum(len(blocks) > 0 for blocks in measured["workers"]), 2)
        busy = tasks * 3250
        self.assertAlmostEqual(measured["bubble_share"], 1 - busy / (132 * measured["end_ns"]))

    def test_hostile_text_stays_text(self):
        name = "</script><script>fault()</script><!--"
        batch = json.dumps({"source": name, "nodes": [[-1, 9]], "requests": [0]})
        path, data, _ = self.page(self.file(batch), *CPU)
        self.assertEqual(data["source"], name)
        self.assertNotIn("<script>fault", path.read_text())

    def test_large_batches_give_small_pages(self):
        path, data, row = self.page(self.file(large_batch()), *H200)
        self.check_page(data, row)
        self.assertEqual(data["forest"]["nodes"], 1111)
        self.assertGreater(max(policy["items"] for policy in data["policies"]), 10000)
        self.assertLess(path.stat().st_size, 3 << 20)


class BadInputTest(PageTest):
    def refused(self, words, *arguments):
        code, out, err = run(*arguments)
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(err, r"^trunkline: error: .*\n$")
        for word in words:
            self.assertIn(word, err)

    def test_which_batch(self):
        page = self.folder / "page.html"
        many = DATA / "decode_batches" / "agentic_weka.jsonl"
        self.refused(["--html shows one batch", "has 8", "--batch 1 to 8"], many, *CPU, "--html", page)
        self.refused(["--batch is 9", "batches 1 to 8"], many, *CPU, "--batch", 9, "--html", page)
        self.refused(["--batch"], many, *CPU, "--batch", 0)
        self.assertFalse(page.exists())

    def test_paths(self):
        for path in (self.folder, self.folder / "none" / "page.html", "/dev/full"):
            if pathlib.Path(path).parent.exists() or path != "/dev/full":
                self.refused([f"--html {path}: cannot be written"], *TREE, *CPU, "--html", path)
        page = self.folder / "page.html"
        self.refused(["no.json", "cannot be opened"], *TREE, *CPU, "--html", page, "--trace", self.folder / "no.json")
        self.refused(["--trace", "--html"], *TREE, *CPU, "--trace", self.folder / "no.json")

    def test_traces(self):
        tree = ["--tree", "1,4/64,16", *H200, "--policy", "node"]
        _, data, row = self.page(*tree)
        good = trace_of({"items": items_of(row)}, "tree:1,4/64,16", data["shape"])

        def refused(words, **changes):
            trace = json.loads(json.dumps(good))
            trace["traceEvents"][7].update(changes)
            self.refused(
                ["trace.json", *words],
                *tree,
                "--html",
                self.folder / "p.html",
                "--trace",
                self.file(json.dumps(trace), "trace.json"),
            )

        refused(["traceEvents[7].ts", '"soon"', "microseconds"], ts="soon")
        refused(["traceEvents[7].dur", "-1"], dur=-1)
        refused(["traceEvents[7].tid", "null"], tid=None)
        refused(["traceEvents[7].name", '"item 0"'], name="item 0")
        refused(["traceEvents[7].args.tokens", "null"], args={"rows": 4, "tile": "16x16"})
        refused(["traceEvents[7], item 77", "not among"], name="item 77 head 0")
        refused(["traceEvents[7]", "5 rows", "the plan's has"], args={"rows": 5, "tokens": 16, "tile": "16x16"})
        refused(
            ["traceEvents", "is there twice"], name=good["traceEvents"][6]["name"], args=good["traceEvents"][6]["args"]
        )
        refused(["tasks of the batch; the plan has"], ph="i")
        other = json.dumps(good).replace("tree:1,4/64,16", "demo:1")
        self.refused(
            ['no batch "tree:1,4/64,16"; it has demo:1'],
            *tree,
            "--html",
            self.folder / "p.html",
            "--trace",
            self.file(other),
        )
        for text in ("[]", "{}", '{"traceEvents": 3}', '{"traceEvents": [3]}', "nonsense"):
            self.refused(["input.jsonl"], *tree, "--html", self.folder / "p.html", "--trace", self.file(text))


@unittest.skipUnless(browser.CHROMIUM, browser.MISSING)
class BrowserTest(PageTest):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def drawn(self, selector):
        """The counts that a chart notes while it draws."""
        return [
            {name: int(value) for name, value in counts.items()}
            for counts in self.browser.evaluate(
                f"[...document.querySelectorAll('{selector}')].map((chart) => ({{ ...chart.dataset }}))"
            )
        ]

    def check_clean(self, path):
        self.assertEqual(self.browser.faults, [])
        self.assertEqual(set(self.browser.requests), {next(iter(self.browser.requests))}, "the page loads nothing")
        self.assertTrue(self.browser.requests[0].startswith(path.as_uri()))

    def check_policy(self, path, data, policy):
        self.browser.open(path, policy["name"])
        self.check_clean(path)
        self.assertEqual(self.browser.evaluate("document.getElementById('plan').dataset.policy"), policy["name"])
        forest, items, *timelines = self.drawn(".chart")
        self.assertEqual(forest["nodes"], data["forest"]["nodes"])
        self.assertEqual(forest["requests"], data["forest"]["requests"])
        self.assertEqual(items["items"] + policy["shapes"]["not_drawn"]["items"], policy["items"])
        self.assertEqual(len(timelines), 2 if "measured" in policy else 1)
        in_forest, in_items, *in_timelines = self.browser.evaluate(CHECKS + "rectangles()")
        self.assertEqual(in_forest, [data["forest"]["nodes"], 0])
        self.assertEqual(in_items[1], len(policy["shapes"]["drawn"]))
        blocks = sum(len(worker) // 5 for worker in policy["predicted"]["workers"])
        self.assertEqual(in_timelines[0], [blocks, 0])
        for timeline in timelines:
            self.assertEqual(timeline["workers"], data["machine"]["workers"])
            self.assertEqual(timeline["tasks"], policy["items"] * data["shape"]["kv_heads"])

    def test_what_is_drawn_is_the_plans(self):
        drafts = ["--draft", f"{DATA / 'speculative' / 'topologies.json'}:eagle/mc_sim_7b_63"]
        self.browser.show(1100)
        for arguments in (
            [self.file(GOLDEN), *CPU],
            [*TREE, *H200],
            [*TREE, *H200, *drafts],
            [DATA / "demo.jsonl", "--batch", 1, *H200],
            [self.file(large_batch(), "large.jsonl"), *H200],
            [self.file('{"nodes":[[-1,0],[-1,5]],"requests":[0,1,1,0]}', "short.jsonl"), *CPU],
            [self.file('{"nodes":[[-1,0]],"requests":[0]}', "empty.jsonl"), *CPU],
        ):
            with self.subTest(arguments=arguments):
                path, data, _ = self.page(*arguments)
                for policy in data["policies"]:
                    self.check_policy(path, data, policy)

    def test_a_recorded_run_is_drawn(self):
        path, data, _ = self.traced_page("--tree", "1,4/64,16", *H200, "--policy", "node")
        self.browser.show(1100)
        self.check_policy(path, data, next(policy for policy in data["policies"] if "measured" in policy))
        self.browser.open(path, "flat")
        self.assertIn("A recorded run is there for node", self.browser.evaluate("document.body.innerText"))

    def test_readable_wide_narrow_dark_and_printed(self):
        path, data, _ = self.page(DATA / "demo.jsonl", "--batch", 1, *H200)
        for width, dark, media in VIEWS:
            self.browser.show(width, dark, media)
            for policy in data["policies"]:
                with self.subTest(width=width, dark=dark, media=media, policy=policy["name"]):
                    self.browser.open(path, policy["name"])
                    self.check_clean(path)
                    self.assertLessEqual(self.browser.evaluate("document.scrollingElement.scrollWidth"), width)
                    self.assertEqual(self.browser.evaluate(CHECKS + "overlaps()"), [])
                    self.assertEqual(self.browser.evaluate(CHECKS + "weakContrasts()"), [])

    def test_pointer_and_keyboard_read_the_charts(self):
        path, _, _ = self.page(*TREE, *H200)
        self.browser.show(1100)
        self.browser.open(path)
        x, y = self.browser.evaluate(
            "((box) => [box.x + 44, box.y + 40])(document.querySelector('.chart').getBoundingClientRect())"
        )
        self.browser.point(x, y)
        self.assertIn("32 tokens × 64 requests", self.browser.evaluate("document.getElementById('tip').innerText"))
        self.assertFalse(self.browser.evaluate("document.getElementById('tip').hidden"))
        self.browser.point(1, 1)
        self.assertTrue(self.browser.evaluate("document.getElementById('tip').hidden"))
        self.browser.press("Tab")
        reading = "document.querySelector('.reading').innerText"
        for key, words in (
            ("ArrowRight", "32 tokens × 64 requests"),
            ("ArrowRight", "512 tokens × 8 requests"),
            ("End", "256 tokens × 1 request"),
            ("Escape", "arrow keys"),
        ):
            self.browser.press(key)
            self.assertIn(words, self.browser.evaluate(reading))
        self.assertEqual(self.browser.faults, [])

    def test_policies_are_chosen_by_list_row_and_address(self):
        path, data, _ = self.page(*TREE, *H200)
        self.browser.show(1100)
        self.browser.open(path)
        chosen = "document.getElementById('plan').dataset.policy"
        self.assertEqual(self.browser.evaluate(chosen), data["chosen"])
        self.browser.evaluate("document.querySelector('tr[data-policy=node] button').click()")
        self.assertEqual(self.browser.evaluate(chosen), "node")
        self.browser.evaluate(
            "((list) => { list.value = 'flatten'; list.dispatchEvent(new Event('change')); })(policy)"
        )
        self.assertEqual(self.browser.evaluate(chosen), "flatten")
        self.assertEqual(
            self.browser.evaluate("document.querySelector('tr[aria-current=true]').dataset.policy"), "flatten"
        )
        self.browser.open(path, "nonsense")
        self.assertEqual(self.browser.evaluate(chosen), data["chosen"])
        self.assertEqual(self.browser.faults, [])


if __name__ == "__main__":
    unittest.main()
