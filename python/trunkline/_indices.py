"""Lists of indices on the host: page tables, lengths, rows."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _abi, _direct, errors
from ._arguments import int64
from ._tensors import view

#: Integers on the host: an array as Tensor, or a list.
Indices = Any

_ORDER = "<" if sys.byteorder == "little" else ">"


class _Memory:
    """Integers of any library, for numpy to read in place. Strides are in elements; `owner` keeps them."""

    def __init__(
        self, address: int, dtype: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, owner: object
    ) -> None:
        size = 4 if dtype == _abi.I32 else 8
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (address or size, True),  # numpy takes no NULL, which empty arrays of other libraries have
            "typestr": f"{_ORDER}i{size}",
            "shape": shape,
            "strides": None if strides is None else tuple(stride * size for stride in strides),
        }


class Ints(NamedTuple):
    """Indices on the host, row-major without gaps."""

    address: int
    dtype: int
    shape: tuple[int, ...]
    owner: object

    @property
    def last(self) -> int:
        """The last value, for one dimension that is not empty."""
        at = self.address + 4 * (self.shape[0] - 1) * (1 if self.dtype == _abi.I32 else 2)
        return (ctypes.c_int32 if self.dtype == _abi.I32 else ctypes.c_int64).from_address(at).value

    def numpy(self) -> npt.NDArray[np.integer[Any]]:
        return np.asarray(_Memory(self.address, self.dtype, self.shape, None, self.owner))


def host_ints(values: Indices, name: str, ndim: int = 1, *, int32: bool = True) -> Ints:
    """Zero-copy where the dtype and the strides allow it. int32: 64-bit values are converted, and must fit."""
    if isinstance(values, (list, tuple)):
        values = _of_list(values, name)
    in_place = _direct.ints(values, name, ndim, int32)
    if in_place is not None:
        return tuple.__new__(Ints, in_place)
    found = view(values, name)
    if found.device != _abi.CPU:
        raise errors.InvalidArgumentError(
            f"{name} is on {found.place}; expected: cpu, as planning reads it on the host"
        )
    if found.dtype not in (_abi.I32, _abi.I64):
        raise errors.ArgumentTypeError(f"{name} has dtype {found.dtype_name}; expected: int32 or int64")
    if len(found.shape) != ndim:
        raise errors.InvalidArgumentError(f"{name} has shape {list(found.shape)}; expected: {ndim} dimension(s)")
    array = np.ascontiguousarray(_Memory(found.address, found.dtype, found.shape, found.strides, (values, found.owner)))
    if int32 and array.dtype != np.int32:
        if array.size and (array.min() < -(2**31) or array.max() >= 2**31):
            bad = int(np.argmax((array < -(2**31)) | (array >= 2**31)))
            raise errors.InvalidArgumentError(f"{name}[{bad}] is {array.flat[bad]}; expected: a value of 32 bits")
        array = array.astype(np.int32)
    return Ints(array.ctypes.data, _abi.I32 if array.dtype == np.int32 else _abi.I64, array.shape, array)


def _of_list(values: list[Any] | tuple[Any, ...], name: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values, dtype=None if len(values) else np.int32)
    # Rows of several lengths, or tensors that numpy cannot read.
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise errors.ArgumentTypeError(
            f"{name} is a list that makes no array, as {error}; expected: integers, in rows of one length"
        ) from None
    if array.dtype.kind in "Ou":  # numpy finds no int64 that holds all
        for place, value in np.ndenumerate(array):
            int64(value, f"{name}[{', '.join(map(str, place))}]")
    return array
