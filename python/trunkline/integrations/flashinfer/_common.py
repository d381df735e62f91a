"""Code that FlashInfer's wrappers share."""

from __future__ import annotations

from typing import Any

import torch

from ... import errors


def refuse(name: str, value: object, expected: str) -> None:
    raise errors.UnsupportedError(f"{name} is {value!r}; supported: {expected}")


def device_of_buffer(float_workspace_buffer: Any) -> Any:
    if not isinstance(float_workspace_buffer, torch.Tensor):
        raise errors.ArgumentTypeError(
            f"float_workspace_buffer is of type {type(float_workspace_buffer).__name__}; expected: a tensor"
        )
    return float_workspace_buffer.device


def torch_dtype(dtype: Any) -> Any:
    return getattr(torch, dtype) if isinstance(dtype, str) else dtype
