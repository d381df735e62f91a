"""The tables of bench/results/h200/README.md, each from the rows of a file."""

from collections.abc import Callable

from gpu_floors import rates_of
from gpu_rows import KERNELS, by, kernels, method, ran_single_query, recorded, same_case, what_ran
from report import geometric_mean, table
from source_trees import TREES

# PAT, section 8.5, on an A100: time and bytes over PAT's, in percent.
PAT_TIMES = {"PAT-fixed": 39, "PAT-serial": 4.8, "PAT-compute": 4.6, "PAT-naive": 10.4}
PAT_BYTES = {"profit, compute cost": 10.9, "node": 16.7}


def span(values: list[float], digits: int = 2) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}" if values else ""


def mean_and_span(values: list[float]) -> list[str]:
    return [f"{geometric_mean(values):.3f}", span(values)] if values else ["", ""]


def which_kernels(files: dict[str, list[dict]]) -> str:
    """A sentence for each kind of kernels that rows ran on."""
    ran = {}
    for name, rows in files.items():
        for kind in by(rows, kernels):
            ran.setdefault(kind, []).append(f"`{name}`")
    if len(ran) == 1:
        return f"All rows ran on {KERNELS.get(*ran, *ran)}."
    return " ".join(f"On {KERNELS.get(kind, kind)} ran rows of {', '.join(names)}." for kind, names in ran.items())


def each_kernels(rows: list[dict], content: Callable[[list[dict]], str]) -> str:
    """The content of each kind of kernels apart; no word of it where there is one."""
    groups = by(rows, kernels)
    if len(groups) == 1:
        return content(rows)
    return "\n".join(f"On {KERNELS.get(kind, kind)}:\n\n{content(chosen)}" for kind, chosen in groups.items())


def provenance(files: dict[str, list[dict]]) -> str:
    lines = [
        [name, kind, str(len(run)), *(", ".join(sorted({row[key][:12] for row in run})) for key in ("commit", *TREES))]
        for name, rows in files.items()
        for kind, run in by(rows, kernels).items()
    ]
    return table(["rows of", "kernels", "number", "commit", *(part.title for part in TREES.values())], lines)


def gains(rows: list[dict], kernel: str | None) -> list[str]:
    values = [time / row["us"] for row in rows if (time := recorded(row, kernel)) is not None]
    return [f"{geometric_mean(values):.2f}", f"{min(values):.2f}", f"{max(values):.2f}"] if values else [""] * 3


def summary(suites: dict[str, list[dict]]) -> str:
    lines = []
    for name, rows in suites.items():
        for (ran_on, heads), chosen in by(rows, lambda row: (kernels(row), row["heads"])).items():
            floors = [row["x_floor"] for row in chosen]
            lines.append(
                [name, ran_on, heads, str(len(chosen)), f"{geometric_mean(floors):.2f}", f"{min(floors):.2f}"]
                + [f"{max(floors):.2f}"]
                + (gains(chosen, name) if name in ("pat", "fasttree") else [""] * 3)
                + gains(chosen, None)
            )
    header = [
        "suite", "kernels", "heads", "cases", "x floor, geometric mean", "best", "worst",
        "faster than its paper's kernel", "least", "most", "faster than the best recorded", "least", "most",
    ]  # fmt: skip
    return table(header, lines)


def losses(suites: dict[str, list[dict]]) -> str:
    rows = {kind: [] for run in suites.values() for kind in by(run, kernels)}
    for name, run in suites.items():
        for row in run:
            rows[kernels(row)].append((name, row))
    return "\n".join(losses_of(kind, chosen) for kind, chosen in rows.items())


def losses_of(kind: str, rows: list[tuple[str, dict]]) -> str:
    compared = [(name, row, best) for name, row in rows if (best := recorded(row))]
    behind = [
        f"{name} {row['case']} at {row['heads']}, page {row['page_size']} ({best / row['us']:.2f})"
        for name, row, best in compared
        if best < row["us"]
    ]
    listed = ": " + "; ".join(behind) if behind else ""
    count = f"{len(behind)} of {len(compared)} cases"
    return f"On the {kind} kernels, slower than the best recorded kernel in {count}{listed}.\n"


