"""Tables of the suites that set `auto` beside other methods, and of what the cost model predicts."""

from gpu_rows import by, kernels, method, ran_single_query, same_case, what_ran
from report import geometric_mean, table

NEAR = 1.02  # a plan's time differs by as much from run to run


def named_extreme(rows: list[dict], key, extreme) -> str:
    """ "2.10: ragged#17" """
    row = extreme(rows, key=key)
    return f"{key(row):.2f}: {row['case']}"


def beside_flat(rows: list[dict]) -> list[dict]:
    """Rows of the default with `flat_us` and `over_flat`; nothing of cases that lack one of the two."""
    flat = {same_case(row): row["us"] for row in rows if method(row) == "flat"}
    return [
        {**row, "flat_us": flat[case], "over_flat": row["us"] / flat[case]}
        for row in rows
        if method(row) == "default" and (case := same_case(row)) in flat
    ]


def over_floor_and_flat(rows: list[dict], key: str) -> str:
    """A line for each value of a row's field, and one for all."""
    paired = beside_flat(rows)
    lines = []
    for name, chosen in [*by(paired, lambda row: row[key]).items(), ("all", paired)] if paired else []:
        floors = [row["x_floor"] for row in chosen]
        over = [row["over_flat"] for row in chosen]
        lines.append(
            [
                name,
                str(len(chosen)),
                f"{geometric_mean(floors):.2f}",
                named_extreme(chosen, lambda row: row["x_floor"], max),
                f"{geometric_mean(over):.2f}",
                f"{min(over):.2f}",
                named_extreme(chosen, lambda row: row["over_flat"], max),
            ]
        )
    header = [
        key, "cases", "x floor, geometric mean", "worst", "time over `flat`'s, geometric mean", "least", "most",
    ]  # fmt: skip
    return table(header, lines)


def each_beside_flat(rows: list[dict]) -> str:
    lines = [
        [
            row["case"],
            row["heads"],
            str(row["page_size"]),
            str(row["requests"]),
            str(row["nodes"]),
            f"{row['kv_bytes_distinct'] / 1e6:.0f}",
            what_ran(row),
            f"{row['us']:.1f}",
            f"{row['floor_us']:.1f}",
            f"{row['x_floor']:.2f}",
            "" if ran_single_query(row) else f"{row['predicted_us']:.0f}",
            f"{row['flat_us']:.1f}",
            f"{row['over_flat']:.2f}",
        ]
        for row in beside_flat(rows)
    ]
    header = [
        "case", "heads", "page", "requests", "nodes", "distinct MB", "chose", "us", "floor", "x floor", "predicted",
        "`flat`, us", "over `flat`",
    ]  # fmt: skip
    return table(header, lines)


def regret(rows: list[dict]) -> str:
    """Each method's time over the best's; the best is one of those that leave `auto` nothing to choose."""
    cases = by(rows, same_case)
    fixed = {case: [row for row in run if row["policy"] != "auto"] for case, run in cases.items()}
    best = {case: min(run, key=lambda row: row["us"]) for case, run in fixed.items() if run}
    chosen = [row["chosen"] for row in rows if row["policy"] == "auto"]
    lines = []
    for name, run in by(rows, method).items():
        over = [{**row, "over": row["us"] / best[case]["us"]} for row in run if (case := same_case(row)) in best]
        if not over:
            continue
        lines.append(
            [
                name,
                str(len(over)),
                f"{geometric_mean([row['over'] for row in over]):.3f}",
                named_extreme(over, lambda row: row["over"], max),
                str(sum(row["over"] <= NEAR for row in over)),
                "" if name == "auto" else str(sum(method(row) == name for row in best.values())),
                str(chosen.count(name)) if run[0]["policy"] == name != "auto" else "",
            ]
        )
    header = [
        "method", "cases", "time over the best's, geometric mean", "worst", "within 2 % in", "best in",
        "`auto` chose it in",
    ]  # fmt: skip
    return table(header, lines)


def cost_model(files: dict[str, list[dict]]) -> str:
    """Predicted over measured time, for each head set and method of a file."""
    lines = []
    for name, rows in files.items():
        both = [row for row in rows if "us" in row and "predicted_us" in row and not ran_single_query(row)]
        groups = by(both, lambda row: (kernels(row), row["heads"], method(row)))
        for (ran_on, heads, way), chosen in groups.items():
            ratios = [row["predicted_us"] / row["us"] for row in chosen]
            lines.append(
                [name, ran_on, heads, way, str(len(chosen)), f"{geometric_mean(ratios):.2f}"]
                + [f"{min(ratios):.2f}", f"{max(ratios):.2f}"]
            )
    header = ["suite", "kernels", "heads", "method", "cases", "geometric mean", "least", "most"]
    return table(header, lines)


def hopper_over_portable(files: dict[str, list[dict]]) -> str:
    """Time of the Hopper kernels over the portable ones', of a file's cases that have both by the default method."""
    lines = []
    for name, rows in files.items():
        kinds = by([row for row in rows if "us" in row and method(row) == "default"], kernels)
        portable = {same_case(row)[:-1]: row["us"] for row in kinds.get("portable", [])}
        over = [
            {**row, "over": row["us"] / portable[case], "case": f"{row['case']} at {row['heads']}"}
            for row in kinds.get("hopper", [])
            if (case := same_case(row)[:-1]) in portable
        ]
        if over:
            lines.append([name, str(len(over)), f"{geometric_mean([row['over'] for row in over]):.2f}"])
            lines[-1] += [named_extreme(over, lambda row: row["over"], extreme) for extreme in (min, max)]
            lines[-1].append(str(sum(row["over"] > 1 for row in over)))
    return table(["suite", "cases", "time, geometric mean", "min", "max", "slower in"], lines)


def idle_workers(files: dict[str, list[dict]]) -> str:
    """Share of the forward pass in which workers had no task, over a file's cases by the default method."""
    lines = []
    for name, rows in files.items():
        chosen = [row for row in rows if "bubble_share" in row and method(row) == "default"]
        for ran_on, run in by(chosen, kernels).items():
            shares = sorted(100 * row["bubble_share"] for row in run)
            most = max(run, key=lambda row: row["bubble_share"])
            lines.append([name, ran_on, str(len(run)), f"{shares[len(shares) // 2]:.0f} %", f"{shares[-1]:.0f} %"])
            lines[-1][-1] += f": {most['case']} at {most['heads']}"
    return table(["suite", "kernels", "cases", "median", "max"], lines)
