"""Tables of bench/results/vllm/README.md about models that are split over GPUs (tensor parallelism)."""

from report import table
from vllm_tables import number


def ranks_of(row: dict) -> int:
    """Rows before --tensor-parallel are of one GPU."""
    return row.get("tensor_parallel", 1)


def kernels_by_rank(rows: list[dict]) -> str:
    """The kernels of a step on each rank, the baseline's and the subject's, where rows have them."""
    lines = []
    for row in rows:
        sides = [row.get("profile", {}).get(row[side], {}).get("by_rank", []) for side in ("baseline", "subject")]
        for rank, pair in enumerate(zip(*sides, strict=True)):
            parts = ("attention", "plan", "collectives", "waits")
            times = ["/".join(number(found[f"{part}_ms"], ".3f") for found in pair) for part in parts]
            lines.append([row["workload"], str(rank), *times])
    if not lines:
        return ""
    header = ["workload", "rank", *(f"{part}, ms" for part in ("attention", "plan", "collectives", "of these waits"))]
    about = (
        f"Kernels by rank, `{rows[0]['baseline']}`/`{rows[0]['subject']}`. Collectives end when the last rank has come "
        "to them:\na wait is their time beyond that of the rank whose collectives are shortest.\n\n"
    )
    return about + table(header, lines)


def plans(rows: list[dict]) -> str:
    """The share of keys and values that plans read: 1.00 where they were `flat`."""
    known = [row for row in rows if row.get("plans", {}).get("kv_tokens")]
    told = [f"{row['workload']} {row['plans']['kv_tokens_read'] / row['plans']['kv_tokens']:.2f}" for row in known]
    return (
        f"Keys and values read, of those of all requests (1.00: plans were `flat`): {', '.join(told)}.\n"
        if told
        else ""
    )


def choices(rows: list[dict]) -> str:
    """The steps with prefill in which ranks decided differently, of the rows that compare ranks."""
    return "".join(
        f"Tensor parallel {ranks_of(row)}: of {row['mixed_decisions']:,} steps with prefill beside decode rows, ranks "
        f"decided {row['decided_apart']:,} differently.\n"
        for row in rows
        if "mixed_decisions" in row
    )


def scaling(rows: list[dict]) -> str:
    """Step times on one GPU over those on several, of the workloads that have both."""
    by_ranks: dict[tuple[str, str, str], dict[int, dict]] = {}
    for row in rows:
        by_ranks.setdefault((row["workload"], row["baseline"], row["subject"]), {})[ranks_of(row)] = row
    lines = []
    for (workload, base, subject), found in by_ranks.items():
        for ranks, row in sorted(found.items()):
            if ranks > 1 and 1 in found:
                pairs = [(found[1]["step_ms"][side], row["step_ms"][side]) for side in (base, subject)]
                lines.append([workload, f"`{subject}`, `{base}`", str(ranks)])
                lines[-1] += [f"{one / several:.2f}" for one, several in reversed(pairs)]
    if not lines:
        return ""
    header = ["workload", "sides", "GPUs", "first side: speed over one GPU", "second side"]
    return "### Scaling\n\n" + table(header, lines)
