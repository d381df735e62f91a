"""Code that all plots share: the rows that a plot was drawn from, and how it is written."""

import dataclasses
import hashlib
import json
import pathlib
import re
import sys
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
REQUIREMENTS = "bench/requirements-plots.txt"


@dataclasses.dataclass(frozen=True)
class Plot:
    path: pathlib.Path
    content: Callable[[list[dict]], dict]  # what of the rows is drawn
    figure: Callable  # of the content; imports matplotlib

    def digest(self, rows: list[dict]) -> str:
        return "rows " + hashlib.sha256(json.dumps(self.content(rows)).encode()).hexdigest()

    def is_current(self, rows: list[dict]) -> bool:
        """Whether the plot was drawn of these rows; needs no matplotlib."""
        return self.path.exists() and re.search(re.escape(self.digest(rows)), self.path.read_text()) is not None

    def draw(self, rows: list[dict]) -> None:
        """The same bytes for the same rows and version of matplotlib. :raises ImportError: where that is not here"""
        import matplotlib

        matplotlib.use("svg")
        matplotlib.rcParams.update({"svg.hashsalt": "trunkline", "svg.fonttype": "none", "font.size": 9})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None, "Creator": None, "Description": self.digest(rows)}
        self.figure(self.content(rows)).savefig(self.path, metadata=metadata)


def draw_or_check(late: list[tuple[Plot, list[dict]]], script: str) -> None:
    """Draws plots that are not of their rows. :raises SystemExit: with --check, or without matplotlib"""
    for plot, rows in late:
        name = plot.path.relative_to(ROOT)
        if "--check" in sys.argv[1:]:
            raise SystemExit(
                f"{name} is not what the rows say; pip install -r {REQUIREMENTS} and run python3 bench/{script}"
            )
        try:
            plot.draw(rows)
        except ImportError:
            raise SystemExit(f"{name} is not drawn: pip install -r {REQUIREMENTS}") from None


def legend_above(figure, axes) -> None:
    """One legend for all axes, each label once."""
    labels = {}
    for axis in axes:
        labels |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(labels.values(), labels.keys(), loc="upper center", ncols=5, fontsize=8)
