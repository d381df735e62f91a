"""Arrays of any library: what they are, and outputs in the caller's library."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _abi, _direct, errors

#: Anything with DLPack or an array interface: numpy's, torch's, CuPy's, JAX's arrays.
Tensor = Any

_DTYPES = {
    "float32": _abi.F32,
    "float16": _abi.F16,
    "bfloat16": _abi.BF16,
    "float8_e4m3fn": _abi.F8E4M3,
    "float8_e5m2": _abi.F8E5M2,
}
_DTYPE_NAMES = {number: name for name, number in _DTYPES.items()} | {_abi.I32: "int32", _abi.I64: "int64"}
_ALIASES = {"f32": "float32", "float": "float32", "f16": "float16", "half": "float16", "bf16": "bfloat16"}
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_ARRAY_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_EXTENSION_CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
# The first character of an array interface's typestr; "|" where there is no order, as in bytes.
_ORDERS = {"<": "little", ">": "big"}
_FOREIGN_ORDER = ">" if sys.byteorder == "little" else "<"


class View(NamedTuple):
    """Address, type, shape and device of a tensor. Strides are in elements."""

    address: int
    dtype: int  # the C interface's; 0 where it has none
    code: int  # DLPack's
    bits: int
    device: int
    device_index: int
    read_only: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    owner: object

    @property
    def place(self) -> str:
        return "cpu" if self.device == _abi.CPU else f"cuda:{self.device_index}"

    @property
    def dtype_name(self) -> str:
        return _DTYPE_NAMES.get(self.dtype) or f"{_KINDS.get(self.code, 'unknown')}{self.bits}"

    @property
    def contiguous(self) -> bool:
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size > 1 and stride != step:
                return False
            step *= size
        return True

    @property
    def nbytes(self) -> int:
        count = self.bits // 8
        for size in self.shape:
            count *= size
        return count


def view(tensor: Tensor, name: str) -> View:
    return View._make(_direct.view(tensor, name))


def dtype_number(dtype: object, name: str = "dtype") -> int:
    """The number of a dtype given as "bfloat16", numpy.float16, torch.float32, .."""
    text = str(dtype).removeprefix("torch.")
    if isinstance(dtype, (type, np.dtype)):
        text = np.dtype(dtype).name
    number = _DTYPES.get(_ALIASES.get(text, text))
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        number = None  # its name is that of the native one
    if number is None:
        raise errors.InvalidArgumentError(f"{name} is {dtype!r}; expected: float16, bfloat16 or float32")
    return number


def dtype_name(number: int) -> str:
    return _DTYPE_NAMES[number]


def device_of(device: object) -> tuple[int, int]:
    """(CPU or CUDA, index) of "cpu", "cuda", "cuda:1", a torch.device. "cuda" is torch's current device, as there."""
    kind, _, index = str(device).partition(":")
    if kind == "cpu" and index in ("", "0"):
        return _abi.CPU, 0
    if kind == "cuda" and index.isascii() and index.isdigit() and len(index) < 10:
        return _abi.CUDA, int(index)
    if kind == "cuda" and index == "":
        torch = sys.modules.get("torch")
        # Until torch uses a GPU, its current device is 0; asking for it would begin to.
        return _abi.CUDA, int(torch.cuda.current_device()) if torch is not None and torch.cuda.is_initialized() else 0
    raise errors.InvalidArgumentError(f'device is "{device}"; expected: "cpu", "cuda" or "cuda:<index>"')


def describe(tensor: Tensor, name: str) -> tuple[Any, ...]:
    """For objects whose DLPack is missing or refuses (numpy's bfloat16, read-only arrays of numpy 1, arrays of another
    byte order). DLPack itself has no byte order but the machine's."""
    interface = getattr(tensor, "__cuda_array_interface__", None)
    device = _abi.CUDA if interface is not None else _abi.CPU
    if interface is None:
        interface = getattr(tensor, "__array_interface__", None)
    if interface is None or interface.get("data") is None:
        raise errors.ArgumentTypeError(
            f"{name} is of type {type(tensor).__name__}; expected: a tensor (numpy, torch, or any with __dlpack__)"
        )
    typestr = interface["typestr"]
    if (typestr[1] not in _ARRAY_KINDS and typestr[1] != "V") or typestr[2:] == "0":
        raise errors.ArgumentTypeError(f'{name} has dtype "{getattr(tensor, "dtype", typestr)}"; expected: numbers')
    if typestr[0] == _FOREIGN_ORDER:
        raise errors.ArgumentTypeError(
            f'{name} has dtype "{typestr}", whose bytes are {_ORDERS[typestr[0]]}-endian; expected: '
            f"{sys.byteorder}-endian, as this machine is"
        )
    address, read_only = interface["data"]
    kind, size = typestr[1], int(typestr[2:])
    code = _ARRAY_KINDS.get(kind, -1)
    if kind in "Vf":  # numpy's additional types name themselves alone
        code = _EXTENSION_CODES.get(str(getattr(tensor, "dtype", "")), code)
    shape = tuple(interface["shape"])
    elements = _strides(shape, interface.get("strides"), size, name)
    return address, code, size * 8, device, 0, int(read_only), shape, elements, interface


