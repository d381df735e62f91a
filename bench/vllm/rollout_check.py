"""Checks of rollout.py for the first run on a machine: small shapes, no times."""

import time

import check_prompts
import rank_sides
import workloads
from decode_steps import DecodeBatch
from engine_worker import Worker

SHAPES = ("rollout_2x4x256", "rollout_4x2x1k")
LIMIT = 48  # tokens of an answer
CHANGE_FLOOR = 1e-3  # other weights must move log-probabilities by more, in the mean


def shrink(given) -> None:
    """Options of a run that takes about a minute beside the engine's start; its rows are not to be filed."""
    given.workloads, given.rounds, given.commit = list(SHAPES), 3, "unknown"
    given.answer_median, given.answer_limit = LIMIT / 2, LIMIT


def wrong_of(engine, switch, given, rows: list[dict]) -> list[str]:
    """Lists faults, in words. It reads the rows, and runs a few steps more if those have none."""
    turns = [row for row in rows if row["kind"] == "rollout_turn"]
    wrong = [text for row in turns for text in wrong_in_turn(row, given.sleep_level)]
    if len(turns) != len(given.workloads) * given.rounds * len(given.names):
        wrong.append(f"{len(turns)} turns of {len(given.workloads) * given.rounds * len(given.names)}")
    wrong += [f"{row['workload']}: {row['error'][-300:]}" for row in rows if row["kind"] == "error"]
    for row in (row for row in rows if row["kind"] == "check" and not row["passed"]):
        wrong.append(f"{row['subject']} and {row['baseline']} disagree, {row['workload']}")
    if wrong:  # the engine may be asleep
        return wrong
    return wrong_weights(engine, switch, given) + wrong_kernels(engine, switch, given)


def wrong_in_turn(row: dict, sleep_level: int) -> list[str]:
    name = f"{row['workload']}, round {row['round']}, {row['side']}"
    steps = sum(count for count, _ in row["by_live"].values())
    told = {
        f"{row['tokens']} tokens, {row['tokens_asked']} were asked for": row["tokens"] != row["tokens_asked"],
        f"{row['failures']} requests failed: {row['why']}": row["failures"] > 0,
        "the prefix cache was not empty": not row["emptied"],
        "no step read a prompt": row["prefill_steps"] == 0,
        f"{row['decode_steps']} decode steps, {steps} by live requests": not 0 < row["decode_steps"] == steps,
        f"{row['decode_steps']} decode steps of answers of up to {LIMIT} tokens": row["decode_steps"] > 2 * LIMIT,
        "more live requests than there are": max(map(int, row["by_live"]), default=0) > row["requests"],
        "the batch did not shrink": len(row["by_live"]) < 2,
        f"{row['other_s']:.3f} s of {row['seconds']:.3f} are of no step": not 0 <= row["other_s"] < row["seconds"] / 2,
        f"sleep gave {row.get('freed_gib')} GiB back": sleep_level > 0 and row.get("freed_gib", 0) <= 0,
    }
    return [f"{name}: {text}" for text, is_wrong in told.items() if is_wrong]


def wrong_weights(engine, switch, given) -> list[str]:
    """Checks that another number gives other weights, and that a number gives the same weights again."""
    switch.use(rank_sides.THEIRS)
    found = []
    for number in (7, 8, 7):
        engine.new_weights(number, given.weight_change)
        engine.forget()
        found.append(Worker(engine).do_logprobs(check_prompts.STEPS)["logprobs"])
    moved, _ = check_prompts.differences(found[0], found[1])
    back, _ = check_prompts.differences(found[0], found[2])
    wrong = [f"other weights move log-probabilities by {moved:.5f} in the mean"] if moved < CHANGE_FLOOR else []
    return wrong + ([f"the same weights again: {back:.5f} in the mean"] if back > moved / 2 else [])


def wrong_kernels(engine, switch, given) -> list[str]:
    """Checks that each side runs kernels of its own."""
    workload = workloads.build("deft_shots_20")
    batch = DecodeBatch(engine, workload, f"kernels.{time.monotonic_ns()}")
    batch.until_all_decode(given.limit_s)
    kernels = {}
    for side in given.names:
        switch.use(side)
        batch.turn(4, 0, given.limit_s)
        kernels[side] = [set(found) for found in engine.kernels(batch.step, 4)]
    batch.finish()
    wrong = []
    for side, ranks in kernels.items():
        if any(any("trunkline" in name for name in names) != (side == rank_sides.OURS) for names in ranks):
            wrong.append(f"{side} runs {'no' if side == rank_sides.OURS else 'a'} kernel of Trunkline")
    if kernels.get(rank_sides.RIVAL) == kernels[rank_sides.THEIRS]:
        wrong.append("the rival runs the baseline's kernels")
    return wrong
