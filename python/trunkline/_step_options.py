"""The keyword arguments that plan(), plan_csr(), plan_token_level() and prepare() share, as one object."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypedDict, TypeVar

from . import errors
from ._arguments import address, flag, instance
from ._device_tables import DeviceTables
from ._indices import Indices
from .plans import Forest

_Method = TypeVar("_Method", bound=Callable[..., Any])


class StepArguments(TypedDict, total=False):
    """StepOptions as type checkers and editors see them: `**options: Unpack[StepArguments]`. A test compares both."""

    query_start_loc: Indices | None
    query_parents: Indices | None
    num_queries: int | None
    num_pages: int | None
    null_page: int | None
    check_ids: bool
    forest: Forest | None
    slots: Indices | None
    generations: Indices | None
    device_tables: DeviceTables | None
    stream: int | None


@dataclass(slots=True)  # not frozen, which would set each field by a call, 2 us in all
class StepOptions:
    """A step's options. DecodeAttention.plan says what each means."""

    query_start_loc: Indices | None = None
    query_parents: Indices | None = None
    num_queries: int | None = None
    num_pages: int | None = None
    null_page: int | None = None
    check_ids: bool = False
    forest: Forest | None = None
    slots: Indices | None = None
    generations: Indices | None = None
    device_tables: DeviceTables | None = None
    stream: int | None = None

    @classmethod
    def of(cls, arguments: StepArguments) -> StepOptions:
        """Checks names and types. The planner checks arrays and numbers: their limits differ between host and GPU."""
        try:
            options = cls(**arguments)
        except TypeError:
            name = next(name for name in arguments if name not in _NAMES)
            raise errors.ArgumentTypeError(f"{name} is no argument; expected: {', '.join(_NAMES)}") from None
        if options.check_ids is not False:
            flag(options.check_ids, "check_ids")
        if options.forest is not None:
            instance(options.forest, Forest, "forest")
        if options.device_tables is not None:
            instance(options.device_tables, DeviceTables, "device_tables")
        if options.stream is not None:
            address(options.stream, "stream")
        return options


_NAMES = [field.name for field in fields(StepOptions)]


def with_step_options(method: _Method) -> _Method:
    """Makes help() and inspect.signature() list the options of a method that takes `**options`."""
    signature = inspect.signature(method)
    parameters = list(signature.parameters.values())
    options = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(StepOptions)
    ]
    method.__signature__ = signature.replace(parameters=[*parameters[:-1], *options])  # type: ignore[attr-defined]
    return method
