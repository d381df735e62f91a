#!/usr/bin/env python3
"""Writes bench/results/runtime/README.md from the rows of bench/runtime/run.py that lie in the folders beside it.

python3 bench/runtime_report.py           # writes the page
python3 bench/runtime_report.py --check   # fails when the page is not what the rows say
"""

import json
import pathlib
import statistics
import sys
import textwrap

from report import table

RESULTS = pathlib.Path(__file__).resolve().parent / "results/runtime"
PAGE = RESULTS / "README.md"
SUITES = ("few_shot", "reasoning", "speculative", "searches")
OURS = "trunk"
METHODS = {
    "trunk": "`DecodeAttention`, policy `trunk`",
    "auto": "policy `auto`, the default",
    "flat": "policy `flat`: each request by itself, radix attention's reads on shared pages; a draft tree is one "
    "request, and `flat` reads its past once",
    "flatten": "policy `flatten`, DeFT-Flatten",
    "node": "policy `node`, DeFT-Node",
    "node_chunk": "policy `node` with chunks of 128 tokens, DeFT-Node-Chunk",
    "masks": "all queries against all distinct tokens by a dense mask, as Medusa's tree attention, but in one fused "
    "`scaled_dot_product_attention`; keys and values are gathered before",
    "masks_unfused": "the same one operator after the other, as Medusa has it",
    "copies": "`scaled_dot_product_attention` as in `generate()`, a KV copy a branch",
    "request_per_query": "each draft a request of its own by policy `flat`, at page size 1: radix attention",
}
# DeFT, tables 7 and 11, seconds on an A100, Llama-3-8B: attention and whole, of Radix Attention, Tree Attention-Medusa,
# DeFT-Node (None: not supported there) and DeFT-Flatten.
_TABLES = {
    "b=20": ((5.99, 12.37), (3.93, 52.58), (10.51, 17.53), (3.47, 9.98)),
    "b=30": ((7.30, 14.08), (7.51, 103.90), (11.41, 21.19), (4.07, 10.99)),
    "b=50": ((9.96, 16.54), (9.57, 144.07), None, (5.87, 12.48)),
    "sorting": ((39.37, 104.79), (38.64, 380.87), (42.96, 114.06), (28.41, 94.67)),
    "document": ((24.69, 69.61), (29.10, 236.86), (33.29, 81.87), (21.45, 66.95)),
    "keyword": ((3.11, 11.25), (2.62, 33.52), (6.16, 15.20), (2.57, 10.90)),
    "set": ((5.13, 17.03), (3.96, 50.10), (9.58, 22.55), (3.83, 16.10)),
    "t=32": ((32.60, 64.57), (18.05, 263.40), (50.82, 84.72), (12.68, 44.94)),
    "t=64": ((54.57, 86.12), (26.31, 483.35), None, (18.18, 50.48)),
    "t=128": ((109.39, 145.88), (41.10, 924.97), None, (29.97, 65.44)),
    "t=256": ((212.29, 263.76), (68.28, 1881.51), None, (55.58, 104.65)),
}
PAPER = {case: dict(zip(("radix", "medusa", "node", "flatten"), figures)) for case, figures in _TABLES.items()}
# What stands here for a method of the paper: the first of these that a case has.
STANDS_FOR = {"radix": ("request_per_query", "flat"), "medusa": ("masks",), "node": ("node",)}
INTRODUCTION = """# Tree decoding beside DeFT's tables

This page is written by `bench/runtime_report.py` from the rows in the folders beside it;
[bench/README.md](../../README.md#tree-decoding) has the commands. A tree's steps are forced. Each step that is timed is
computed by all methods, in turns whose order changes, on the same model, tree, and K and V, so that only attention
differs. Before that, all methods' log-probabilities of forced tokens were compared with the model's own eager
attention, and each tree's first step with attention in fp64. Steps between those that are timed grow the tree, but no
model runs: pools are filled with drawn keys and values, on which no time depends.

Times are medians with 95 % intervals of order statistics. Ratios are a method's time over `trunk`'s of the same step:
geometric means with 95 % intervals, above 1 where `trunk` is faster.
"""
DIFFERS = """
### What differs from the paper

The paper has an A100 of 80 GB, Llama-3-8B in fp16 and kernels in Triton; each row here names another machine and model.
Ratios of one machine say little about another: on a CPU of few cores attention of many branches is bound by
arithmetic, on a GPU by reading. Its baselines without pages also copy KV each step, which makes their whole time
(table 5); here only `masks` gathers, and only `copies` has no pages. Its trees are the same recordings, of which the
repository has the first part; `steps` of a tree are all walked, of which `timed` are computed. Table 1 is the sorting
column of tables 7, 11 and 12, and a chain of thought that was not recorded. Table 4 and 12 count traffic:
[traffic](../traffic/README.md).
"""

