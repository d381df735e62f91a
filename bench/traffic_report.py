#!/usr/bin/env python3
"""Writes bench/results/traffic/README.md from the rows beside it: the papers' traffic figures beside ours.

python3 bench/traffic_report.py           # writes the page
python3 bench/traffic_report.py --check   # fails when it is not what the rows say
"""

import json
import pathlib

import pages
from report import table

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results/traffic"
PAGE = RESULTS / "README.md"


def load(name: str) -> list[dict]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


def cases_of(rows: list[dict]) -> list[str]:
    """Each case once, in the order of the rows."""
    return list(dict.fromkeys(row["case"] for row in rows))


def find(rows: list[dict], case: str, method: str, quantity: str) -> dict:
    """The one row of a cell."""
    (row,) = [row for row in rows if (row["case"], row["method"], row["quantity"]) == (case, method, quantity)]
    return row


def paper_of(row: dict, digits: int = 2) -> str:
    paper = row.get("paper")
    if paper is None:
        return ""
    return " to ".join(f"{value:g}" for value in paper) if isinstance(paper, list) else f"{paper:.{digits}f}"


def command_of(name: str, rows: list[dict]) -> str:
    return (
        f"    {rows[0]['command']} > bench/results/traffic/{name}.jsonl\n\n"
        f"Plans for {', '.join(dict.fromkeys(row['machine'] for row in rows))}; commit "
        f"{', '.join(dict.fromkeys(row['commit'] for row in rows))}.\n"
    )


# How far, in points, a reduction may be from the paper's: its trees of reasoning are not all here.
DEFT_BOUNDS = {"few-shot": 0.1, "speculative": 0.1, "reasoning": 5}
DEFT_READS = ("flat (Flash-Decoding, Radix)", "Medusa", "SpecInfer", "node", "flatten")


def deft_reads(rows: list[dict]) -> str:
    lines = []
    for case in cases_of(rows):
        flatten = find(rows, case, "flatten", "KV traffic reduction")
        if abs(flatten["difference"]) > DEFT_BOUNDS[case.split(",")[0]]:
            raise SystemExit(
                f"deft 12, {case}: {flatten['ours']:.2f} % is too far from the paper's {flatten['paper']} %"
            )
        narrow = find(rows, case, "flatten, with re-reads by narrow tiles", "KV traffic reduction")
        ours = [find(rows, case, method, "KV traffic reduction")["ours"] for method in DEFT_READS]
        lines.append(
            [
                case,
                *(f"{value:.2f}" for value in ours),
                paper_of(flatten),
                f"{round(flatten['difference'], 2) + 0.0:+.2f}",
            ]
            + [f"{narrow['ours']:.2f}"]
        )
    header = [
        "decoding",
        "flat",
        "Medusa",
        "SpecInfer",
        "node",
        "flatten",
        "paper",
        "difference",
        "flatten, narrow tiles",
    ]
    return table(header, lines)


def deft_drafts(rows: list[dict]) -> str:
    lines = []
    for case in [case for case in cases_of(rows) if case.startswith("speculative")]:
        line = [case]
        for policy in ("flat", "flatten", "trunk"):
            for quantity in ("KV traffic reduction", "KV traffic reduction, with re-reads by narrow tiles"):
                line.append(f"{find(rows, case, f'{policy}, draft as one request', quantity)['ours']:.2f}")
        lines.append(line)
    names = [f"{policy}{kind}" for policy in ("flat", "flatten", "trunk") for kind in ("", ", narrow tiles")]
    return table(["draft as one request", *names], lines)


def deft_volumes(rows: list[dict]) -> str:
    lines = []
    for case in cases_of(rows):
        flat = find(rows, case, "flat (Flash-Decoding, Radix)", "KV traffic of a decoding, as the paper counts")
        dense = find(rows, case, "Medusa", "traffic of dense intermediate results")
        saved = find(rows, case, "flatten", "reduction of that traffic against Medusa")
        masks = [find(rows, case, method, "traffic of masks")["ours"] for method in ("SpecInfer", "flatten")]
        outputs = "traffic of partial outputs, which the paper leaves out"
        lines.append(
            [case, f"{flat['ours']:.2f}", paper_of(flat), f"{dense['ours']:.2f}", paper_of(dense)]
            + [f"{value:.4f}" for value in masks]
            + [f"{saved['ours']:.2f}", paper_of(saved)]
            + [f"{find(rows, case, method, outputs)['ours']:.3f}" for method in ("node", "flatten")]
        )
    header = ["decoding, TB", "flat KV", "paper", "Medusa, dense", "paper", "SpecInfer masks", "flatten masks"]
    return table([*header, "saved, %", "paper", "node partials", "flatten partials"], lines)


