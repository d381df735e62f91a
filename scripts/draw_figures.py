#!/usr/bin/env python3
"""Draws the figures of docs/deep by hand-set coordinates: small SVG files that are readable in light and dark.

python3 scripts/draw_figures.py           # writes docs/figures/*.svg
python3 scripts/draw_figures.py --check   # fails when they are not what this script draws
"""

import pathlib
import sys
from xml.sax.saxutils import escape

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs/figures"
WIDTH = 720
STYLE = """
    text { fill: #1f2328; font-size: 12px; }
    .head { font-weight: 600; font-size: 13px; }
    .mid { text-anchor: middle; }
    .right { text-anchor: end; }
    rect { stroke: #8c959f; stroke-width: 1; fill: #f6f8fa; }
    .load { fill: #ddf4ff; stroke: #0969da; }
    .both { fill: #dafbe1; stroke: #1a7f37; }
    .one { fill: #fff8c5; stroke: #9a6700; }
    .bad { fill: #ffebe9; stroke: #cf222e; }
    .none { fill: none; stroke-dasharray: 3 3; }
    line { stroke: #57606a; stroke-width: 1.2; }
    path { fill: #57606a; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      rect { stroke: #6e7681; fill: #161b22; }
      .load { fill: #0c2d6b; stroke: #1f6feb; }
      .both { fill: #033a16; stroke: #238636; }
      .one { fill: #341a00; stroke: #9e6a03; }
      .bad { fill: #490202; stroke: #f85149; }
      .none { fill: none; }
      line { stroke: #8c959f; }
      path { fill: #8c959f; }
    }
"""


