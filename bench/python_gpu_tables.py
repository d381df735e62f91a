"""The part of bench/results/python/README.md about a GPU, from the rows of bench/python/compare_cuda.py."""

from report import geometric_mean, table

OTHERS = {  # what is compared with auto's time, as replays of graphs
    "flat_us": "our `flat`",
    "sdpa_us": "SDPA a request",
    "sdpa_padded_us": "SDPA padded",
    "gather_us": "gathering alone",
    "flashinfer_fa2": "FlashInfer fa2, recorded",
    "flashinfer_best": "FlashInfer's best, recorded",
}
# A remark for rows that were taken before methods that read the same copies were kept apart.
SAME_COPY = (
    " In these rows `flat` took its turn right after `auto`, on the same copy: where that fits in the L2 cache, as in "
    "the smallest batches, `flat` is timed too fast."
)
EAGER = {"eager_us": "auto", "sdpa_eager_us": "SDPA a request", "sdpa_padded_eager_us": "SDPA padded"}


def section(rows: list[dict]) -> list[str]:
    """Paragraphs and tables; nothing without rows."""
    if not rows:
        return []
    rows = [row | recorded(row) for row in rows]
    flex = [row for row in rows if row["suite"] == "flex"]
    compared = [row for row in rows if row["suite"] != "flex"]
    return [
        f"## On {rows[0]['device']}\n",
        introduction(rows),
        "Replays, as multiples of `auto`'s, geometric means, and their range:\n",
        summary(compared),
        losses(compared),
        "Microseconds:\n",
        cases(compared),
        *(flex_part(flex) if flex else []),
    ]


def recorded(row: dict) -> dict[str, float]:
    """FlashInfer's times as columns. Its cascades at their best cut are left out: no user has them."""
    times = {name: us for name, us in row.get("recorded_us", {}).items() if not name.endswith("best_cut")}
    fa2 = {"flashinfer_fa2": times["flashinfer_fa2"]} if "flashinfer_fa2" in times else {}
    return fa2 | ({"flashinfer_best": min(times.values())} if times else {})


def introduction(rows: list[dict]) -> str:
    first = rows[0]
    versions = ", ".join(sorted({row["version"] for row in rows}))
    commands = ", ".join(f"`{command}`" for command in sorted({row["command"] for row in rows}))
    return (
        f"Driver {first['driver']}, CUDA {first['cuda']}, torch {first['torch']}; version {versions}; {commands}. "
        f"Heads {first['heads']} of {first['head_dim']}, {first['dtype']}, pages of {first['page_size']}, consecutive; "
        "node lengths of recorded batches are rounded up to whole pages, as in the recorded runs. Methods in turn, "
        "each on tensors that have left the L2 cache (copies that rotate, more than 400 MB; above 2.5 GB one); medians "
        f"of {first['repeat']} between two events. A replay is of a CUDA graph, with the host ahead: the GPU's time "
        "alone. An eager call begins on an idle GPU and includes its launches. Outputs of all requests were compared "
        "with attention in fp32. Ours read the paged cache; SDPA and flex attention read what was gathered from it "
        "beforehand. FlashInfer's times were taken apart, on the same kind of GPU: versions and method are in "
        "[bench/recorded/h200.json](../../recorded/h200.json)."
        f"{'' if all(row.get('copies_apart') for row in rows) else SAME_COPY}\n"
    )


def spread(found: list[float]) -> str:
    return f"{geometric_mean(found):.2f} ({min(found):.2f} to {max(found):.2f})" if found else "-"


def by_suite(rows: list[dict]) -> dict[str, list[dict]]:
    return {suite: [row for row in rows if row["suite"] == suite] for suite in dict.fromkeys(r["suite"] for r in rows)}


def summary(rows: list[dict]) -> str:
    lines = []
    for suite, of in by_suite(rows).items():
        line = [suite, str(len(of))]
        line += [spread([row[name] / row["us"] for row in of if name in row]) for name in OTHERS]
        lines.append(line)
    return table(["suite", "cases", *(f"{name} / auto" for name in OTHERS.values())], lines)


def losses(rows: list[dict]) -> str:
    """Where something is faster than auto: torch in the same run, FlashInfer in the recorded ones."""
    behind = []
    for row in rows:
        for name in ("sdpa_us", "sdpa_padded_us", "flashinfer_best"):
            if row.get(name, row["us"]) < row["us"]:
                behind.append(f"{OTHERS[name]} in {row['case']} ({row[name] / row['us']:.2f}x)")
    if not behind:
        return f"None of these but gathering is faster than `auto` in any of the {len(rows)} rows.\n"
    return f"Faster than `auto`: {', '.join(behind)}.\n"


def microseconds(row: dict, name: str) -> str:
    return f"{row[name]:.1f}" if name in row else "-"


def cases(rows: list[dict]) -> str:
    columns = {"us": "auto"} | OTHERS | {name: f"{words}, eager" for name, words in EAGER.items()}
    columns |= {"run_host_us": "run, host", "plan_us": "plan, host"}
    lines = [
        [
            row["case"],
            str(row["requests"]),
            f"{row['kv_tokens_total']:,}",
            f"{row['kv_tokens_distinct']:,}",
            row["chosen"],
            *(microseconds(row, name) for name in columns),
            f"{row['max_err']:.0e}",
        ]
        for row in rows
    ]
    return table(["case", "requests", "tokens, one at a time", "distinct", "chose", *columns.values(), "error"], lines)


def flex_part(rows: list[dict]) -> list[str]:
    lines = [
        [
            row["case"],
            str(row["requests"]),
            *(microseconds(row, name) for name in ("us", "flex_us")),
            f"{row['flex_us'] / row['us']:.2f}" if "flex_us" in row else "-",
            *(microseconds(row, name) for name in ("eager_us", "flex_eager_us")),
            f"{row['flex_first_s']:.0f}",
        ]
        for row in rows
    ]
    header = ["case", "requests", "auto, us", "flex, us", "flex / auto", "auto, eager", "flex, eager", "first call, s"]
    return [
        "Flex attention takes such a batch as one compiled call: keys and values of each page once, a mask that says "
        "which request has which page, and requests in groups of at most 127 query rows a KV head, as only below 128 "
        "it divides KV among the GPU's cores. The mask, which a step would have to renew, is made beforehand; the "
        "first call compiles.\n",
        table(header, lines),
    ]