def deft_storage(rows: list[dict]) -> str:
    quantity = "copies to contiguous KV, 8 KV heads"
    methods = ("Flash-Decoding, unpaged", "Medusa, unpaged", "all policies, paged")
    lines = [
        [case, *(f"{find(rows, case, method, quantity)['ours']:.2f}" for method in methods)] for case in cases_of(rows)
    ]
    return table(["decoding, TB", *methods], lines)


def pat_loads(rows: list[dict]) -> str:
    method = "flat (FlashAttention)"
    quantities = (
        "KV tokens over the least",
        "KV tokens over profit's",
        "KV tokens over profit's, with its re-reads by tiles of 64 rows",
    )
    lines = []
    for case in cases_of(rows):
        found = [find(rows, case, method, quantity) for quantity in quantities]
        cells = [cell for row in found for cell in (f"{row['ours']:.3f}", paper_of(row))]
        lines.append([f"**{case}**" if case.endswith("mean") else case, *cells])
    header = ["batches", "flat / least", "paper", "flat / profit", "paper", "flat / profit, narrow tiles", "paper"]
    return table(header, lines)


ABLATIONS = ("profit, compute cost (PAT-compute)", "node (PAT-naive)")


def pat_ablations(rows: list[dict]) -> str:
    lines = []
    for case in cases_of(rows):
        mean = case.startswith("geometric mean")
        line = [f"**{case}**" if mean else case]
        for method in ABLATIONS:
            for split in ("none", "mean"):
                for quantity in (
                    "KV and partial bytes more than profit's",
                    "the same with re-reads by tiles of 64 rows",
                ):
                    row = find(rows, case, method, f"{quantity}, split {split}")
                    line.append(f"{row['ours']:+.1f}")
            line.append(paper_of(row, 1))
        lines.append(line)
    columns = ["no cuts", "narrow tiles", "cuts to the mean", "narrow tiles", "paper"]
    return table(["tree, %", *(f"{name}: {kind}" for name in ("compute", "naive") for kind in columns)], lines)


def fasttree_means(rows: list[dict]) -> str:
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        line = [method]
        for quantity in ("geometric mean", "largest"):
            row = next(row for row in rows if row["method"] == method and row["quantity"] == quantity)
            line += [f"{row['ours']:.2f}", paper_of(row, 1)]
        lines.append(line)
    return table(["predicted time over greedy's, split long", "mean of 45", "paper", "largest", "paper"], lines)


def fasttree_cases(rows: list[dict]) -> str:
    methods = list(dict.fromkeys(row["method"] for row in rows))
    quantity = "predicted time over greedy's, split long"
    lines = [
        [case, *(f"{find(rows, case, method, quantity)['ours']:.2f}" for method in methods)]
        for case in cases_of(rows)
        if not case.startswith("all ")
    ]
    return table(["tree, heads", *(method.split(" (")[0] for method in methods)], lines)


CODEC_METHODS = ("least", "balanced", "node")


def codec_cases(rows: list[dict]) -> str:
    lines = []
    for case in cases_of(rows):
        found = [find(rows, case, method, "KV and partial bytes of flat over these") for method in CODEC_METHODS]
        bold = case if case.startswith("vary") else f"**{case}**"
        lines.append([bold, *(f"{row['ours']:.2f}" for row in found), paper_of(found[1], 1)])
    return table(["shape", "flat / least", "flat / balanced", "flat / node", "paper"], lines)


