#!/usr/bin/env python3
"""Writes bench/results/vllm/README.md from the rows beside it.

python3 bench/vllm_report.py           # writes the page and its plots (bench/requirements-plots.txt)
python3 bench/vllm_report.py --check   # fails when they are not what the rows say
"""

import json
import pathlib

import gpu_plot
import pages
import vllm_crossover_plot
import vllm_rank_tables
import vllm_rates_plot
import vllm_rollout_tables
import vllm_tables
from vllm_rank_tables import ranks_of
from vllm_tables import ratio

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results/vllm"
PAGE = RESULTS / "README.md"
EQUAL = 0.01  # what shares nothing must not differ by more
MEASURED = ("steps", "sides", "serve", "http", "rollout")
PLOTS = (vllm_rates_plot.PLOT, vllm_crossover_plot.PLOT)


def load() -> dict[str, list[dict]]:
    """Rows by the file's name, each the rows of one run."""
    files = sorted(RESULTS.glob("*.jsonl"))
    return {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in files}


def of_kind(rows: list[dict], *kinds: str) -> list[dict]:
    return [row for row in rows if row["kind"] in kinds]


def introduction(name: str, rows: list[dict]) -> str:
    last = rows[-1]
    engines = next((row["engines"] for row in of_kind(rows, "start")), {})
    told = "; ".join(
        f"{engine}: {seen.get('backend', '').rpartition('.')[2] or 'unknown'}, model runner {seen.get('runner', '?')}, "
        f"graphs {seen.get('graphs', '?')}"
        for engine, seen in engines.items()
    )
    weights = "vLLM's dummy" if of_kind(rows, "http") else "drawn"  # serve_http.py says why
    text = (
        f"{last.get('device')}, driver {last.get('driver')}, vLLM {last.get('vllm')}, torch {last.get('torch')}; "
        f"{last['model']}, {last.get('layers')} layers, {last['dtype']}, {weights} weights; compilation "
        f"{last['compilation']}; commit {last['commit'][:12]}; `{last['command']}`. {told}"
    )
    log = RESULTS / f"logs/{name}.txt"
    link = f" [Its log](logs/{log.name})." if log.exists() else ""
    return f"## {name}\n\n{text.rstrip('. ')}.{link}\n"


def agreement(rows: list[dict]) -> str:
    lines = [
        f"{'' if ranks_of(row) == 1 else f'Tensor parallel {ranks_of(row)}: '}"
        f"Log-probabilities of {row['tokens']} forced tokens, `{row['subject']}` against `{row['baseline']}`: mean "
        f"difference {row['logprob_mean_diff']:.4f} (limit {row['mean_limit']:.4f}), largest "
        f"{row['logprob_max_diff']:.3f} ({row['max_limit']:.3f}); `{row['baseline']}` against itself in other batches: "
        f"{row['noise_mean_diff']:.4f}, {row['noise_max_diff']:.3f}."
        for row in of_kind(rows, "check")
    ]
    return "\n".join(lines) + "\n" if lines else ""


def equal_where_nothing_is_shared(rows: list[dict]) -> str:
    """Whether the intervals lie within 1 %, row by row."""
    lines = []
    for row in (row for row in rows if row["workload"].startswith("unshared") and row["ratio_lo"] is not None):
        lines.append(f"{row['requests']} requests: {equality(row['ratio_lo'], row['ratio_hi'])}")
    return f"Where nothing is shared: {'; '.join(lines)}.\n" if lines else ""


def equality(low: float, high: float) -> str:
    if low >= 1 - EQUAL and high <= 1 + EQUAL:
        return "equal within 1 %"
    if low > 1 + EQUAL:
        return "faster by more than 1 %"
    if high < 1 - EQUAL:
        return "slower by more than 1 %"
    return "within 1 % or faster" if low >= 1 - EQUAL else "within 1 % or slower" if high <= 1 + EQUAL else "undecided"


def losses(rows: list[dict]) -> str:
    """Where the baseline is faster, whether beyond doubt or not."""
    behind = [row for row in rows if row.get("ratio") is not None and row["ratio"] < 1]
    by = " in time per output token" if all(row["kind"] in ("serve", "http") for row in rows) else ""
    row_of = "rollout as a whole" if all(row["kind"] == "rollout" for row in rows) else "row"
    if not behind:
        return f"No {row_of} has the baseline faster{by}.\n"
    told = [
        f"{row['workload']} ({ratio(row)}{'' if sure(row) else ', the interval holds 1'})"
        for row in sorted(behind, key=lambda row: row["ratio"])
    ]
    return f"The baseline is faster{by} in {len(behind)} of {len(rows)} rows: {', '.join(told)}.\n"


def without_rows(rows: list[dict]) -> str:
    """Workloads that the command names and the run did not reach."""
    wanted = rows[-1]["command"].partition("--workloads ")[2].split()
    missing = [name for name in wanted if name not in {row["workload"] for row in rows}]
    return f"Not reached in the run's time: {', '.join(missing)}.\n" if missing else ""


def sure(row: dict) -> bool:
    return row["ratio_hi"] is not None and row["ratio_hi"] < 1


