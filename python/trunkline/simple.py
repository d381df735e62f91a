"""One call that does all: attention of a decode step, and what its requests share."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Any

from . import _abi, errors
from ._arguments import choice, optional
from ._batches import HostBatch, on_host
from ._executors import shared_workers
from ._indices import Indices
from ._step_options import StepOptions
from ._tensors import Tensor, dtype_name, view
from .decode import LAYOUTS, LSE_BASES, DecodeAttention
from .machine import Profile, shape_struct
from .plans import POLICIES, Explanation, Forest, Planner, PlanOptions

# Idle objects. A call takes one out and puts it back at its end, so that none is ever used by two, and one whose call
# was interrupted is not used again. By thread: threads that take turns on the same would only wait for each other.
_KEPT = 16
_kept: OrderedDict[Any, DecodeAttention] = OrderedDict()


def decode_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    page_table: Indices,
    kv_lens: Indices,
    *,
    scale: float | None = None,
    kv_layout: str = "NHD",
    query_start_loc: Indices | None = None,
    query_parents: Indices | None = None,
    out: Tensor = None,
    lse: Tensor = None,
    return_lse: bool = False,
    lse_base: str = "natural",
    policy: str = "auto",
    q_scale: float | Tensor = None,
    k_scale: float | Tensor = None,
    v_scale: float | Tensor = None,
    window_left: int | None = None,
    soft_cap: float | None = None,
    sinks: Tensor = None,
) -> Any:
    """Attention of a decode step in one call: plans and runs. To run many layers by one plan, use DecodeAttention.

    q [T, Hq, d], T = B unless query_start_loc says otherwise; k_cache, v_cache [pages, P, Hkv, d] (NHD) or
    [pages, Hkv, P, d] (HND), float16, bfloat16, on the CPU also float32, all on one device, of one dtype; but caches
    may be float8_e4m3fn or float8_e5m2 on the CPU and on GPUs of compute capability 9.0; page_table [B, W], kv_lens
    [B]: row r's token t is in page page_table[r, t // P]. Page ids are checked. The other arguments are those of
    DecodeAttention.plan and run. Returns out [T, Hq, d], or (out, lse [T, Hq]) with return_lse.

    Any thread may call it at any time, in a forked child too. Requests that begin with the same pages read them once:

    >>> import numpy as np, trunkline
    >>> q = np.ones((2, 4, 64), np.float32)
    >>> k = v = np.ones((10, 16, 2, 64), np.float32)
    >>> out = trunkline.decode_attention(q, k, v, [[3, 8, 1], [3, 8, 4]], [40, 37])
    >>> out.shape, float(out.min())
    ((2, 4, 64), 1.0)
    """
    of_q, of_k = view(q, "q"), view(k_cache, "k_cache")
    for name, found, dimensions in (("q", of_q, 3), ("k_cache", of_k, 4)):
        if len(found.shape) != dimensions:
            form = "[query tokens, q_heads, head_dim]" if name == "q" else "[pages, page_size, kv_heads, head_dim]"
            raise errors.InvalidArgumentError(f"{name} has shape {list(found.shape)}; expected: {form}")
    if of_q.dtype not in (_abi.F32, _abi.F16, _abi.BF16):
        raise errors.ArgumentTypeError(f"q has dtype {of_q.dtype_name}; expected: float16, bfloat16 or float32")
    choice(LSE_BASES, lse_base, "lse_base")
    choice(POLICIES, policy, "policy")
    hnd = choice(LAYOUTS, kv_layout, "kv_layout") == 1
    pages, page_size, kv_heads = of_k.shape[0], of_k.shape[2 if hnd else 1], of_k.shape[1 if hnd else 2]
    shape = (of_q.shape[1], kv_heads, of_q.shape[2], page_size)
    key = (*shape, of_q.dtype, of_k.dtype, of_q.place, kv_layout, lse_base, policy, os.getpid(), threading.get_ident())
    attention = _kept.pop(key, None)
    if attention is None:
        attention = DecodeAttention(
            *shape,
            dtype=dtype_name(of_q.dtype),
            device=of_q.place,
            kv_layout=kv_layout,
            lse_base=lse_base,
            policy=policy,
            kv_dtype=dtype_name(of_k.dtype) if of_k.dtype in (_abi.F8E4M3, _abi.F8E5M2) else None,
        )
    try:
        attention.plan(
            page_table,
            kv_lens,
            query_start_loc=query_start_loc,
            query_parents=query_parents,
            num_pages=pages,
            check_ids=True,
        )
        return attention.run(
            q,
            (k_cache, v_cache),
            out=out,
            lse=lse,
            return_lse=return_lse,
            scale=scale,
            q_scale=q_scale,
            k_scale=k_scale,
            v_scale=v_scale,
            window_left=window_left,
            soft_cap=soft_cap,
            sinks=sinks,
        )
    finally:
        _kept[key] = attention
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)


def explain(
    page_table: Indices,
    kv_lens: Indices,
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim: int,
    page_size: int,
    *,
    dtype: object = "float16",
    policy: str = "auto",
    options: PlanOptions | None = None,
    profile: Profile | None = None,
    device: object = "cpu",
    query_start_loc: Indices | None = None,
    query_parents: Indices | None = None,
    title: str = "Decode step",
) -> Explanation:
    """Explains the sharing in a step and the plans for it, without running anything. The text has the figures; in a
    notebook it shows the page that `trunkline plan --html` writes.

    profile: the machine; with device="cuda" and, say, Profile.named("h200-sxm") no GPU need be there.

    >>> import trunkline
    >>> print(trunkline.explain([[3, 8, 1], [3, 8, 4]], [40, 37], 8, 2, 64, 16).statistics.kv_tokens_distinct)
    45
    """
    shape = shape_struct(num_qo_heads, num_kv_heads, head_dim, page_size, dtype, device)
    optional(profile, Profile, "profile")
    if profile is None:
        if shape.device == _abi.CUDA:
            profile = Profile.cuda(num_qo_heads, num_kv_heads, head_dim, page_size, dtype=dtype, device=device)
        else:
            profile = Profile.generic_cpu(shared_workers().size)
    options = optional(options, PlanOptions, "options") or PlanOptions(policy=policy)
    batch = HostBatch(page_size)
    batch.dense(on_host(page_table), on_host(kv_lens))
    batch.rest(StepOptions(query_start_loc=query_start_loc, query_parents=query_parents))
    forest = Forest()
    forest._build(batch, True)
    return Explanation(Planner(profile, shape, options), forest._handle.value, title)
