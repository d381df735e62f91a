"""Trunkline's attention as torch operators, so that torch.compile and CUDA graphs go through them.

    attention = trunkline.DecodeAttention(32, 8, 128, 16, dtype=torch.bfloat16, device="cuda")
    key = trunkline.integrations.torch.register(attention)
    attention.plan(...)                                              # once a step, outside of what is compiled
    out = torch.ops.trunkline.decode(q, k_cache, v_cache, key)       # in the model, compiled or not

Operators: trunkline::decode(q, k, v, attention, scale=None) -> out; trunkline::decode_lse, the same with (out, lse);
trunkline::decode_out(q, k, v, out, lse, attention, scale=None), which writes. v is None for packed caches. They have no
gradients: what requires grad is refused where torch records them. Without compilation DecodeAttention.run does the same
in less time.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch

from .. import errors
from .._arguments import instance
from .._tensors import refuse_gradients
from ..decode import DecodeAttention

_keys = itertools.count(1)
_registered: weakref.WeakValueDictionary[int, DecodeAttention] = weakref.WeakValueDictionary()
_key_of: weakref.WeakKeyDictionary[DecodeAttention, int] = weakref.WeakKeyDictionary()


def register(attention: DecodeAttention) -> int:
    """The number by which operators know an object. It is not kept alive by that; the same object has one number."""
    key = _key_of.get(instance(attention, DecodeAttention, "attention"))
    if key is None:
        key = _key_of[attention] = next(_keys)
        _registered[key] = attention
    return key


def _attention(key: int) -> DecodeAttention:
    attention = _registered.get(key)
    if attention is None:
        raise errors.ClosedError(f"attention is {key}; expected: what register() gave for an object that still lives")
    return attention


def _kv(k: Any, v: Any) -> Any:
    return k if v is None else (k, v)


def _decode(q: Any, k: Any, v: Any, attention: int, scale: float | None = None) -> Any:
    return _attention(attention).run(q, _kv(k, v), scale=scale)


def _decode_lse(q: Any, k: Any, v: Any, attention: int, scale: float | None = None) -> Any:
    return _attention(attention).run(q, _kv(k, v), scale=scale, return_lse=True)


def _decode_out(q: Any, k: Any, v: Any, out: Any, lse: Any, attention: int, scale: float | None = None) -> None:
    _attention(attention).run(q, _kv(k, v), out=out, lse=lse, scale=scale)


def _fake_decode(q: Any, k: Any, v: Any, attention: int, scale: float | None = None) -> Any:
    refuse_gradients(q=q, k=k, v=v)
    return q.new_empty(q.shape)


def _fake_decode_lse(q: Any, k: Any, v: Any, attention: int, scale: float | None = None) -> Any:
    refuse_gradients(q=q, k=k, v=v)
    return q.new_empty(q.shape), q.new_empty(q.shape[:2], dtype=torch.float32)


def _fake_decode_out(q: Any, k: Any, v: Any, out: Any, lse: Any, attention: int, scale: float | None = None) -> None:
    refuse_gradients(q=q, k=k, v=v, out=out, lse=lse)


_OPERATORS = (
    ("decode(Tensor q, Tensor k, Tensor? v, int attention, float? scale=None) -> Tensor", _decode, _fake_decode),
    (
        "decode_lse(Tensor q, Tensor k, Tensor? v, int attention, float? scale=None) -> (Tensor, Tensor)",
        _decode_lse,
        _fake_decode_lse,
    ),
    (
        "decode_out(Tensor q, Tensor k, Tensor? v, Tensor(a!) out, Tensor(b!)? lse, int attention, float? scale=None)"
        " -> ()",
        _decode_out,
        _fake_decode_out,
    ),
)

_library = torch.library.Library("trunkline", "DEF")
for _schema, _function, _fake in _OPERATORS:
    _library.define(_schema)
    _name = _schema.partition("(")[0]
    for _device in ("CPU", "CUDA"):
        _library.impl(_name, _function, _device)
    torch.library.register_fake(f"trunkline::{_name}", _fake, lib=_library)
