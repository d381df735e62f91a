"""libtrunkline.so by ctypes, statuses as exceptions, handles that close.

Functions that are called once a step or more seldom go this way; what is called once a layer is in _direct.
"""

from __future__ import annotations

import ctypes
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


class NotCopied:
    """An object whose memory or threads are this process's, and this object's alone: copies would close or change them
    under each other."""

    __slots__ = ()
    _copy_hint = "one made anew"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """For copy.copy and copy.deepcopy too."""
        raise errors.ArgumentTypeError(
            f"a {type(self).__name__} is copied or pickled, but holds what is this object's alone; expected: "
            f"{self._copy_hint}"
        )


class Handle(NotCopied):
    """One object of the library. Closing twice is no error; using a closed one is.

    In a forked child the library refuses handles of what stays with the parent, and closing one of these does nothing.
    """

    __slots__ = ("__weakref__", "_destroy", "_made", "_value", "name")

    def __init__(self, name: str, *arguments: Any, by: str = "create") -> None:
        """Calls trunkline_<name>_<by>(*arguments, &handle), or the function `by` where that is a whole name."""
        self.name = name
        self._value = 0
        self._destroy = getattr(c, f"trunkline_{name}_destroy")
        # A field of the object from before the call, so that a handle made just before an interrupt is closed.
        self._made = ctypes.c_void_p()
        function = by if by.startswith("trunkline_") else f"trunkline_{name}_{by}"
        check(getattr(c, function)(*arguments, ctypes.byref(self._made)))
        self._value = self._made.value or 0

    @property
    def value(self) -> int:
        if not self._value:
            raise errors.ClosedError(f"the {self.name} is closed")
        return self._value

    @property
    def closed(self) -> bool:
        return not self._value

    def close(self) -> None:
        status = self._destroy(self._made)
        # A close that was interrupted has closed it; so has a fork.
        if status not in (_abi.OK, _abi.BAD_HANDLE):
            raise_status(status)
        self._made = ctypes.c_void_p()
        self._value = 0

    def __del__(self) -> None:
        made = getattr(self, "_made", None)
        if made:
            self._destroy(made)  # a BUSY one stays: its thread still runs


def text_by(function: str, *arguments: Any) -> str:
    """The text that a function of the library writes."""
    text = Handle("text", *arguments, by=function)
    data = ctypes.c_void_p()
    length = ctypes.c_size_t()
    check(c.trunkline_text_view(text.value, ctypes.byref(data), ctypes.byref(length)))
    return ctypes.string_at(data.value or 0, length.value).decode()
