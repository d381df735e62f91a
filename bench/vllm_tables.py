"""Tables of bench/results/vllm/README.md, each of the rows of one kind."""

from report import table


def number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)


def ratio(found: dict | None) -> str:
    """With its interval, where it has one."""
    if not found or found.get("ratio") is None:
        return "-"
    if found["ratio_lo"] is None:
        return f"{found['ratio']:.3f} (one pair)"
    return f"{found['ratio']:.3f} ({found['ratio_lo']:.3f} to {found['ratio_hi']:.3f})"


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
    """With what two captures of the baseline differ by, and the host's time of a step's metadata; without columns that
    no row has a value of."""
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
    header += [f"{subject} against itself", "pairs", "build, us", f"attention of {base}, ms", "floor", "recovered"]
    known = [place for place in range(len(header)) if any(line[place].strip("-/") for line in lines)]
    return table([header[place] for place in known], [[line[place] for place in known] for line in lines])


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
            *(ratio(row["ratios"].get(metric)) for metric in ("mean_tpot_ms", "mean_ttft_ms", "mean_e2el_ms")),
            "/".join(str(count) for count in row["failures"].values()),
        ]
        for row in rows
    ]
    header = ["workload", "requests", "rounds", "completion, ms", "TTFT", "TPOT", "P99 TPOT", "P99 ITL", "tokens/s"]
    header += [f"{what}, ratio (95 %)" for what in ("TPOT", "TTFT", "completion")]
    return table([*header, "failures"], lines)


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
