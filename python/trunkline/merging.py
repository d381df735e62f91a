"""Merging attention states: of the same queries over disjoint sets of tokens, into attention over all of them."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from . import _abi, errors
from ._library import c, check, new
from ._tensors import Indices, Tensor, empty_lse, host_ints, is_torch, tensor_struct, view
from .decode import LSE_BASES
from .machine import choice


def merge_states(
    states: Tensor,
    state_lse: Tensor,
    begin: Indices,
    slots: Indices | None = None,
    *,
    out: Tensor = None,
    lse: Tensor = None,
    lse_base: str = "natural",
    stream: int | None = None,
) -> tuple[Any, Any]:
    """Row n merges states slots[begin[n]] to slots[begin[n + 1] - 1], in this order.

    states [S, Hq, d], float16, bfloat16 or float32; state_lse [S, Hq] of float32; begin [N + 1] from 0; slots
    [begin[N]], None: 0, 1, 2, .. Returns (out [N, Hq, d], lse [N, Hq]); rows without states get 0 and -inf. Outputs
    that are given may not overlap what is read. On a GPU begin and slots are int32 tensors there, and are not checked.

    >>> import numpy as np, trunkline
    >>> states = np.eye(2, 64, dtype=np.float32)[:, None]
    >>> out, lse = trunkline.merge_states(states, np.zeros((2, 1), np.float32), [0, 2])
    >>> out[0, 0, :3], round(float(lse[0, 0]), 4)
    (array([0.5, 0.5, 0. ], dtype=float32), 0.6931)
    """
    keep: list[object] = []
    given = tensor_struct(states, "states", keep)
    found = view(states, "states")
    if len(found.shape) != 3:
        raise errors.InvalidArgumentError(
            f"states has shape {list(found.shape)}; expected: [states, q_heads, head_dim]"
        )
    on_gpu = found.device == _abi.CUDA
    starts = _list(begin, "begin", found, keep)
    places = None if slots is None else _list(slots, "slots", found, keep)
    rows = starts[1] - 1
    if rows < 0:
        raise errors.InvalidArgumentError("begin is empty; expected: [rows + 1], from 0")
    if not on_gpu:
        last = int(host_ints(begin, "begin").numpy()[-1])
        if places is not None and last > places[1]:
            raise errors.InvalidArgumentError(f"begin ends with {last}, but slots has {places[1]} entries")
    shape = (rows, *found.shape[1:])
    if out is None:
        out = np.empty(shape, states.dtype) if isinstance(states, np.ndarray) else _empty(states, shape)
    if lse is None:
        lse = empty_lse(states, shape[:2])
    merge = new(
        _abi.Merge,
        states=given,
        state_lse=tensor_struct(state_lse, "state_lse", keep),
        out=tensor_struct(out, "out", keep, written=True),
        lse=tensor_struct(lse, "lse", keep, written=True),
        begin=starts[0],
        slots=None if places is None else places[0],
        lse_base=choice(LSE_BASES, lse_base, "lse_base"),
    )
    if on_gpu:
        if stream is None:
            torch = sys.modules.get("torch")
            stream = int(torch.cuda.current_stream(found.device_index).cuda_stream) if torch is not None else 0
        check(c.trunkline_cuda_merge_states(ctypes.byref(merge), found.device_index, stream))
    else:
        check(c.trunkline_merge_states(ctypes.byref(merge)))
    return out, lse


def merge_state(v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor, *, lse_base: str = "natural") -> tuple[Any, Any]:
    """Two states of the same queries: v_a, v_b [T, Hq, d], s_a, s_b [T, Hq]. Copies them together first."""
    library: Any = sys.modules["torch"] if is_torch(v_a) else np
    states, state_lse = library.stack([v_a, v_b], 1), library.stack([s_a, s_b], 1)
    rows = v_a.shape[0]
    where = {"device": v_a.device} if is_torch(v_a) else {}
    begin = library.arange(0, 2 * rows + 1, 2, dtype=library.int32, **where)
    both = states.reshape(2 * rows, *v_a.shape[1:]), state_lse.reshape(2 * rows, *s_a.shape[1:])
    return merge_states(*both, begin, lse_base=lse_base)


def _list(values: Indices, name: str, beside: Any, keep: list[object]) -> tuple[int, int]:
    """Address and length of an int32 list that is where the states are."""
    if beside.device == _abi.CPU:
        ints = host_ints(values, name)
        keep.append(ints.owner)
        return ints.address, ints.shape[0]
    found = view(values, name)
    if (found.device, found.device_index) != (beside.device, beside.device_index):
        raise errors.InvalidArgumentError(f"{name} is on {found.place}; expected: {beside.place}, where the states are")
    if found.dtype != _abi.I32 or len(found.shape) != 1 or not found.contiguous:
        raise errors.ArgumentTypeError(
            f"{name} has dtype {found.dtype_name} and shape {list(found.shape)}; expected: int32 [n]"
        )
    keep.append(values)
    return found.address, found.shape[0]


def _empty(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    if is_torch(like):
        return like.new_empty(shape)
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().empty(shape, dtype=like.dtype, device=like.device)
    raise errors.ArgumentTypeError(
        f"out is missing, and cannot be made like a {type(like).__name__}; expected: a tensor"
    )
