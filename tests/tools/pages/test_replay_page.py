"""`trunkline replay --html`: what a browser makes of the page. Environment as for test_plan_page.py."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import browser
from test_plan_page import CHECKS, DATA, H200, PROGRAM, VIEWS, page_data

SEARCHES = [DATA / "reasoning" / "docmerge.jsonl", "--limit", "2"]
REQUESTS = [DATA / "traces" / "mooncake_toolagent.jsonl"]
NOTHING = [DATA / "traces" / "azure_code.csv", "--limit", "1", "--pool", "1"]


@unittest.skipUnless(browser.CHROMIUM, browser.MISSING)
class ReplayPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def page(self, *arguments):
        """Writes a page beside --json; returns its path, its data, and the summary."""
        path, lines = self.folder / "page.html", self.folder / "steps.jsonl"
        command = [PROGRAM, "replay", *arguments, *H200, "--html", path, "--json", lines]
        subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL, timeout=240)
        return path, page_data(path.read_text()), json.loads(lines.read_text().splitlines()[-1])

    def check_clean(self, path):
        self.assertEqual(self.browser.faults, [])
        self.assertEqual(set(self.browser.requests), {path.as_uri()}, "the page loads nothing")

    def test_what_is_drawn_is_the_replay(self):
        self.browser.show(1100)
        for arguments in (SEARCHES, REQUESTS, NOTHING):
            with self.subTest(arguments=arguments):
                path, data, summary = self.page(*arguments)
                bins = data["bins"]
                self.assertEqual(sum(each["steps"] for each in bins), summary["steps"])
                self.assertEqual(sum(each["replans"] for each in bins), summary["steps"] - summary["plans"]["reused"])
                total = sum(each["steps"] * each["total"] for each in bins)
                self.assertAlmostEqual(total, summary["kv_tokens_total"], delta=1e-6 * total)
                self.browser.open(path)
                self.check_clean(path)
                drawn = self.browser.evaluate("[...document.querySelectorAll('.chart')].map((c) => ({ ...c.dataset }))")
                self.assertEqual([int(chart["bins"]) for chart in drawn], [len(bins)] * 5)
                series = [int(chart["series"]) for chart in drawn]
                self.assertEqual(series, [1, 1, len(data["policies"]), len(data["policies"]), 2])
                lines = self.browser.evaluate("document.querySelectorAll('.chart path.line').length")
                self.assertEqual(lines, sum(series) if bins else 0)
                rows = self.browser.evaluate("document.querySelectorAll('tr[data-policy]').length")
                self.assertEqual(rows, len(data["policies"]))

    def test_readable_wide_narrow_dark_and_printed(self):
        for arguments in (SEARCHES, REQUESTS, NOTHING):
            path, _, _ = self.page(*arguments)
            for width, dark, media in VIEWS:
                with self.subTest(arguments=arguments, width=width, dark=dark, media=media):
                    self.browser.show(width, dark, media)
                    self.browser.open(path)
                    self.check_clean(path)
                    self.assertLessEqual(self.browser.evaluate("document.scrollingElement.scrollWidth"), width)
                    self.assertEqual(self.browser.evaluate(CHECKS + "overlaps()"), [])
                    self.assertEqual(self.browser.evaluate(CHECKS + "weakContrasts()"), [])

    def test_pointer_and_keyboard_read_the_charts(self):
        path, data, _ = self.page(*SEARCHES)
        self.browser.show(1100)
        self.browser.open(path)
        x, y = self.browser.evaluate(
            "((box) => [box.x + 61, box.y + 60])(document.querySelector('.chart').getBoundingClientRect())"
        )
        self.browser.point(x, y)
        self.assertIn("sharing", self.browser.evaluate("document.getElementById('tip').innerText"))
        self.browser.point(1, 1)
        self.browser.press("Tab")
        self.browser.press("End")
        last = data["bins"][-1]
        reading = self.browser.evaluate("document.querySelector('.reading').innerText")
        self.assertIn(f"{last['first_step']:,}", reading)
        self.assertIn(f"{last['requests']:.1f} requests", reading)
        self.assertEqual(self.browser.faults, [])


if __name__ == "__main__":
    unittest.main()