ON_GPU = """
The model runs eagerly, without graphs, and the launches of its 32 layers take the host some 27 ms: attention of a few
milliseconds hides behind them, so whole steps differ little between paged methods. `masks` and `copies` call torch's
`scaled_dot_product_attention` as it is: most lengths make it run unfused, for 45 ms or so, and few fused, for 6 ms
(`b=20`, iteration 40). A pad to a multiple of 8 tokens might spare that, and was not tried.
"""


def load(folder: pathlib.Path) -> dict[str, list[dict]]:
    found = {}
    for suite in SUITES:
        path = folder / f"{suite}.jsonl"
        if path.exists():
            found[suite] = [json.loads(line) for line in path.read_text().splitlines()]
    return found


def cases_of(rows: list[dict]) -> dict[str, dict[str, dict]]:
    cases: dict[str, dict[str, dict]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["method"]] = row
    return cases


def with_interval(row: dict, part: str) -> str:
    if f"{part}_ms" not in row:
        return "-"
    low, high = row[f"{part}_ms_lo"], row[f"{part}_ms_hi"]
    return f"{row[f'{part}_ms']:.4g} ({low:.4g} to {high:.4g})"


def ratio_text(ratio: dict | None) -> str:
    if ratio is None:
        return ""
    if "ratio_lo" not in ratio:
        return f"{ratio['ratio']:.2f}"
    return f"{ratio['ratio']:.2f} ({ratio['ratio_lo']:.2f} to {ratio['ratio_hi']:.2f})"


def mebibytes(count: int) -> str:
    return f"{count / 2**20:,.0f}"


