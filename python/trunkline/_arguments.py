"""Arguments as callers give them: what they must be, or an error that names argument, found and expected."""

from __future__ import annotations

import operator
import os
from typing import Any, TypeVar

import numpy as np

from . import errors

_T = TypeVar("_T")

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_SHOWN_CHARACTERS = 60
_SHOWN_BITS = 256


def shown(value: object) -> str:
    """A value in a message: a scalar as it is, anything else by its type, as it may be large or on a GPU."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an int of {value.bit_length()} bits"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        text = repr(value)
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}.."
    return f"of type {type(value).__name__}"


def wrong_type(name: str, value: object, expected: str) -> errors.ArgumentTypeError:
    return errors.ArgumentTypeError(f"{name} is {shown(value)}; expected: {expected}")


def wrong_value(name: str, value: object, expected: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(f"{name} is {shown(value)}; expected: {expected}")


def integer(value: Any, name: str, least: int, most: int) -> int:
    """An int or a numpy integer in [least, most]; no bool."""
    if type(value) is int and least <= value <= most:
        return value
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise wrong_type(name, value, "an int")
    try:
        found = operator.index(value)
    except TypeError:  # an array of several elements, or of floats
        raise wrong_type(name, value, "an int") from None
    if found < least:
        raise wrong_value(name, found, f"at least {least}")
    if found > most:
        raise wrong_value(name, found, f"at most {most}")
    return found


def int32(value: Any, name: str, least: int = -INT32_MAX - 1) -> int:
    return integer(value, name, least, INT32_MAX)


def int64(value: Any, name: str, least: int = -INT64_MAX - 1) -> int:
    return integer(value, name, least, INT64_MAX)


def address(value: Any, name: str) -> int:
    """A stream's."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, value, "an address as an int, or None")
    return integer(value, name, 0, 2**64 - 1)


def number(value: Any, name: str, least: float) -> float:
    """A real number that is at least `least`, so no NaN."""
    if isinstance(value, bool) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise wrong_type(name, value, "a number")
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):  # an array of several elements, or an int beyond all floats
        raise wrong_type(name, value, "a number") from None
    if not found >= least:
        raise wrong_value(name, found, "a number" if least == -np.inf else f"a number of at least {least:g}")
    return found


def flag(value: Any, name: str) -> bool:
    """A bool, numpy's too, or 0 or 1."""
    if value is True or value is False:
        return value
    if not isinstance(value, (int, np.bool_)) or value not in (0, 1):
        raise wrong_type(name, value, "True or False")
    return bool(value)


def instance(value: Any, kind: type[_T], name: str) -> _T:
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise wrong_type(name, value, f"{article} {kind.__name__}")
    return value


def optional(value: Any, kind: type[_T], name: str) -> _T | None:
    return None if value is None else instance(value, kind, name)


def choice(table: dict[str, int], value: Any, name: str) -> int:
    """The number that a name stands for."""
    found = table.get(value) if isinstance(value, str) else None
    if found is None:
        raise wrong_value(name, value, ", ".join(map(repr, table)))
    return found


def utf8(value: Any, name: str) -> bytes:
    if not isinstance(value, str):
        raise wrong_type(name, value, "a str")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidArgumentError(
            f"{name} has half a character at {error.start}, {value[error.start]!r}; expected: Unicode text"
        ) from None


def c_string(value: Any, name: str) -> bytes:
    """Text that C reads up to a NUL character."""
    text = utf8(value, name)
    if b"\0" in text:
        raise errors.InvalidArgumentError(f"{name} has a NUL character at {value.index(chr(0))}; expected: none")
    return text


def path(value: Any, name: str) -> bytes:
    """A file's, as the system has it."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise wrong_type(name, value, "a path")
    try:
        found = os.fsencode(value)
    except UnicodeEncodeError:
        raise wrong_value(name, value, "a path that the system can have") from None
    if b"\0" in found:
        raise errors.InvalidArgumentError(f"{name} has a NUL character at {found.index(0)}; expected: none")
    return found
