"""An engine's array library, numpy or torch, behind the few operations that the layer needs."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Arrays(Protocol):
    """module: the library, for functions that numpy and torch both have under one name. device: where new arrays are,
    as DecodeAttention takes it. out_of_memory: the library's exception."""

    module: Any
    device: Any
    out_of_memory: type[Exception]

    def empty(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        """A new array; its values are undefined."""

    def zeros(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        """A new array of zeros."""

    def float32(self, array: Any) -> Any:
        """The array, or its values as float32."""

    def copy(self, into: Any, source: Any) -> None:
        """Writes source into an array of the same shape; converts to its dtype."""

    def rows_of(self, table: Any, rows: Any) -> Any:
        """The rows of a table [N, W] that indices [n] name, in a new array [n, W]."""

    def address(self, array: Any) -> int:
        """Where the array's memory begins."""


def dtype_name(array: Any) -> str:
    """ "int64" for an array of either library."""
    return str(array.dtype).removeprefix("torch.")


class NumpyArrays:
    """numpy's arrays, on the CPU."""

    module: Any = np
    device: Any = "cpu"
    out_of_memory: type[Exception] = MemoryError

    def empty(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        return np.empty(shape, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        return np.zeros(shape, dtype)

    def float32(self, array: Any) -> Any:
        return array.astype(np.float32, copy=False)

    def copy(self, into: Any, source: Any) -> None:
        into[...] = source

    def rows_of(self, table: Any, rows: Any) -> Any:
        return table[rows]

    def address(self, array: Any) -> int:
        return int(array.ctypes.data)


class TorchArrays:
    """torch's tensors on a device. Operations run on torch's current stream and do not wait for it."""

    def __init__(self, device: Any) -> None:
        import torch

        self.module: Any = torch
        self.device: Any = device
        self.out_of_memory: type[Exception] = torch.OutOfMemoryError

    def empty(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        return self.module.empty(shape, dtype=getattr(self.module, dtype), device=self.device)

    def zeros(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        return self.module.zeros(shape, dtype=getattr(self.module, dtype), device=self.device)

    def float32(self, array: Any) -> Any:
        return array.float()

    def copy(self, into: Any, source: Any) -> None:
        into.copy_(source)

    def rows_of(self, table: Any, rows: Any) -> Any:
        return table.index_select(0, rows)

    def address(self, array: Any) -> int:
        return int(array.data_ptr())
