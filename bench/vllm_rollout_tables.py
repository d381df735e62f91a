"""Tables of bench/results/vllm/README.md: rollouts, and the prompt lengths from which on sharing gains."""

import re

from report import table
from vllm_tables import number, pair, ratio

GAINS = (2, 5, 10, 50)  # per cent of a step
NAME = re.compile(r"crossover_(\d+)x(\d+)x(\d+)(k?)$")
BETWEEN = {
    "sleep_s": "sleep",
    "wake_weights_s": "wake: weights",
    "weights_s": "new weights",
    "wake_cache_s": "wake: KV",
}


def rollouts(rows: list[dict]) -> str:
    """Rollouts of one pair of sides: the whole, its parts, and decode steps by live requests."""
    measured = [row for row in rows if row["pairs"]]
    if not measured:
        return "No round without failed requests.\n"
    base, subject = rows[0]["baseline"], rows[0]["subject"]
    lines = []
    for row in measured:
        before, after = row["means"][base], row["means"][subject]
        lines.append(
            [
                row["workload"].removeprefix("rollout_"),
                str(row["rounds"]),
                pair(before, after, "seconds", form=".2f"),
                ratio(row["ratios"].get("seconds")),
                pair(before, after, "prefill_s", form=".2f"),
                pair(before, after, "decode_s", form=".2f"),
                ratio(row["ratios"].get("decode_s")),
                pair(before, after, "half_done_s", form=".2f"),
                pair(before, after, "tokens_per_s", form=",.0f"),
                ratio(row["ratios"].get("iteration_s")),
                "/".join(str(count) for count in row["failures"].values()),
            ]
        )
    header = ["prompts x samples x tokens", "rounds", "rollout, s", "ratio (95 %)", "prefill, s", "decode, s"]
    header += [
        "decode, ratio (95 %)",
        "half have ended, s",
        "tokens/s",
        "with sleep and weights, ratio (95 %)",
        "failures",
    ]
    about = re.sub(r"^.*?; ", "", measured[0]["about"])
    return "\n".join(
        [
            f"All requests arrive at once; {about}.\n",
            table(header, lines),
            between(measured),
            "Decode steps by live requests, ms, and their ratio (95 %).\n",
            by_live(measured),
            slower_steps(measured),
        ]
    )


def between(rows: list[dict]) -> str:
    """Seconds between rollouts: the range of all sides' means, for attention has no part in it."""
    told = []
    for part, name in BETWEEN.items():
        values = [means[part] for row in rows for means in row["means"].values() if part in means]
        if values:
            told.append(f"{name} {min(values):.2f} to {max(values):.2f}")
    level = rows[-1].get("sleep_level")
    return f"Seconds between rollouts, sleep of level {level}: {'; '.join(told)}.\n"


def by_live(rows: list[dict]) -> str:
    ranges = sorted({live for row in rows for live in row["by_live"]}, key=lambda live: int(live.partition("-")[0]))
    lines = []
    for row in rows:
        cells = [live_cell(row, row["by_live"].get(live)) for live in ranges]
        lines.append([row["workload"].removeprefix("rollout_"), *cells])
    return table(["live requests", *ranges], lines)


def live_cell(row: dict, found: dict | None) -> str:
    if found is None:
        return "-"
    times = "/".join(number(found["step_ms"][side]) for side in (row["baseline"], row["subject"]))
    return f"{times}: {ratio(found)}"


def slower_steps(rows: list[dict]) -> str:
    """The numbers of live requests at which the baseline's steps are shorter, though whole rollouts may not be."""
    behind = [
        (found["ratio"], f"{row['workload'].removeprefix('rollout_')} with {live} live ({ratio(found)})")
        for row in rows
        for live, found in row["by_live"].items()
        if found["ratio"] < 1
    ]
    told = ", ".join(text for _, text in sorted(behind))
    return f"The baseline's steps are shorter in: {told or 'none'}.\n"


def kernels(rows: list[dict]) -> str:
    """The kernels' times in a step with all requests live."""
    if not rows:
        return ""
    kinds = ("attention_ms", "plan_ms", "kv_write_ms", "sampling_ms", "other_ms")
    lines = [
        [row["workload"].removeprefix("rollout_"), side, *(number(found[kind], ".3f") for kind in kinds)]
        for row in rows
        for side, found in row["profile"].items()
    ]
    header = ["prompts x samples x tokens", "side", *(kind.removesuffix("_ms").replace("_", " ") for kind in kinds)]
    return "Kernels of a decode step with all requests live, ms; those that run side by side count each.\n\n" + table(
        header, lines
    )


def shape_of(row: dict) -> tuple[int, int, int] | None:
    """(prompts, samples, tokens of a prompt) of a row of the crossover."""
    found = NAME.match(row["workload"])
    if found is None:
        return None
    return int(found[1]), int(found[2]), int(found[3]) * (1024 if found[4] else 1)


def gain(ratio_found: float) -> float:
    """Per cent of the baseline's step that is saved."""
    return 100 * (1 - 1 / ratio_found)


def first_length(points: dict[int, dict], wanted: float) -> int | None:
    """The shortest length from which on every measured length gains that much with its whole interval."""
    found = None
    for length, row in sorted(points.items(), reverse=True):
        if row["ratio_lo"] is None or gain(row["ratio_lo"]) < wanted:
            break
        found = length
    return found


def crossovers(rows: list[dict]) -> str:
    """The prompt length from which on a step gains so much, by samples."""
    curves: dict[tuple[int, int], dict[int, dict]] = {}
    for row in rows:
        shape = shape_of(row)
        if shape:
            curves.setdefault(shape[:2], {})[shape[2]] = row
    if not curves:
        return ""
    lines = []
    for (prompts, samples), points in sorted(curves.items()):
        found = [first_length(points, wanted) for wanted in GAINS]
        lines.append([str(prompts), str(samples), *("-" if length is None else f"{length:,}" for length in found)])
    header = ["prompts", "samples of each", *(f"{wanted} %" for wanted in GAINS)]
    return (
        "Tokens of a prompt from which on a decode step is shorter by so much: of the measured lengths the shortest\n"
        "that gains it with its whole 95 % interval, as all longer ones do.\n\n" + table(header, lines)
    )
