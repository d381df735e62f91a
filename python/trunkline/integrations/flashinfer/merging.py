"""FlashInfer's merges of attention states, with log-sum-exps of base 2."""

from __future__ import annotations

from typing import Any

import torch

from ... import errors, merging


def merge_state(v_a: Any, s_a: Any, v_b: Any, s_b: Any) -> tuple[Any, Any]:
    """flashinfer.merge_state: v_a, v_b [T, Hq, d], s_a, s_b [T, Hq]. Returns (v [T, Hq, d], s [T, Hq] of float32)."""
    _same_shape(v_a, s_a, v_b, s_b, ("v_a", "s_a", "v_b", "s_b"))
    return merging.merge_state(v_a, s_a.float(), v_b, s_b.float(), lse_base="two")


def merge_state_in_place(v: Any, s: Any, v_other: Any, s_other: Any, mask: Any = None) -> None:
    """flashinfer.merge_state_in_place: v [T, Hq, d] and s [T, Hq], of float32, become the merged state, in rows where
    mask [T] is not 0; without a mask in all."""
    _same_shape(v, s, v_other, s_other, ("v", "s", "v_other", "s_other"))
    if s.dtype != torch.float32:
        raise errors.ArgumentTypeError(f"s has dtype {s.dtype}; expected: torch.float32, as it is written")
    merged, lse = merge_state(v, s, v_other, s_other)
    if mask is not None:
        if not isinstance(mask, torch.Tensor) or tuple(mask.shape) != (v.shape[0],):
            raise errors.InvalidArgumentError(
                f"mask has shape {_shape(mask)}; expected: [{v.shape[0]}], one a row of v"
            )
        chosen = mask != 0
        merged, lse = torch.where(chosen[:, None, None], merged, v), torch.where(chosen[:, None], lse, s)
    v.copy_(merged)
    s.copy_(lse)


def merge_states(v: Any, s: Any) -> tuple[Any, Any]:
    """flashinfer.merge_states: v [T, states, Hq, d], s [T, states, Hq]. Returns (v [T, Hq, d], s [T, Hq])."""
    if getattr(v, "ndim", 0) != 4 or _shape(s) != _shape(v)[:3]:
        raise errors.InvalidArgumentError(
            f"v and s have shapes {_shape(v)} and {_shape(s)}; expected: [T, states, Hq, d] and [T, states, Hq]"
        )
    rows, states = v.shape[:2]
    indptr = torch.arange(rows + 1, dtype=torch.int32, device=v.device) * states
    return variable_length_merge_states(
        v.reshape(rows * states, *v.shape[2:]), s.reshape(rows * states, s.shape[2]), indptr
    )


def variable_length_merge_states(v: Any, s: Any, indptr: Any) -> tuple[Any, Any]:
    """flashinfer.triton.cascade.variable_length_merge_states: v [S, Hq, d], s [S, Hq], indptr [T + 1]; row t merges the
    states indptr[t] to indptr[t + 1] - 1. Returns (v [T, Hq, d], s [T, Hq])."""
    if getattr(v, "ndim", 0) != 3 or _shape(s) != _shape(v)[:2]:
        raise errors.InvalidArgumentError(
            f"v and s have shapes {_shape(v)} and {_shape(s)}; expected: [S, Hq, d] and [S, Hq]"
        )
    return merging.merge_states(v, s.float(), indptr.to(v.device, torch.int32), lse_base="two")


def _shape(tensor: Any) -> list[int]:
    return list(getattr(tensor, "shape", ()))


def _same_shape(v: Any, s: Any, v_other: Any, s_other: Any, names: tuple[str, ...]) -> None:
    if getattr(v, "ndim", 0) != 3:
        raise errors.InvalidArgumentError(f"{names[0]} has shape {_shape(v)}; expected: [T, Hq, d]")
    expected = _shape(v), _shape(v)[:2], _shape(v), _shape(v)[:2]
    for tensor, name, shape in zip((v, s, v_other, s_other), names, expected):
        if _shape(tensor) != shape:
            raise errors.InvalidArgumentError(
                f"{name} has shape {_shape(tensor)}; expected: {shape}, as {names[0]} has"
            )
