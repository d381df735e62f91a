"""Splits a decode step's GPU time into families of kernels, by the kernels' names."""

import re

FAMILIES = (  # the first that matches
    ("collectives", re.compile(r"nccl|cross_device_reduce|all_?reduce|all_?gather|multimem", re.I)),
    ("kv_write", re.compile(r"reshape_and_cache|concat_and_cache|slot_mapping")),
    ("attention", re.compile(r"trunkline.*(forward_kernel|single_query|merge_kernel|merge_states_kernel)")),
    ("plan", re.compile(r"trunkline")),
    ("sampling", re.compile(r"^_(gumbel|philox|temperature|topk|min_p|penalties|bincount|bias|ranks)\w*_kernel")),
    (
        "attention",
        re.compile(r"^(?!triton_).*(flash|fmha|merge_attn_states|unified_attention|prepare_varlen)", re.I),
    ),
)


def family(kernel: str) -> str:
    """ "attention", "plan" (what decides of a step's work), "kv_write", "sampling" (model runner V2's
    own kernels), "collectives" (all-reduces of a model that is split over GPUs), or "other"."""
    return next((name for name, pattern in FAMILIES if pattern.search(kernel)), "other")


def family_sums(kernels: dict[str, float], steps: int) -> dict[str, float]:
    """Milliseconds a step by family, from microseconds over `steps` steps."""
    sums = dict.fromkeys(("attention", "plan", "kv_write", "collectives", "sampling", "other"), 0.0)
    for kernel, us in kernels.items():
        sums[family(kernel)] += us / steps / 1e3
    return sums


def per_step(kernels: dict[str, float], steps: int, listed: int = 12) -> dict:
    """Milliseconds a step by family, in all, and of the longest kernels, from microseconds over `steps` steps."""
    sums = family_sums(kernels, steps)
    longest = sorted(kernels.items(), key=lambda item: -item[1])
    shown = [item for item in longest if family(item[0]) != "other"] + longest[:listed]
    return {
        **{f"{name}_ms": round(ms, 4) for name, ms in sums.items()},
        "kernels_ms": round(sum(sums.values()), 4),
        "kernels": {name[:120]: round(us / steps / 1e3, 4) for name, us in dict(shown).items()},
    }


def of_ranks(ranks: list[dict[str, float]], steps: int) -> dict:
    """per_step of the first rank; of several ranks also each one's sums, as `by_rank`.

    A collective ends on all ranks when the last one has come to it. So the longer a rank waits for others, the longer
    its collectives: `waits_ms` is their time beyond that of the rank whose collectives are shortest.
    """
    found = per_step(ranks[0], steps)
    if len(ranks) == 1:
        return found
    by_rank = [family_sums(kernels, steps) for kernels in ranks]
    shortest = min(sums["collectives"] for sums in by_rank)
    told = [sums | {"waits": sums["collectives"] - shortest} for sums in by_rank]
    return found | {"by_rank": [{f"{name}_ms": round(ms, 4) for name, ms in sums.items()} for sums in told]}