TEXT = {
    "head": """# The papers' traffic figures

What the published systems read and write by their own papers, beside what our plans read and write on the same
inputs. Every figure of ours comes from plans, step by step, not from a formula, save where a method of a paper is
none of our policies (Medusa, SpecInfer, contiguous storage: then from the paper's own formula over the same steps).
No kernel runs here; times are in [the results](../../../docs/results.md). A plan counts KV tokens in two ways: by its
*grouping* (each item reads its tokens once, however many queries it has) and as tiles really *read* them ("narrow
tiles": a group of more queries than a tile has rows is split, and each part reads again; a cache may serve that).

This page is written by `bench/traffic_report.py` from the rows beside it.
""",
    "deft": """Llama-3-8B's heads (32/8, d 128, fp16, 32 layers) as in the paper; "difference" is in points.

- *Few-shot*: a prompt of 4,000 tokens and 400 steps of 20, 30 or 50 branches.
- *Reasoning*: the recorded trees of [data/reasoning](../../../data/README.md), about 60 % of the paper's, replayed by
  their branch and prune records, every iteration planned anew. The paper's averages are over all trees, ours over
  these.
- *Speculative*: draft trees of t tokens on a past that grows by the recorded accept list until it has 6,000 tokens.
  The paper does not give its prompts' lengths nor exact steps; ours start from 500 tokens. The reduction hardly
  depends on it, the volumes below do: the paper's are those of about twice as many tokens.

### KV traffic (table 12, left)
Reduction in %, against one query at a time:
""",
    "drafts": """A draft can also be one request with t query tokens (`Batch::query_parents`); the same reduction
against one query at a time, by grouping and with narrow tiles:
""",
    "volumes": """### Volumes, and traffic of intermediate results (table 12, right; table 4)
TB a decoding. The paper counts KV once for each of the 32 query heads, so its figures are four times what a kernel
reads that keeps a group together; the columns "flat KV" follow it. Medusa's dense path writes and reads QK, its
scaled form, its sum with the mask and the softmax in every head. Table 4 would have the mask in every head as well;
table 12's figures fit one mask for all heads of a layer, and so we count it. `flatten` holds masks in bits, 16
bytes for each run of tokens that only some queries of a block see, where DeFT's code has 8 bytes a token. "Saved"
is that traffic against Medusa's. The partial outputs that `node` and `flatten` leave for the merge (fp32, written
and read) are in no table of the paper, though with blocks of 128 tokens they are far more than the masks.
""",
    "storage": """### Paged and unpaged storage (table 5)
Flash-Decoding and Medusa read contiguous KV, so a decoding tree must be copied out in each step: every path for the
one, the tree once for the other. TB read and written by that, for the 8 KV heads. All our policies read pages in
place.
""",
    "pat5a": """## PAT, figure 5a: KV of one request at a time
Heads 32/8, tiles of up to 64 rows as PAT's kernels have on an A100. The paper gives a range over its two traces:
4.3 to 8.7 times the least, 4.1 to 7.6 times PAT. Its batches come from a serving driver that drops, by default, the
requests whose first block id is 0, and keeps contexts up to 7,800 tokens; the first four batches are made that way.
The faithful batches are the same traces as they were served: there is little to save, for anyone.
""",
    "pat12b": """## PAT, figure 12b: KV and partial bytes of its ablations
PAT's 20 trees at 32/8; bytes more than `profit`'s, in %, by grouping and with re-reads by tiles of 64 rows ("narrow
tiles"), without cuts along KV and with PAT's cuts to the mean. The paper's figures are averages of hardware counters on
an A100. With narrow tiles the compute cost reads less than `profit`: a child that carries its parent's tokens along
saves the parent's tiles from reading them again, which PAT's memory cost does not count.
""",
    "fasttree": """## FastTree, figure 9: its trees and group sizes
15 trees, heads 32/32, 32/8, 16/1, predicted for an H100 by the cost model; the paper's are times of its kernels.
`greedy` with long contexts split is 1; above 1, greedy is better. The paper's figures for other systems (FlashInfer,
CascadeAttn) are of other kernels; ours are the same division of work by one model, in which a shared token that is read
again comes from the L2 cache at its full rate.
""",
    "codec": """## CoDec (FlashForge): the five families of its benchmark
Heads 32/8; the ranges are those of the released benchmark, the points in them ours where it names none. KV tokens
by grouping, and partials. "flat / least" is what a kernel saves that reads each token once and leaves no partials: the
abstract's 120.9 times less memory access cannot follow from these shapes.
""",
}


def page() -> str:
    deft, pat, fasttree, codec = (load(name) for name in ("deft", "pat", "fasttree", "codec"))
    reads = [row for row in deft if row["table"] == "deft 12"]
    parts = [TEXT["head"], "## DeFT, tables 4, 5 and 12\n", command_of("deft", deft), TEXT["deft"], deft_reads(reads)]
    parts += [TEXT["drafts"], deft_drafts(reads), TEXT["volumes"], deft_volumes(reads), TEXT["storage"]]
    parts += [deft_storage([row for row in deft if row["table"] == "deft 5"])]
    loads = [row for row in pat if row["table"] == "pat 5a"]
    parts += [TEXT["pat5a"], command_of("pat", pat), pat_loads(loads)]
    parts += [TEXT["pat12b"], pat_ablations([row for row in pat if row["table"] == "pat 12b"])]
    parts += [TEXT["fasttree"], command_of("fasttree", fasttree), fasttree_means(fasttree), fasttree_cases(fasttree)]
    parts += [TEXT["codec"], command_of("codec", codec), codec_cases(codec)]
    return "\n".join(parts)


def main() -> None:
    pages.write_or_check(PAGE, page(), "traffic_report.py")


if __name__ == "__main__":
    main()
