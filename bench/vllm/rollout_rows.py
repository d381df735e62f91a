"""Rows that compare two sides' rollouts over the same rounds."""

import statistics

import pairing
from rollout_loop import by_range

# The parts of a turn, in seconds; a turn without sleep lacks some.
PARTS = (
    "seconds", "admit_s", "prefill_s", "decode_s", "other_s", "sleep_s", "wake_weights_s", "weights_s", "wake_cache_s",
)  # fmt: skip
WHOLE = "iteration_s"  # the rollout and all that follows it


def rows_of(found: dict[str, list[dict]], rival: str, subject: str) -> list[dict]:
    """A row for each pair of sides: all against the first, and `subject` against `rival` where there is one. found:
    the turns of each side, by round; ValueError where no round was measured."""
    first, *others = found
    if not found[first]:
        raise ValueError("no round was measured")
    pairs = [(first, side) for side in others]
    if rival in found:
        pairs.append((rival, subject))
    return [{"kind": "rollout", **pair_row(found, *pair)} for pair in pairs]


def pair_row(found: dict[str, list[dict]], base: str, subject: str) -> dict:
    """`ratio` is of the rollouts' seconds. Rounds with a failed request are left out: they are of fewer tokens."""
    names = (base, subject)
    failures = {name: sum(turn["failures"] for turn in found[name]) for name in names}
    sound = [i for i, turns in enumerate(zip(*(found[name] for name in names), strict=True)) if not any_failed(turns)]
    turns = {name: [found[name][i] for i in sound] for name in names}
    row = {"baseline": base, "subject": subject, "over": "rounds", "rounds": len(sound), "failures": failures}
    if not sound:
        return row | {"ratio": None, "ratio_lo": None, "ratio_hi": None, "pairs": 0}
    ratios = {}
    for part in (*PARTS, WHOLE):
        values = [[turn.get(part) for turn in turns[name]] for name in names]
        if all(value is not None and value > 0 for side in values for value in side):
            ratios[part] = pairing.ratio_of_pairs(*values)
    return {
        **row,
        **ratios["seconds"],
        "ratios": ratios,
        "means": {name: means(turns[name]) for name in names},
        "by_live": live_rows(*(by_range(turns[name]) for name in names), names),
    }


def any_failed(turns) -> bool:
    return any(turn["failures"] for turn in turns)


def means(turns: list[dict]) -> dict:
    """The mean of each part over the rounds, and the rate of tokens."""
    found = {}
    for part in (*PARTS, WHOLE, "half_done_s", "tokens", "prefill_steps", "decode_steps", "build_us", "prepare_us"):
        values = [turn[part] for turn in turns if turn.get(part) is not None]
        if values:
            found[part] = round(statistics.fmean(values), 4)
    return found | {"tokens_per_s": round(statistics.fmean(turn["tokens"] / turn["seconds"] for turn in turns), 1)}


def live_rows(base: dict, subject: dict, names: tuple[str, str]) -> dict:
    """The mean step of each side by range of live requests, and the ratio over rounds in which both have such steps."""
    made = {}
    for live in base:
        pairs = [
            (a, b) for a, b in zip(base[live], subject.get(live, []), strict=False) if a is not None and b is not None
        ]
        if pairs:
            sides = list(zip(*pairs, strict=True))
            step_ms = {name: round(statistics.fmean(side), 4) for name, side in zip(names, sides, strict=True)}
            made[live] = {"step_ms": step_ms, **pairing.ratio_of_pairs(*map(list, sides))}
    return made