def faults(rows: list[dict]) -> str:
    told = [f"{row['workload']}: {row['error'].splitlines()[0]}" for row in of_kind(rows, "error")]
    return "Not measured, for an engine failed: " + "; ".join(told) + "\n" if told else ""


def short_steps(rows: list[dict]) -> str:
    """Where the KV cache did not hold the batch, times are of fewer requests than the row says."""
    told = [f"{row['workload']} ({row['short_steps']})" for row in rows if row.get("short_steps")]
    return f"Steps that did not move all requests of their batch: {', '.join(told)}.\n" if told else ""


TABLES = {
    "steps": ("Decode steps", vllm_tables.steps),
    "sides": ("Decode steps inside one engine", vllm_tables.sides),
    "serve": ("Serving", vllm_tables.serving),
    "http": ("HTTP servers", vllm_tables.http),
    "rollout": ("Rollouts inside one engine", vllm_rollout_tables.rollouts),
}


def run_section(name: str, rows: list[dict]) -> list[str]:
    parts = [introduction(name, rows), agreement(rows)]
    measured = of_kind(rows, *MEASURED)
    for base, subject, ranks in dict.fromkeys((row["baseline"], row["subject"], ranks_of(row)) for row in measured):
        against = [
            row for row in measured if (row["baseline"], row["subject"], ranks_of(row)) == (base, subject, ranks)
        ]
        split = f", tensor parallel {ranks}" if ranks > 1 else ""
        for kind, (title, make) in TABLES.items():
            chosen = of_kind(against, kind)
            if chosen:
                parts += [f"### {title}, `{subject}` against `{base}`{split}\n", make(chosen)]
                if kind in ("steps", "sides"):
                    parts += [vllm_tables.preparing(chosen), equal_where_nothing_is_shared(chosen)]
                    parts += [vllm_rank_tables.plans(chosen), vllm_rank_tables.kernels_by_rank(chosen)]
        parts += [vllm_rollout_tables.crossovers(of_kind(against, "sides"))]
        parts += [losses(against), short_steps(against)]
    parts += [vllm_rank_tables.scaling(of_kind(measured, "steps", "sides"))]
    parts += [vllm_rank_tables.choices(of_kind(rows, "ranks"))]
    parts += [vllm_rollout_tables.kernels(of_kind(rows, "rollout_profile"))]
    parts += [vllm_tables.shadow(of_kind(rows, "shadow")), faults(rows), without_rows(rows)]
    return [part for part in parts if part]


def page(runs: dict[str, list[dict]]) -> str:
    text = [
        "# Results in vLLM\n",
        "The plug-in against vLLM's own attention, on one GPU, engines in turns. A ratio is the baseline's time over\n"
        "ours, above 1 where we are faster, with its 95 % interval over pairs of turns or rounds. `a/b` is the\n"
        "baseline's figure, then ours. `floor` is the time of reading each distinct key and value once; `recovered`\n"
        "is the step's time won over (the baseline's attention - floor), 1 where all is won that reading once can\n"
        "win. Steps gain elsewhere, too, so it may pass 1.\n"
        "[Workloads, terms and commands](../../README.md#in-vllm); words are in the\n"
        "[glossary](../../../docs/concepts/glossary.md#words-of-the-measurements).\n\n"
        "Each section is a run, and names its commit; `git rev-list --count COMMIT..HEAD` says how many commits ago\n"
        "it was. Runs of different sections are of different commits and machines: compare within a section alone.\n"
        "`bench/vllm_report.py` writes this page from the rows beside it.\n",
    ]
    for name, rows in runs.items():
        text += run_section(name, rows)
    rows = every_row(runs)
    if vllm_rates_plot.content(rows):
        text.append(over_rates(of_kind(rows, "http")))
    if vllm_crossover_plot.content(rows):
        text.append(CROSSOVER)
    return "\n".join(text)


def over_rates(rows: list[dict]) -> str:
    caches = " and ".join(f"{size:g}" for size in sorted({row["kv_gib"] for row in rows}))
    rates: dict[str, list[str]] = {}
    for (name, rate), row in vllm_rates_plot.chosen(rows).items():
        rates.setdefault(row["commit"][:12], []).append(f"{name} {rate:g}")
    commits = "; ".join(f"{commit}: {', '.join(named)}" for commit, named in rates.items())
    return f"""## Over request rates

![Times against the rate of requests, vLLM with and without Trunkline](rates_h200.svg)

Rows of HTTP servers with KV caches of {caches} GiB, of each rate one of most rounds. By commit: {commits}.
"""


def every_row(runs: dict[str, list[dict]]) -> list[dict]:
    return [row for rows in runs.values() for row in rows]


CROSSOVER = """## Over samples and prompt lengths

![Share of a decode step that is saved, against the prompt's length](crossover.svg)

Of each model and number of samples the last rows, inside one engine; bars are 95 % intervals over turns.
"""


def main() -> None:
    runs = load()
    rows = every_row(runs)
    late = [plot for plot in PLOTS if plot.content(rows) and not plot.is_current(rows)]
    pages.write_or_check(PAGE, page(runs), "vllm_report.py")
    gpu_plot.draw_or_check([(plot, rows) for plot in late], "vllm_report.py")


if __name__ == "__main__":
    main()
