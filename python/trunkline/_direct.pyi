from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

def configure(
    describe: Callable[[Any, str], tuple[Any, ...]],
    current_stream: Callable[[Any, int], int],
    raise_status: Callable[[int], Any],
    invalid_argument_error: type[Exception],
    argument_type_error: type[Exception],
    busy_error: type[Exception],
    closed_error: type[Exception],
    /,
) -> None: ...
def ints(object: Any, name: str, ndim: int, int32: bool, /) -> tuple[int, int, tuple[int, ...], Any] | None: ...
def view(object: Any, name: str) -> tuple[Any, ...]: ...

class Queue:
    def call(self, function: Callable[..., _R], /, *arguments: Any) -> _R: ...

class Runner:
    def __init__(self, queue: Queue | None, refusal: type[Exception], text: str, /) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def forked(self) -> bool: ...
    def alone(self, function: Callable[_P, _R], /, *arguments: _P.args, **keywords: _P.kwargs) -> _R: ...
    def close(self) -> None: ...
    def unbind(self) -> None: ...
    def bind(
        self, device: int, executor: int, workspace: int, bytes: int, kv_layout: int, lse_base: int, /
    ) -> None: ...
    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        lse: Any,
        scale: float | None,
        stream: int | None,
        num_queries: int | None,
        q_scale: Any,
        k_scale: Any,
        v_scale: Any,
        window_left: int | None,
        soft_cap: float | None,
        sinks: Any,
        /,
    ) -> None: ...
