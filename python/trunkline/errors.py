"""Exceptions: each is an Error and one of Python's own exceptions, and names argument, found value and expected."""

from __future__ import annotations


class Error(Exception):
    """Base class of all exceptions that Trunkline raises by itself."""


class InvalidArgumentError(Error, ValueError):
    """A value that can never be right: a shape, a length, an id outside the pool, a dtype other than the plan's."""


class ArgumentTypeError(Error, TypeError):
    """No tensor, or one of a dtype that is never right there: lengths as floats."""


class UnsupportedError(Error, NotImplementedError):
    """Legal, but nothing here does it; the text names what is supported. As a RuntimeError: fall back."""


class StaleError(Error, RuntimeError):
    """A plan or request id of a request that has left."""


class WorkspaceError(Error, RuntimeError):
    """A workspace that is too small, misaligned or has no plan."""


class FormatError(Error, ValueError):
    """Malformed text; the message names line and field."""


class FileError(Error, OSError):
    """A file that cannot be opened or read."""


class InternalError(Error, RuntimeError):
    """A broken invariant of Trunkline itself."""


class NoMemoryError(Error, MemoryError):
    """Memory that could not be had."""


class ClosedError(Error, RuntimeError):
    """An object that was closed, or of the process that this one was forked from; a plan that a later one replaced."""


class BusyError(Error, RuntimeError):
    """An object that another thread is using; use one for each thread, or take turns."""
