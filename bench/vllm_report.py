#!/usr/bin/env python3
"""Writes docs/results_vllm.md from the rows in bench/results/vllm.

python3 bench/vllm_report.py           # writes docs/results_vllm.md and its plot (bench/requirements-plots.txt)
python3 bench/vllm_report.py --check   # fails when docs/results_vllm.md is not what the rows say
"""

import json
import pathlib
import sys

import vllm_rates_plot
from report import table

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results/vllm"
PAGE = BENCH.parent / "docs/results_vllm.md"
EQUAL = 0.01  # what shares nothing must not differ by more
MEASURED = ("steps", "sides", "serve", "http")


def load() -> dict[str, list[dict]]:
    """Rows by the file's name, each the rows of one run."""
    files = sorted(RESULTS.glob("*.jsonl"))
    return {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in files}


def of_kind(rows: list[dict], *kinds: str) -> list[dict]:
    return [row for row in rows if row["kind"] in kinds]


def number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)


def ratio(found: dict | None) -> str:
    """With its interval, where it has one."""
    if not found or found.get("ratio") is None:
        return "-"
    if found["ratio_lo"] is None:
        return f"{found['ratio']:.3f} (one pair)"
    return f"{found['ratio']:.3f} ({found['ratio_lo']:.3f} to {found['ratio_hi']:.3f})"


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
    link = f" [Its log](../bench/results/vllm/logs/{log.name})." if log.exists() else ""
    return f"## {name}\n\n{text.rstrip('. ')}.{link}\n"


def agreement(rows: list[dict]) -> str:
    lines = [
        f"Log-probabilities of {row['tokens']} forced tokens, `{row['subject']}` against `{row['baseline']}`: mean "
        f"difference {row['logprob_mean_diff']:.4f} (limit {row['mean_limit']:.4f}), largest "
        f"{row['logprob_max_diff']:.3f} ({row['max_limit']:.3f}); `{row['baseline']}` against itself in other batches: "
        f"{row['noise_mean_diff']:.4f}, {row['noise_max_diff']:.3f}."
        for row in of_kind(rows, "check")
    ]
    return "\n".join(lines) + "\n" if lines else ""


