"""Splits a decode step's GPU time into families of kernels, by the kernels' names."""

import re

FAMILIES = (  # the first that matches
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
    own kernels), or "other"."""
    return next((name for name, pattern in FAMILIES if pattern.search(kernel)), "other")


def per_step(kernels: dict[str, float], steps: int, listed: int = 12) -> dict:
    """Milliseconds a step by family, in all, and of the longest kernels, from microseconds over `steps` steps."""
    sums = {name: 0.0 for name in ("attention", "plan", "kv_write", "sampling", "other")}
    for kernel, us in kernels.items():
        sums[family(kernel)] += us / steps / 1e3
    longest = sorted(kernels.items(), key=lambda item: -item[1])
    shown = [item for item in longest if family(item[0]) != "other"] + longest[:listed]
    return {
        **{f"{name}_ms": round(ms, 4) for name, ms in sums.items()},
        "kernels_ms": round(sum(sums.values()), 4),
        "kernels": {name[:120]: round(us / steps / 1e3, 4) for name, us in dict(shown).items()},
    }
