"""The site in a browser: it reads nothing from elsewhere, and fits phones. TRUNKLINE_SITE is its folder."""

import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools/pages"))
import browser  # noqa: E402

SITE = pathlib.Path(os.environ["TRUNKLINE_SITE"]).resolve()
WIDTHS = (360, 820, 1400)
# Luminance of the page's background, from 0 to 1.
LIGHTNESS = """(() => {
  const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
})()"""
# Texts and figures that reach beyond the page's width, less those that scroll by themselves.
OVERFLOWS = """[...document.querySelectorAll('article p, article img, article h1, article h2, article li')]
  .filter((part) => part.getBoundingClientRect().right > innerWidth + 1 && !part.closest('.table-wrapper, pre'))
  .map((part) => part.textContent.slice(0, 60))"""


def pages():
    return sorted(path for path in SITE.rglob("*.html") if path.name not in ("search.html", "genindex.html"))


@unittest.skipUnless(browser.CHROMIUM, browser.MISSING)
class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, page):
        self.browser.open(page, drawn="true")

    def test_pages_read_nothing_from_elsewhere_and_fit(self):
        self.assertGreater(len(pages()), 40)
        for page in pages():
            with self.subTest(page=str(page.relative_to(SITE))):
                self.browser.show(WIDTHS[0])
                self.open(page)
                self.assertEqual(self.browser.faults, [])
                foreign = [url for url in self.browser.requests if not url.startswith(("file:", "data:"))]
                self.assertEqual(foreign, [])
                broken = "[...document.images].filter((image) => !image.naturalWidth).map((image) => image.src)"
                self.assertEqual(self.browser.evaluate(broken), [])
                for width in WIDTHS:
                    self.browser.show(width)
                    self.browser.frame()
                    self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
                    self.assertEqual(self.browser.evaluate(OVERFLOWS), [], width)

    def test_dark_mode_follows_the_system(self):
        for dark in (False, True):
            self.browser.show(1200, dark)
            self.open(SITE / "index.html")
            lightness = self.browser.evaluate(LIGHTNESS)
            self.assertTrue(lightness < 0.2 if dark else lightness > 0.9, lightness)

    def test_the_readme_is_the_index(self):
        self.browser.show(1200)
        self.open(SITE / "index.html")
        self.assertEqual(self.browser.evaluate("document.querySelector('h1').firstChild.textContent"), "Trunkline")
        links = self.browser.evaluate("[...document.querySelectorAll('.sidebar-tree a')].map((link) => link.href)")
        self.assertGreater(len(links), 40)
        for link in links:
            path = pathlib.Path(link.removeprefix("file://").partition("#")[0])
            self.assertTrue(path.is_file(), link)

    def test_search_finds_a_page(self):
        self.browser.show(1200)
        url = (SITE / "search.html").as_uri() + "?q=crossover"
        self.browser.call("Page.navigate", url=url)
        found = (
            "[...document.querySelectorAll('ul.search li a')].some((link) => link.href.includes('guides/gain.html'))"
        )
        self.browser.wait_for(f"document.readyState === 'complete' && {found}")


if __name__ == "__main__":
    unittest.main()
