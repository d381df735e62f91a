"""One call at a time: a decorator for methods of an object that belongs to one thread at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from . import _direct

    class _HasRunner(Protocol):
        _runner: _direct.Runner

    _P = ParamSpec("_P")
    _R = TypeVar("_R")
    _H = TypeVar("_H", bound=_HasRunner)


def one_at_a_time(method: Callable[Concatenate[_H, _P], _R]) -> Callable[Concatenate[_H, _P], _R]:
    """A method that has the object to itself: BusyError when another thread's call has it.

    C takes and gives back the turn, in one call. Python could do neither: between the instruction that takes a lock and
    the `try` that gives it back a signal's handler may raise, and the lock would be taken for ever.
    """

    @functools.wraps(method)
    def call(self: _H, /, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
        return self._runner.alone(method, self, *arguments, **keywords)

    return call
