from collections.abc import Callable
from typing import Any

def configure(
    describe: Callable[[Any, str], tuple[Any, ...]],
    current_stream: Callable[[Any, int], int],
    raise_status: Callable[[int], Any],
    invalid_argument_error: type[Exception],
    argument_type_error: type[Exception],
    /,
) -> None: ...
def ints(object: Any, name: str, ndim: int, int32: bool, /) -> tuple[int, int, tuple[int, ...], Any] | None: ...
def view(object: Any, name: str) -> tuple[Any, ...]: ...

class Runner:
    def bind(
        self, device: int, executor: int, workspace: int, bytes: int, kv_layout: int, lse_base: int, /
    ) -> None: ...
    def run(
        self, q: Any, k: Any, v: Any, out: Any, lse: Any, scale: float, stream: int | None, num_queries: int | None, /
    ) -> None: ...
