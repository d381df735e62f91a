"""libtrunkline.so by ctypes, statuses as exceptions, handles that close.

Functions that are called once a step or more seldom go this way; what is called once a layer is in _direct.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from . import _abi, _direct, errors

_ERRORS: dict[int, type[errors.Error]] = {
    _abi.INVALID_ARGUMENT: errors.InvalidArgumentError,
    _abi.OUT_OF_RANGE: errors.InvalidArgumentError,
    _abi.UNSUPPORTED: errors.UnsupportedError,
    _abi.STALE: errors.StaleError,
    _abi.WORKSPACE: errors.WorkspaceError,
    _abi.PARSE: errors.FormatError,
    _abi.IO: errors.FileError,
    _abi.OUT_OF_MEMORY: errors.NoMemoryError,
    _abi.BAD_HANDLE: errors.ClosedError,
    _abi.BUSY: errors.BusyError,
}


def _load() -> ctypes.CDLL:
    # Beside the extension module, which loads the same file.
    library = ctypes.CDLL(str(Path(str(_direct.__file__)).with_name("libtrunkline.so.0")))
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


c: Any = _load()


def raise_status(status: int) -> NoReturn:
    """Raises what a status that is not OK stands for, with the library's text."""
    text = c.trunkline_last_error().decode(errors="replace")
    # The C interface's names for what Python's caller knows without them.
    for prefix in ("layer.", "batch.", "merge.", "pages.", "args.", "states."):
        if text.startswith(prefix):
            text = text[len(prefix) :]
            break
    raise _ERRORS.get(status, errors.InternalError)(text)


def check(status: int) -> None:
    if status:
        raise_status(status)


_S = TypeVar("_S", bound=ctypes.Structure)


def new(kind: type[_S], **fields: Any) -> _S:
    """A struct of the C interface with its size set."""
    return kind(struct_size=ctypes.sizeof(kind), **fields)


def text_of(handle: ctypes.c_void_p) -> str:
    """The text of a trunkline_text, which is destroyed."""
    data = ctypes.c_void_p()
    length = ctypes.c_size_t()
    try:
        check(c.trunkline_text_view(handle, ctypes.byref(data), ctypes.byref(length)))
        return ctypes.string_at(data.value or 0, length.value).decode()
    finally:
        c.trunkline_text_destroy(handle)


class Handle:
    """One object of the library. Closing twice is no error; using a closed one is."""

    __slots__ = ("__weakref__", "_destroy", "_process", "_value", "name")

    def __init__(self, name: str, *arguments: Any) -> None:
        """Calls trunkline_<name>_create(*arguments, &handle)."""
        self._value = 0
        value = ctypes.c_void_p()
        check(getattr(c, f"trunkline_{name}_create")(*arguments, ctypes.byref(value)))
        self._own(name, value.value or 0)

    @classmethod
    def of(cls, name: str, value: int | None) -> Handle:
        """Of a handle that another function has made."""
        handle = cls.__new__(cls)
        handle._own(name, value or 0)
        return handle

    def _own(self, name: str, value: int) -> None:
        self.name = name
        self._value = value
        self._process = os.getpid()
        self._destroy = getattr(c, f"trunkline_{name}_destroy")

    @property
    def value(self) -> int:
        if not self._value:
            raise errors.ClosedError(f"the {self.name} is closed")
        return self._value

    @property
    def closed(self) -> bool:
        return not self._value

    def close(self) -> None:
        value = self._value
        # In a forked child the threads of workers are not there, so joining them would not end.
        if value and self._process == os.getpid():
            check(self._destroy(value))
        self._value = 0

    def abandon(self) -> None:
        self._value = 0

    def __del__(self) -> None:
        value = getattr(self, "_value", 0)
        if value and self._process == os.getpid():
            self._destroy(value)  # a BUSY one stays: its thread still runs