def host_times(files: dict[str, list[dict]]) -> str:
    lines = []
    runs = [(name, kind, run) for name, rows in files.items() for kind, run in by(rows, kernels).items()]
    for name, ran_on, rows in runs:
        timed = sorted((row for row in rows if "run_us" in row), key=lambda row: row["upload_us"] + row["run_us"])
        if not timed:
            continue
        times = [row["upload_us"] + row["run_us"] for row in timed]
        worst = timed[-1]
        lines.append(
            [
                name,
                ran_on,
                str(len(timed)),
                f"{times[len(times) // 2]:.1f}",
                f"{times[-1]:.1f}",
                f"{worst['upload_us']:.1f} + {worst['run_us']:.1f}: {worst['case']}, {worst['items']} items, "
                f"{method(worst)}",
                str(sum(time <= 15 for time in times)),
            ]
        )
    header = ["rows of", "kernels", "number", "upload + run, us: median", "most", "which is", "at most 15 us"]
    return table(header, lines) if lines else ""


def cases(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        times = row.get("recorded_us", {})
        kernel = min(times, key=times.get, default="")
        best = times.get(kernel)
        lines.append(
            [
                row["case"],
                row["heads"],
                str(row["page_size"]),
                what_ran(row),
                "" if ran_single_query(row) else str(row["items"]),
                f"{row['us']:.1f}",
                f"{row['us_p10']:.1f} to {row['us_p90']:.1f}",
                f"{row['forward_us']:.1f}" if "forward_us" in row else "",
                f"{row['floor_us']:.1f}",
                f"{row['x_floor']:.2f}",
                "" if ran_single_query(row) else f"{row['predicted_us']:.0f}",
                f"{best:.1f} {kernel}" if best else "",
                f"{best / row['us']:.2f}" if best else "",
                f"{row['resolve_us']:.1f}",
                f"{row['plan_us']:.0f}",
                f"{row['max_err']:.0e}",
            ]
        )
    header = [
        "case", "heads", "page", "chose", "items", "us", "10 to 90 %", "forward", "floor", "x floor", "predicted",
        "best recorded", "faster", "resolve, us", "planning, us", "error",
    ]  # fmt: skip
    return table(header, lines)


def ablation(rows: list[dict], others: list[dict]) -> str:
    """Each method's time over the default's and over its paper's method.

    :param others: times of the default where the file has none
    """
    times = {("default", same_case(row)): row["us"] for row in others}
    times |= {(method(row), same_case(row)): row["us"] for row in rows}
    lines = []
    for name, chosen in by(rows, method).items():
        base = next((paper for paper in ("PAT", "FastTree") if name.startswith(paper)), None)
        ratios = {
            over: [row["us"] / times[over, same_case(row)] for row in chosen if (over, same_case(row)) in times]
            for over in ("default", base)
        }
        paper = f"+{PAT_TIMES[name]} %" if name in PAT_TIMES else ""
        bubbles = [100 * row["bubble_share"] for row in chosen if "bubble_share" in row]
        idle = f"{sum(bubbles) / len(bubbles):.0f} %" if bubbles else ""
        lines.append([name, str(len(chosen)), *mean_and_span(ratios["default"]), *mean_and_span(ratios[base]), paper])
        lines[-1].append(idle)
    header = [
        "method", "cases", "time over the default's", "range", "over its paper's method", "range", "paper, A100",
        "bubbles",
    ]  # fmt: skip
    return table(header, lines)


def merges(rows: list[dict]) -> str:
    separate = {same_case(row): row["us"] for row in rows if method(row) == "separate"}
    fused = [row for row in rows if method(row) == "fused" and same_case(row) in separate]
    lines = []
    for heads, chosen in by(fused, lambda row: row["heads"]).items():
        with_partials = [row for row in chosen if row["partials"]]
        ratios = [row["us"] / separate[same_case(row)] for row in chosen]
        some = [row["us"] / separate[same_case(row)] for row in with_partials]
        lines.append([heads, str(len(chosen)), *mean_and_span(ratios), str(len(some)), *mean_and_span(some)])
    header = ["heads", "cases", "fused over separate", "range", "with partials", "fused over separate", "range"]
    return table(header, lines)


def equivalence(rows: list[dict]) -> str:
    lines = []
    for case, chosen in by(rows, lambda row: row["case"]).items():
        for row in chosen:
            rate = (row["kv_bytes_distinct"] + row["qo_bytes"]) / row["us"]
            share = f"{100 * rate / rates_of(row).read_bytes_per_us:.1f} %"
            lines.append([case, row["tile"], f"{row['us']:.0f}", f"{rate / 1e6:.2f}", share, ""])
        times = [row["us"] for row in chosen]
        lines[-1][-1] = f"{100 * (max(times) / min(times) - 1):.1f} %"
    return table(["batch", "tile", "us", "TB/s", "of the read rate", "slowest over fastest"], lines)


def pages(rows: list[dict]) -> str:
    lines = []
    for case, chosen in by(rows, lambda row: row["case"]).items():
        largest = max(chosen, key=lambda row: row["page_size"])
        for row in chosen:
            best = recorded(row)
            lines.append(
                [
                    case,
                    str(row["page_size"]),
                    row["chosen"],
                    f"{row['us']:.1f}",
                    f"{row['us'] / largest['us']:.3f}",
                    f"{row['x_floor']:.2f}",
                    f"{best:.1f}" if best else "",
                ]
            )
    return table(["case", "page", "chose", "us", "over the largest page's", "x floor", "best recorded"], lines)


def half_types(rows: list[dict], f16: list[dict]) -> str:
    times = {same_case(row): row["us"] for row in f16}
    lines = []
    for suite, chosen in by(rows, lambda row: row["suite"]).items():
        ratios = [row["us"] / times[same_case(row)] for row in chosen if same_case(row) in times]
        errors = [row["max_err"] for row in chosen]
        lines.append([suite, str(len(chosen)), *mean_and_span(ratios), f"{max(errors):.0e}"])
    return table(["suite", "cases", "bf16 over f16", "range", "largest error"], lines)


def whole_runs(rows: list[dict]) -> list[dict]:
    """Sums over the kernels of a run."""
    counted = ("dram_read_bytes", "dram_write_bytes", "l2_bytes", "l2_sm_bytes")
    runs = by(rows, lambda row: (row["suite"], method(row), same_case(row)))
    return [{**run[0], **{name: sum(row[name] for row in run) for name in counted}} for run in runs.values()]


def counted_policies(rows: list[dict]) -> str:
    runs = [run for run in whole_runs(rows) if run["suite"] == "packs"]
    moved = {(method(run), same_case(run)): run["dram_read_bytes"] + run["dram_write_bytes"] for run in runs}
    lines = []
    for name, chosen in by(runs, method).items():
        over = [
            moved[name, case] / moved["profit", case] for run in chosen if ("profit", case := same_case(run)) in moved
        ]
        planned = [run["dram_read_bytes"] / (run["kv_bytes_distinct"] + run["qo_bytes"] / 2) for run in chosen]
        again = [run["l2_sm_bytes"] / run["kv_bytes_read"] for run in chosen]
        paper = f"+{PAT_BYTES[name]} %" if name in PAT_BYTES else ""
        lines.append(
            [name, str(len(chosen)), *mean_and_span(over), paper, *mean_and_span(planned), *mean_and_span(again)]
        )
    header = [
        "policy", "cases", "DRAM bytes over profit's", "range", "paper, A100", "DRAM reads over distinct K, V, Q",
        "range", "L2 bytes of SMs over planned KV reads", "range",
    ]  # fmt: skip
    return table(header, lines)


def counted_cases(rows: list[dict]) -> str:
    lines = [
        [
            run["suite"],
            run["case"],
            str(run["page_size"]),
            run["chosen"],
            *(
                f"{run[name] / 1e6:.1f}"
                for name in (
                    "kv_bytes_distinct", "kv_bytes_read", "partial_bytes", "dram_read_bytes", "dram_write_bytes",
                    "l2_sm_bytes", "l2_bytes",
                )
            ),
        ]
        for run in whole_runs(rows)
        if run["suite"] != "packs"
    ]  # fmt: skip
    header = [
        "suite", "case", "page", "chose", "planned, MB: distinct KV", "KV reads", "partials", "counted, MB: DRAM read",
        "DRAM written", "L2, by SMs", "L2, all",
    ]  # fmt: skip
    return table(header, lines)
