"""Prompts on which engines are compared before anything is timed, and how far apart they may be."""

from drawn import Drawn

STEPS = 16
# bf16 rounds an attention output to 1 in 256; what that makes of a log-probability is measured as `noise`: one engine
# against itself with its requests in other batches. Below these no difference counts.
MEAN_FLOOR, MAX_FLOOR = 0.01, 0.1
TIMES_NOISE = 3.0


def check_prompts(seed: int) -> tuple[list[list[int]], list[int]]:
    """(prompts, a token to force after each): two levels of sharing, one long prefix, one short prefix, equal prompts,
    and prompts that share nothing; lengths end anywhere in a page. A short text has few keys, so that one which is
    left out or read twice shows."""
    drawn = Drawn("check", seed)
    long, short, branch = drawn(2048, "long"), drawn(48, "short"), drawn(176, "branch")
    prompts = [long + drawn(5 + 9 * i, "own", i) for i in range(6)]
    prompts += [long + branch + drawn(3 + 7 * i, "leaf", i) for i in range(6)]
    prompts += [short + drawn(2 + 5 * i, "after short", i) for i in range(8)]
    prompts += [drawn(333, "twice")] * 3
    prompts += [drawn(length, "alone", length) for length in (1, 17, 64, 300, 1029)]
    forced = drawn(len(prompts), "forced")
    return prompts, forced


def differences(ours: list[list[float]], theirs: list[list[float]]) -> tuple[float, float]:
    """(mean, largest) absolute difference; ValueError where lengths differ, infinite where a value is no number."""
    if [len(row) for row in ours] != [len(row) for row in theirs]:
        raise ValueError("the engines returned different numbers of tokens")
    found = [abs(a - b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True)]
    if not found:
        raise ValueError("no log-probabilities to compare")
    found = [value if value == value else float("inf") for value in found]
    return sum(found) / len(found), max(found)


def verdict(base: list[list[float]], again: list[list[float]], subject: list[list[float]]) -> dict:
    """Whether `subject` agrees with `base`, given that `again` is the same engine in other batches."""
    noise_mean, noise_max = differences(base, again)
    mean, largest = differences(base, subject)
    mean_limit, max_limit = max(MEAN_FLOOR, TIMES_NOISE * noise_mean), max(MAX_FLOOR, TIMES_NOISE * noise_max)
    return {
        "passed": mean <= mean_limit and largest <= max_limit,
        "logprob_mean_diff": mean,
        "logprob_max_diff": largest,
        "mean_limit": mean_limit,
        "max_limit": max_limit,
        "noise_mean_diff": noise_mean,
        "noise_max_diff": noise_max,
        "tokens": sum(len(row) for row in base),
    }
