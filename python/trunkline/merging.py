"""Merging attention states: of the same queries over disjoint sets of tokens, into attention over all of them."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from . import _abi, errors
from ._arguments import address, choice
from ._indices import Indices, host_ints
from ._library import c, check, new
from ._tensors import Tensor, empty, finished, is_torch, refuse_gradients, tensor_struct, view
from .decode import LSE_BASES


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
    refuse_gradients(states=states, state_lse=state_lse, out=out, lse=lse)
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
        last = host_ints(begin, "begin").last
        if places is not None and last > places[1]:
            raise errors.InvalidArgumentError(f"begin ends with {last}, but slots has {places[1]} entries")
    shape = (rows, *found.shape[1:])
    made_out, made_lse = out is None, lse is None
    if made_out:
        out = empty(shape, states, "out")
    if made_lse:
        lse = empty(shape[:2], states, "lse", dtype="float32")
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
        if stream is not None:
            stream = address(stream, "stream")
        else:
            torch = sys.modules.get("torch")
            stream = int(torch.cuda.current_stream(found.device_index).cuda_stream) if torch is not None else 0
        check(c.trunkline_cuda_merge_states(ctypes.byref(merge), found.device_index, stream))
    else:
        check(c.trunkline_merge_states(ctypes.byref(merge)))
    return finished(out, states) if made_out else out, finished(lse, states) if made_lse else lse


def merge_state(v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor, *, lse_base: str = "natural") -> tuple[Any, Any]:
    """Two states of the same queries: v_a, v_b [T, Hq, d], s_a, s_b [T, Hq]. Copies them together first."""
    _check_states({"v_a": v_a, "s_a": s_a, "v_b": v_b, "s_b": s_b})
    library: Any = sys.modules["torch"] if is_torch(v_a) else np
    states, state_lse = library.stack([v_a, v_b], 1), library.stack([s_a, s_b], 1)
    rows = v_a.shape[0]
    where = {"device": v_a.device} if is_torch(v_a) else {}
    begin = library.arange(0, 2 * rows + 1, 2, dtype=library.int32, **where)
    both = states.reshape(2 * rows, *v_a.shape[1:]), state_lse.reshape(2 * rows, *s_a.shape[1:])
    return merge_states(*both, begin, lse_base=lse_base)


def _check_states(given: dict[str, Tensor]) -> None:
    """That they can be stacked: of one library and place, dtypes that are merged, and v_a's shape."""
    first = view(given["v_a"], "v_a")
    if len(first.shape) != 3:
        raise errors.InvalidArgumentError(
            f"v_a has shape {list(first.shape)}; expected: [query tokens, q_heads, head_dim]"
        )
    for name, tensor in given.items():
        found = view(tensor, name)
        dtypes = (_abi.F32,) if name.startswith("s") else (_abi.F32, _abi.F16, _abi.BF16)
        if found.dtype not in dtypes:
            expected = "float32" if name.startswith("s") else "float16, bfloat16 or float32"
            raise errors.ArgumentTypeError(f"{name} has dtype {found.dtype_name}; expected: {expected}")
        shape = first.shape[:2] if name.startswith("s") else first.shape
        if found.shape != shape:
            raise errors.InvalidArgumentError(
                f"{name} has shape {list(found.shape)}; expected: {list(shape)}, as v_a has"
            )
        if is_torch(tensor) != is_torch(given["v_a"]) or found.place != first.place:
            raise errors.ArgumentTypeError(
                f"{name} is a {type(tensor).__name__} on {found.place}; expected: a {type(given['v_a']).__name__} on "
                f"{first.place}, as v_a is"
            )
        if found.device != _abi.CPU and not is_torch(tensor):
            raise errors.ArgumentTypeError(f"{name} is on {found.place}; expected: cpu, or a tensor of torch's")


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