class Figure:
    def __init__(self, height: int, title: str, words: str):
        self.height, self.title, self.words = height, title, words
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str = "", words: str = "") -> None:
        """Lines of words are centred in the box."""
        self.parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"/>')
        lines = words.split("\n") if words else []
        for number, line in enumerate(lines):
            middle = y + height / 2 + 4 + 15 * (number - (len(lines) - 1) / 2)
            self.text(x + width / 2, middle, line, "mid")

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Along one axis."""
        self.parts.append(f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}"/>')
        along = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
        corners = [(to_x, to_y)]
        for side in (4, -4):
            corners.append((to_x - 6 * along[0] + side * along[1], to_y - 6 * along[1] + side * along[0]))
        self.parts.append('<path d="M' + "L".join(f"{x:g} {y:g}" for x, y in corners) + 'Z"/>')

    def svg(self) -> str:
        body = "\n  ".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-labelledby="title desc" font-family="system-ui, sans-serif">\n'
            f'  <title id="title">{escape(self.title)}</title>\n  <desc id="desc">{escape(self.words)}</desc>\n'
            f"  <style>{STYLE}  </style>\n  {body}\n</svg>\n"
        )


def hopper_kernel() -> Figure:
    figure = Figure(
        425,
        "How the Hopper kernel splits work",
        "Above: a tile of 128 rows; both warpgroups compute stages of the shared tokens, each alone the stages of its "
        "own half. Below: the twelve warps of a block over time; K and V of a stage are loaded once, and a warpgroup "
        "passes the other's stages.",
    )
    figure.text(10, 20, "A task: one item of the plan, one KV head. Stages of 64 tokens, in the plan's order:", "head")
    kinds = {"S0": "both", "S1": "both", "A": "one", "B": "load", "S2": "both"}
    x = 150
    for name in kinds:
        figure.text(x + 50, 42, name, "mid")
        x += 105
    for row, (rows, own) in enumerate((("rows 0 to 63", "A"), ("rows 64 to 127", "B"))):
        top = 50 + 34 * row
        figure.text(140, top + 20, rows, "right")
        for place, (name, kind) in enumerate(kinds.items()):
            visible = kind == "both" or name == own
            words = "visible" if visible else "masked"
            figure.box(150 + 105 * place, top, 100, 30, kind if visible else "none", words)
    figure.text(150, 136, "S: tokens that all rows share. A, B: tokens that only one half's requests have.")

    figure.text(10, 170, "The block: 12 warps, one block on an SM", "head")
    lanes = ("scheduler warp", "K loader (TMA)", "V and row loader", "row loader", "warpgroup 0", "warpgroup 1")
    for lane, name in enumerate(lanes):
        figure.text(140, 200 + 32 * lane, name, "right")
    tops = [184 + 32 * lane for lane in range(len(lanes))]
    figure.box(150, tops[0], 200, 24, "", "records of 8 stages")
    figure.box(360, tops[0], 160, 24, "", "up to 4 batches ahead")
    figure.box(150, tops[3], 40, 24, "load", "Q")
    figure.box(195, tops[3], 325, 24, "load", "rows that TMA cannot copy: masked by token, ends")
    for place, name in enumerate(kinds):
        begin = 150 + 60 * place
        figure.box(begin, tops[1], 55, 24, "load", f"K {name}")
        figure.box(begin + 30, tops[2], 55, 24, "load", f"V {name}")
    times = {"S0": 215, "S1": 315, "A": 415, "B": 415, "S2": 515}
    for name, begin in times.items():
        for group in range(2):
            if (name, group) in (("A", 1), ("B", 0)):
                continue
            figure.box(begin, tops[4 + group], 95, 24, kinds[name], f"{name}: QK exp PV")
    figure.box(615, tops[4], 95, 56, "", "epilogue:\nO, LSE")
    figure.text(
        150, 396, "A ring of slots hands K and V over (d = 128: 12 of 16 KiB, 5 in flight). Warpgroup 0 passes B,"
    )
    figure.text(150, 412, "warpgroup 1 passes A, without waiting: what one half alone reads costs the other no time.")
    return figure


def portable_kernel() -> Figure:
    figure = Figure(
        300,
        "The portable kernel",
        "Two producer warps fill a ring of six slots with K and V by turns, four consumer warps hold 16 rows each. In "
        "a tile of 64 rows each warp has its own rows; in a tile of 16 all warps have the same rows and share tokens.",
    )
    figure.text(10, 20, "A block: 6 warps, two blocks on an SM (d up to 128, H200)", "head")
    for number in range(2):
        figure.box(10, 40 + 50 * number, 130, 40, "load", f"producer warp {number}\nspans, cp.async")
    for slot, name in enumerate(("Q", "K0", "V0", "K1", "V1", "K2")):
        figure.box(190 + 52 * slot, 60, 46, 40, "load", name)
    figure.text(345, 122, "ring: 6 slots of 16 KiB (64 tokens), handed over by mbarriers", "mid")
    figure.arrow(142, 80, 186, 80)
    figure.arrow(502, 80, 546, 80)
    figure.box(550, 40, 160, 80, "both", "4 consumer warps\nmma.sync, softmax\nin registers")
    figure.text(10, 160, "Tile of 64 rows: a warp, 16 rows, all tokens", "head")
    for warp in range(4):
        figure.box(10, 172 + 28 * warp, 320, 24, "both", f"warp {warp}: rows {16 * warp} to {16 * warp + 15}")
    figure.text(380, 160, "Tile of 16 rows: a quarter of the tokens each", "head")
    for warp in range(4):
        figure.box(380 + 83 * warp, 172, 79, 108, "one", f"warp {warp}:\ntokens\n{16 * warp} to\n{16 * warp + 15}")
    return figure


def planner() -> Figure:
    figure = Figure(
        400,
        "The device planner",
        "Seven kernels. The first compares rows with the last plan; the second decides whether that plan is reused; "
        "then all others return at once. Else forest, tiles, cuts and lists follow.",
    )
    figure.box(20, 10, 300, 34, "load", "page tables, lengths, query starts (device)")
    phases = (
        ("compare rows", "a block a row: the row against the last plan"),
        ("find forest", "one block: prefixes, forest, requests"),
        ("try full tiles", "a block a tile width: tiles, cuts, their time"),
        ("try early ends", "a block a try: tiles that are closed early"),
        ("list tiles", "a block a tile: the KV segments of the best try"),
        ("lay out", "one block: prefix sums give ranges in all lists"),
        ("write", "a block a pack: items, queries, spans, masks"),
    )
    top = 62
    for number, (name, words) in enumerate(phases):
        figure.arrow(170, top - 16, 170, top - 2)
        figure.box(20, top, 300, 28, "both" if number < 2 else "", name)
        figure.text(335, top + 18, words)
        top += 42
    figure.arrow(170, top - 14, 170, top)
    figure.box(20, top + 2, 300, 34, "load", "workspace: the lists that kernels read")
    figure.box(600, 104, 110, 28, "one", "reused")
    figure.arrow(560, 118, 596, 118)
    figure.text(600, 150, "nothing else runs")
    return figure


def isolation() -> Figure:
    figure = Figure(
        250,
        "What a NaN does in a tile",
        "Four requests in one tile: shared tokens and each request's own. A NaN among request C's own values makes the "
        "outputs of all rows NaN, as zero times NaN is NaN. The test finds them, and each query is done again from its "
        "visible tokens; only C keeps a NaN.",
    )
    figure.text(100, 20, "weights P of a tile", "head")
    figure.text(100, 40, "shared tokens")
    for column, name in enumerate("ABCD"):
        figure.text(237 + 44 * column, 40, f"of {name}", "mid")
    for row, name in enumerate("ABCD"):
        top = 48 + 34 * row
        figure.text(90, top + 20, f"request {name}", "right")
        figure.box(100, top, 112, 30, "both", "p > 0")
        for column in range(4):
            bad = column == 2
            kind = "bad" if bad else "both" if column == row else "none"
            figure.box(216 + 44 * column, top, 40, 30, kind, "p" if column == row else "0")
    figure.text(216 + 44 * 2 + 20, 200, "V is NaN", "mid")
    figure.text(410, 48, "0 x NaN = NaN", "head")
    figure.arrow(396, 112, 430, 112)
    figure.box(434, 62, 110, 100, "bad", "O of all rows\nis NaN:\nfound by a\ntest at the end")
    figure.arrow(546, 112, 580, 112)
    figure.box(584, 62, 126, 100, "one", "again, a query\nat a time, from\nvisible tokens\nalone")
    figure.text(100, 232, "A, B and D then depend on their own tokens alone; C keeps its NaN.")
    return figure


def cpu_kernel() -> Figure:
    figure = Figure(
        290,
        "A task of the CPU kernels",
        "A task streams its tokens in blocks of 16 or 32; for each block all its KV heads are computed in turn, while "
        "the next block is fetched into L2. Scores of narrow items have lanes along the head dimension, those of wide "
        "items along rows.",
    )
    figure.text(10, 20, "A task: an item of the plan, some KV heads; blocks of 16 or 32 tokens", "head")
    for block, left in enumerate((10, 370)):
        figure.box(left, 34, 80, 60, "load", f"block {block}:\naddresses,\nmasks")
        for head in range(2):
            figure.box(left + 88 + 128 * head, 34, 124, 60, "both", f"head {head}: S = QK,\nsoftmax,\nO += PV")
    figure.box(98, 104, 252, 26, "one", "prefetch block 1, some lines a step")
    figure.arrow(352, 117, 376, 117)
    figure.text(10, 164, "Narrow: up to 10 rows (AVX-512)", "head")
    figure.text(10, 182, "lanes along d; K and V converted once for all rows")
    for row in range(3):
        figure.text(28, 210 + 26 * row, f"q{row}")
        for lane in range(8):
            figure.box(50 + 30 * lane, 196 + 26 * row, 28, 20, "both")
    figure.text(300, 236, "d")
    figure.text(380, 164, "Wide: whole vectors of rows", "head")
    figure.text(380, 182, "lanes of scores along rows, Q transposed")
    for element in range(3):
        figure.text(380, 210 + 26 * element, f"d{element}")
        for lane in range(8):
            figure.box(410 + 30 * lane, 196 + 26 * element, 28, 20, "one")
    figure.text(660, 236, "rows")
    return figure


FIGURES = (hopper_kernel, portable_kernel, planner, isolation, cpu_kernel)


def main() -> None:
    for draw in FIGURES:
        path, text = FOLDER / f"{draw.__name__}.svg", draw().svg()
        if "--check" not in sys.argv[1:]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            raise SystemExit(f"docs/figures/{path.name} is not what the script draws; run scripts/draw_figures.py")


if __name__ == "__main__":
    main()