def step_table(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        lines.append([row["case"], row["method"], with_interval(row, "whole"), with_interval(row, "attention")])
        lines[-1] += [f"{row['attention_share']:.0%}", ratio_text(row.get("attention_over_trunk"))]
        lines[-1] += [ratio_text(row.get("whole_over_trunk")), mebibytes(row["kv_bytes"]), f"{row['max_err']:.0e}"]
    header = ["case", "method", "step, ms", "attention, ms", "attention's share", "attention over trunk's"]
    return table([*header, "step over trunk's", "KV, MiB", "error"], lines)


def seconds(rows: list[dict], method: str, part: str) -> float:
    """Of whole trees, the mean of several: the mean timed step, times all steps."""
    found = [row[f"{part}_mean_ms"] * row["steps"] / 1e3 for row in rows if row["method"] == method]
    return statistics.fmean(found)


def task_table(rows: list[dict]) -> str:
    """Whole trees: seconds by task and method, means over trees."""
    lines = []
    for task in dict.fromkeys(row["task"] for row in rows):
        of_task = [row for row in rows if row["task"] == task]
        for method in dict.fromkeys(row["method"] for row in of_task):
            count = sum(row["method"] == method for row in of_task)
            times = [seconds(of_task, method, part) for part in ("attention", "whole")]
            ours = [seconds(of_task, OURS, part) for part in ("attention", "whole")]
            lines.append([task, str(count), method, *(f"{time:.4g}" for time in times)])
            lines[-1] += [f"{time / own:.2f}" if method != OURS else "" for time, own in zip(times, ours)]
    header = ["task", "trees", "method", "attention of a tree, s", "tree, s", "attention over trunk's"]
    return table([*header, "tree over trunk's"], lines)


def iteration_table(rows: list[dict]) -> str:
    """DeFT's figures 5 and 14: attention by iteration, of the tree that has the most."""
    cases = cases_of(rows)
    case = max(cases, key=lambda name: next(iter(cases[name].values()))["steps"])
    methods = cases[case]
    lines = []
    for points in zip(*(row["by_step"] for row in methods.values())):
        lines.append([str(points[0][0]), str(points[0][1]), *(f"{point[2]:.4g}" for point in points)])
    return f"\nAttention of `{case}` by iteration, ms:\n\n" + table(["iteration", "branches", *methods], lines)


def parts_table(rows: list[dict]) -> str:
    """DeFT's figures 4 and 13: where a step's time goes."""
    lines = []
    for row in rows:
        whole = row["whole_ms"]
        parts = [row.get(f"{part}_ms", 0.0) for part in ("attention", "gather", "write", "plan")]
        shares = [f"{part / whole:.1%}" for part in (*parts, max(0.0, whole - sum(parts)))]
        lines.append([row["case"], row["method"], f"{whole:.4g}", *shares])
    header = ["case", "method", "step, ms", "attention", "gathering KV", "writing KV", "plan", "all else"]
    return table(header, lines)


def first_of_each(rows: list[dict]) -> list[dict]:
    """Of reasoning the first tree of each task; else all."""
    firsts: dict[str, str] = {}
    for row in rows:
        firsts.setdefault(row.get("task", row["case"]), row["case"])
    return [row for row in rows if row["case"] in firsts.values()]


def beside_paper(rows: list[dict], key: str) -> str:
    """Times of what stands for the paper's baselines over `trunk`'s, beside the paper's over DeFT-Flatten's."""
    lines = []
    for name in dict.fromkeys(row[key] for row in rows):
        if name not in PAPER:
            continue
        of = [row for row in rows if row[key] == name]
        line = [name]
        for part, index in (("attention", 0), ("whole", 1)):
            for baseline, standing in STANDS_FOR.items():
                known = [method for method in standing if any(row["method"] == method for row in of)]
                theirs = PAPER[name].get(baseline)
                paper = f"{theirs[index] / PAPER[name]['flatten'][index]:.2f}" if theirs else "-"
                ours = f"{seconds(of, known[0], part) / seconds(of, OURS, part):.2f}" if known else "-"
                line.append(f"{ours} / {paper}")
        lines.append(line)
    names = ["radix", "full masks", "node"]
    header = ["", *(f"attention, {name}" for name in names), *(f"whole, {name}" for name in names)]
    title = "Seconds of whole trees, ours over `trunk` / the paper's over DeFT-Flatten"
    return f"\n{title} (tables 7 and 11; its full masks copy KV):\n\n{table(header, lines)}"


def losses(rows: list[dict]) -> str:
    """Where `trunk` is not the fastest, and where the interval says so."""
    lines = []
    for part in ("attention", "whole"):
        compared = [row for row in rows if f"{part}_over_trunk" in row]
        behind = [row for row in compared if row[f"{part}_over_trunk"]["ratio"] < 1]
        sure = [row for row in behind if row[f"{part}_over_trunk"].get("ratio_hi", 1) < 1]
        named = "; ".join(
            f"`{row['method']}` in {row['case']}, {ratio_text(row[f'{part}_over_trunk'])}"
            for row in sorted(sure, key=lambda row: row[f"{part}_over_trunk"]["ratio"])
        )
        said = (
            f"- {'Attention' if part == 'attention' else 'Whole steps'}: `trunk` is behind in {len(behind)} of "
            f"{len(compared)} comparisons, in {len(sure)} of them beyond the interval{': ' + named if named else ''}."
        )
        lines.append(textwrap.fill(said, 118, subsequent_indent="  "))
    return "\n".join(lines) + "\n"


def search_table(rows: list[dict]) -> str:
    lines = []
    for case, of in cases_of(rows).items():
        for method, row in of.items():
            agree = []
            if "same_sequences" in row:
                agree.append(f"{row['same_sequences']} of {row['beams']} sequences, scores {row['score_err']:.0e}")
            if "log_probability_err" in row:
                agree.append(f"forced {row['log_probability_err']:.0e}")
            seconds = f"{row['seconds']:.4g} ({row['seconds_lo']:.4g} to {row['seconds_hi']:.4g})"
            lines.append([case, method, seconds, f"{row['first_s']:.3g}", with_interval(row, "whole")])
            lines[-1] += [f"{row['attention_s']:.3g}", mebibytes(row["kv_bytes"]), "; ".join(agree)]
    header = ["case", "method", "whole, s", "first logits, s", "a step, ms", "attention, s", "KV, MiB", "differences"]
    return table(header, lines)


def facts(rows: list[dict]) -> str:
    first = rows[0]
    commits = ", ".join(sorted({row["commit"][:12] for row in rows}))
    loads = [row["load"] for row in rows]
    text = (
        f"{first['device']}, {first['threads']} threads, clock: {first['clock']}, load {min(loads)} to {max(loads)} "
        f"when it began; {first['model']}, {first['layers']} layers, heads {first['heads']}, d {first['head_dim']}, "
        f"{first['dtype']}; torch {first['torch']}, Transformers {first['transformers']}, Trunkline "
        f"{first['version']}, commit {commits}; " + ", ".join(sorted({f"`{row['command']}`" for row in rows}))
    )
    return textwrap.fill(text + ".", 118, break_long_words=False, break_on_hyphens=False) + "\n"


def section(name: str, suites: dict[str, list[dict]]) -> str:
    rows = [row for of in suites.values() for row in of]
    on_gpu = ON_GPU if rows[0]["clock"] == "GPU events" else ""
    text = f"\n## {name}\n\n{facts(rows)}{on_gpu}\n### Where trunk is not ahead\n\n"
    text += losses([row for suite, of in suites.items() if suite != "searches" for row in of])
    if few_shot := suites.get("few_shot"):
        first = few_shot[0]
        text += (
            f"\n### Few-shot prompting\n\n{first['prompt']:,} tokens of prompt, {first['steps']} steps, "
            f"{first['steps_timed']} of them timed.\n\n"
            f"{step_table(few_shot)}{beside_paper(few_shot, 'case')}{iteration_table(few_shot)}"
        )
    if reasoning := suites.get("reasoning"):
        text += (
            f"\n### Reasoning\n\nWhole trees: the mean of the timed iterations ({reasoning[0]['steps_timed']} of each "
            f"tree) times all iterations.\n\n{task_table(reasoning)}{beside_paper(reasoning, 'task')}"
            f"{iteration_table(reasoning)}\nEach tree:\n\n{step_table(reasoning)}"
        )
    if speculative := suites.get("speculative"):
        text += (
            "\n### Speculative decoding\n\nA text of 500 to 6,000 tokens, verified by trees of t query tokens.\n\n"
            f"{step_table(speculative)}{beside_paper(speculative, 'case')}"
        )
    stepped = [row for suite, of in suites.items() if suite != "searches" for row in first_of_each(of)]
    if stepped:
        text += f"\n### Where a step's time goes\n\n{parts_table(stepped)}"
    if found := suites.get("searches"):
        introduction = (
            f"`TreeGenerator` beside Transformers' `generate()` with fused attention; {found[0]['prompt']} tokens of "
            f"prompt, {found[0]['new_tokens']} new ones of beams and samples. Tree search by `generate()` is one call "
            "for each expansion, from the text of its path; some are timed and stand for all, and its KV is what "
            "keeping all leaves' would take."
        )
        text += f"\n### Searches\n\n{textwrap.fill(introduction, 118)}\n\n{search_table(found)}"
    return text


def page(folders: dict[str, dict[str, list[dict]]]) -> str:
    listed = "\n".join(
        textwrap.fill(f"- `{name}`: {words}", 118, subsequent_indent="  ") for name, words in METHODS.items()
    )
    text = f"{INTRODUCTION}\n{listed}\n{DIFFERS}"
    if not folders:
        return f"{text}\nNo rows yet: nothing of this was measured.\n"
    return text + "".join(section(name, suites) for name, suites in folders.items())


def main() -> None:
    folders = {path.name: load(path) for path in sorted(RESULTS.glob("*/")) if load(path)}
    text = page(folders)
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != text:
            raise SystemExit("bench/results/runtime/README.md is not what the rows say; run bench/runtime_report.py")
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