def _strides(shape: tuple[int, ...], given: tuple[int, ...] | None, size: int, name: str) -> tuple[int, ...]:
    """In elements, of strides in bytes. Row-major where none are given, and where none are used: in empty arrays, and
    in dimensions of one element."""
    used = given is not None and 0 not in shape
    strides: list[int] = []
    step = size
    for dimension in reversed(range(len(shape))):
        strides.insert(0, given[dimension] if used and given is not None and shape[dimension] > 1 else step)
        step *= shape[dimension]
    if any(stride % size for stride in strides):
        raise errors.InvalidArgumentError(f"{name} has strides of {given} bytes; expected: multiples of {size}")
    return tuple(stride // size for stride in strides)


def current_stream(tensor: Tensor, device_index: int) -> int:
    """The current stream for libraries without DLPack's exchange interface: torch's own for torch before 2.10, for
    other libraries the legacy default stream."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return int(torch.cuda.current_stream(device_index).cuda_stream)
    return 0


def records_gradients() -> bool:
    """Whether torch does, of what it is used for now."""
    torch = sys.modules.get("torch")
    enabled = getattr(torch, "is_grad_enabled", None)  # not there while another thread imports torch
    return enabled is not None and enabled()


def refuse_gradients(**tensors: Tensor) -> None:
    """Those of torch that require them, while they are recorded: they would end here unseen."""
    if not records_gradients():
        return
    for name, tensor in tensors.items():
        if getattr(tensor, "requires_grad", False):
            raise errors.UnsupportedError(
                f"{name} requires grad, and attention here has no backward; supported: {name}.detach(), or "
                "torch.no_grad() around the call"
            )


def is_torch(tensor: Tensor) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def empty(shape: Sequence[int], like: Tensor, name: str, *, dtype: str = "") -> Tensor:
    """A fresh output, of the library, device and, without `dtype`, dtype of `like`; `finished` is what is returned."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, dtype or like.dtype)
    if is_torch(like):
        return like.new_empty(shape, dtype=getattr(sys.modules["torch"], dtype) if dtype else None)
    if not hasattr(like, "__array_namespace__"):
        raise errors.ArgumentTypeError(
            f"{name} is missing, and cannot be made like a {type(like).__name__}; expected: a tensor"
        )
    found = view(like, name)
    if not found.read_only:
        library = like.__array_namespace__()
        return library.empty(shape, dtype=getattr(library, dtype) if dtype else like.dtype, device=like.device)
    if found.device != _abi.CPU:
        raise errors.ArgumentTypeError(
            f"{name} is missing, and a {type(like).__name__} is immutable; expected: a tensor that can be written"
        )
    return np.empty(shape, dtype or like.dtype)


def finished(made: Tensor, like: Tensor) -> Tensor:
    """An output that `empty` has made, in the library of `like`, where its arrays cannot be written."""
    if not isinstance(made, np.ndarray) or isinstance(like, np.ndarray):
        return made
    return like.__array_namespace__().asarray(made)


def tensor_struct(tensor: Tensor, name: str, keep: list[object], *, written: bool = False) -> _abi.Tensor:
    """The C interface's view. What it points to is appended to `keep`."""
    found = view(tensor, name)
    if not found.dtype:
        raise errors.ArgumentTypeError(f"{name} has dtype {found.dtype_name}; expected: float16, bfloat16 or float32")
    if written and found.read_only:
        raise errors.InvalidArgumentError(f"{name} is read-only; expected: a tensor that can be written")
    sizes = (ctypes.c_int64 * len(found.shape))(*found.shape)
    strides = (ctypes.c_int64 * len(found.shape))(*found.strides)
    keep += [sizes, strides, found.owner, tensor]
    return _abi.Tensor(
        data=found.address,
        dtype=found.dtype,
        device=found.device,
        device_index=found.device_index,
        ndim=len(found.shape),
        shape=ctypes.addressof(sizes),
        strides=ctypes.addressof(strides),
    )