def steps(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        base, subject = row["baseline"], row["subject"]
        lines.append(
            [
                row["workload"],
                str(row["requests"]),
                f"{row['kv_tokens_total']:,}",
                f"{row['kv_tokens_distinct']:,}",
                number(row["step_ms"][base]),
                number(row["step_ms"][subject]),
                ratio(row),
                str(row["pairs"]),
                number(row.get("attention_ms")),
                number(row.get("profile", {}).get(subject, {}).get("attention_ms")),
                number(row.get("floor_ms")),
                number(row.get("recovered")),
            ]
        )
    base, subject = rows[0]["baseline"], rows[0]["subject"]
    header = ["workload", "requests", "KV tokens", "distinct", f"{base}, ms", f"{subject}, ms", "ratio (95 %)", "pairs"]
    header += [f"attention of {base}", f"of {subject}", "floor", "recovered"]
    return table(header, lines)


def sides(rows: list[dict]) -> str:
    """With what two captures of the baseline differ by, and the host's time of a step's metadata."""
    lines = [
        [
            row["workload"],
            str(row["requests"]),
            number(row["step_ms"][row["baseline"]], ".3f"),
            number(row["step_ms"][row["subject"]], ".3f"),
            ratio(row),
            ratio(row["null"]),
            ratio(row.get("subject_null")),
            str(row["pairs"]),
            "/".join(number(row["build_us"].get(row[side]), ".0f") for side in ("baseline", "subject")),
            number(row.get("attention_ms")),
            number(row.get("floor_ms")),
            number(row.get("recovered")),
        ]
        for row in rows
    ]
    base, subject = rows[0]["baseline"], rows[0]["subject"]
    header = ["workload", "requests", f"{base}, ms", f"{subject}, ms", "ratio (95 %)", f"{base} against itself"]
    header += [f"{subject} against itself"]
    return table([*header, "pairs", "build, us", f"attention of {base}, ms", "floor", "recovered"], lines)


HOST_KINDS = ("prepare_us", "build_us")


def preparing(rows: list[dict]) -> str:
    """The cost of a step before its layers, as in PAT's figure 14: the engine's own input, attention's, and plans."""
    known = [row for row in rows if row.get("prepare_us")]
    if not known:
        return ""
    base, subject = known[0]["baseline"], known[0]["subject"]
    lines = [
        [
            row["workload"],
            str(row["requests"]),
            *("/".join(number(row[kind].get(side), ".0f") for side in (base, subject)) for kind in HOST_KINDS),
            microseconds(row.get("profile", {}).get(subject, {}).get("plan_ms")),
        ]
        for row in known
    ]
    header = ["workload", "requests", "host: the engine's input, us", "host: attention's, us", "GPU: plan, us"]
    if all(line[-1] == "-" for line in lines):
        header, lines = header[:-1], [line[:-1] for line in lines]
    return (
        f"What a step takes before its layers, `{base}`/`{subject}`; the host's part beside the GPU's last step.\n\n"
        + table(header, lines)
    )


def microseconds(ms: float | None) -> str:
    return number(None if ms is None else 1e3 * ms, ".0f")


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


def serving(rows: list[dict]) -> str:
    base, subject = rows[0]["baseline"], rows[0]["subject"]
    lines = []
    for row in rows:
        before, after = row["served"][base], row["served"][subject]
        lines.append(
            [
                row["workload"],
                str(row["requests"]),
                str(row["rounds"]),
                *(pair(before, after, metric, part) for metric, part in PARTS),
                *(ratio(row["ratios"].get(metric)) for metric in ("tpot_ms", "ttft_ms", "e2e_ms", "seconds")),
                pair(before, after, "tokens_per_s", None, ".0f"),
                "/".join(str(count) for count in row["failures"].values()),
            ]
        )
    header = ["workload", "requests", "rounds", "TPOT, ms", "its P99", "TTFT, ms", "completion, ms"]
    header += [f"{what}, ratio (95 %)" for what in ("TPOT", "TTFT", "completion", "whole")]
    return table([*header, "tokens/s", "failures"], lines)


PARTS = (("tpot_ms", "mean"), ("tpot_ms", "p99"), ("ttft_ms", "mean"), ("e2e_ms", "mean"))


def pair(before: dict, after: dict, metric: str, part: str | None = None, form: str = ".1f") -> str:
    values = [(side.get(metric) or {}).get(part) if part else side.get(metric) for side in (before, after)]
    return "/".join(number(value, form) for value in values)


def http(rows: list[dict]) -> str:
    base, subject = rows[0]["baseline"], rows[0]["subject"]
    columns = ("mean_e2el_ms", "mean_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "p99_itl_ms", "output_throughput")
    lines = [
        [
            row["workload"],
            str(row["requests"]),
            str(row["rounds"]),
            *(pair(row["served"][base], row["served"][subject], column) for column in columns),
            ratio(row["ratios"].get("mean_tpot_ms")),
            ratio(row["ratios"].get("mean_e2el_ms")),
            "/".join(str(count) for count in row["failures"].values()),
        ]
        for row in rows
    ]
    header = ["workload", "requests", "rounds", "completion, ms", "TTFT", "TPOT", "P99 TPOT", "P99 ITL", "tokens/s"]
    return table([*header, "TPOT, ratio (95 %)", "completion, ratio (95 %)", "failures"], lines)


def shadow(rows: list[dict]) -> str:
    """The difference between both kernels' results for the same input."""
    if not rows:
        return ""
    lines = [
        [row["workload"], str(row["requests"]), f"{row['compared']:,.0f}", f"{row['beyond']:,.0f}"] for row in rows
    ]
    last = rows[-1]
    return (
        "Every layer by both kernels; a vector is a head's of a query token. Those of prefill rows beside decode rows "
        "are counted, too, which vLLM's kernel computes on both sides. The largest difference of all is "
        f"{last['most_so_far']:.4f} of the vector's largest value, the tolerance {last['tolerance']:.4f}.\n\n"
        + table(["workload", "requests", "vectors compared", "beyond the tolerance"], lines)
    )


def losses(rows: list[dict]) -> str:
    """Where the baseline is faster, whether beyond doubt or not."""
    behind = [row for row in rows if row.get("ratio") is not None and row["ratio"] < 1]
    by = " in time per output token" if all(row["kind"] in ("serve", "http") for row in rows) else ""
    if not behind:
        return f"No row has the baseline faster{by}.\n"
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
    "steps": ("Decode steps", steps),
    "sides": ("Decode steps inside one engine", sides),
    "serve": ("Serving", serving),
    "http": ("HTTP servers", http),
}


def run_section(name: str, rows: list[dict]) -> list[str]:
    parts = [introduction(name, rows), agreement(rows)]
    measured = of_kind(rows, *MEASURED)
    for base in dict.fromkeys(row["baseline"] for row in measured):
        against = [row for row in measured if row["baseline"] == base]
        for kind, (title, make) in TABLES.items():
            chosen = of_kind(against, kind)
            if chosen:
                parts += [f"### {title}, `{chosen[0]['subject']}` against `{base}`\n", make(chosen)]
                if kind in ("steps", "sides"):
                    parts += [preparing(chosen), equal_where_nothing_is_shared(chosen)]
        parts += [losses(against), short_steps(against)]
    parts += [shadow(of_kind(rows, "shadow")), faults(rows), without_rows(rows)]
    return [part for part in parts if part]


def page(runs: dict[str, list[dict]]) -> str:
    text = [
        "# Results in vLLM\n",
        "The plug-in against vLLM's own attention, on one GPU, engines in turns. A ratio is the baseline's time over\n"
        "ours, above 1 where we are faster, with its 95 % interval over pairs of turns or rounds. `a/b` is the\n"
        "baseline's and ours. [Workloads, terms and commands](../bench/README.md#in-vllm).\n\n"
        "Each section is a run, and names its commit; `git rev-list --count COMMIT..HEAD` says how many commits ago\n"
        "it was. Runs of different sections are of different commits and machines: compare within a section alone.\n"
        "`bench/vllm_report.py` writes this page from the rows in [bench/results/vllm](../bench/results/vllm).\n",
    ]
    for name, rows in runs.items():
        text += run_section(name, rows)
    rows = every_row(runs)
    if vllm_rates_plot.content(rows):
        text.append(over_rates(of_kind(rows, "http")))
    return "\n".join(text)


def over_rates(rows: list[dict]) -> str:
    caches = " and ".join(f"{size:g}" for size in sorted({row["kv_gib"] for row in rows}))
    rates: dict[str, list[str]] = {}
    for (name, rate), row in vllm_rates_plot.chosen(rows).items():
        rates.setdefault(row["commit"][:12], []).append(f"{name} {rate:g}")
    commits = "; ".join(f"{commit}: {', '.join(named)}" for commit, named in rates.items())
    return f"""## Over request rates

![Times against the rate of requests, vLLM with and without Trunkline](results/vllm_rates_h200.svg)

Rows of HTTP servers with KV caches of {caches} GiB, of each rate one of most rounds. By commit: {commits}.
[What differs between them](vllm.md#measure-it).
"""


def every_row(runs: dict[str, list[dict]]) -> list[dict]:
    return [row for rows in runs.values() for row in rows]


def main() -> None:
    runs = load()
    text, plot, rows = page(runs), vllm_rates_plot.PLOT, every_row(runs)
    drawn = plot.is_current(rows) or not plot.content(rows)
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != text:
            raise SystemExit(f"{PAGE.name} is not what bench/results/vllm says; run python3 bench/vllm_report.py")
        if not drawn:
            raise SystemExit(f"{plot.path.name} is not what bench/results/vllm says; run python3 bench/vllm_report.py")
        return
    PAGE.write_text(text)
    if not drawn:
        plot.draw(rows)


if __name__ == "__main__":
    main()
