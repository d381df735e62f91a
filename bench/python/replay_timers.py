"""Times of calls on a GPU, eager and as replays of CUDA graphs, with cold caches; on a CPU, of the calls alone."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

ROTATED_BYTES = 400_000_000  # several times the L2 cache of any GPU there is
ONE_IS_ENOUGH = 2_500_000_000
WARM_UPS = 3
SPIN_CYCLES = (
    400_000  # about 200 us, in which the host launches a graph, of 256 kernels at most, and records two events
)


def rotated_copies(nbytes: int) -> int:
    """How many copies of what a call reads make each call find a copy that has left the L2 cache."""
    return 1 if nbytes >= ONE_IS_ENOUGH else ROTATED_BYTES // max(nbytes, 1 << 16) + 2


def copy_at(turn: int, place: int, works: int, copies: int) -> int:
    """Which copy the work at a place among several reads. They may share the copies, so each is as many ahead of the
    next as there are for each: else a work would find what the one before it has just read."""
    return (turn + place * copies // works) % copies


@dataclass
class Work:
    """A method: a call for each copy of its tensors, or one call, and what points it to a copy beforehand."""

    name: str
    calls: list[Callable[[], torch.Tensor]]
    move: Callable[[int], None] | None = None
    copies: int = 1

    @property
    def turns(self) -> int:
        return max(self.copies, len(self.calls))


@dataclass
class Times:
    """Medians in microseconds. graph is None where there are no graphs, or the call cannot be captured."""

    eager: float
    graph: float | None


class CudaTimer:
    """Between two events on the current stream, works in turn, each on the copy that has not been read for longest.

    Eager: from an idle GPU, so that what the host takes to launch counts where the GPU waits for it. Graph: behind a
    kernel that spins while the host gets ahead, so that it is the GPU's time alone."""

    def __init__(self, repeat: int) -> None:
        self._repeat = repeat
        self._side = torch.cuda.Stream()
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time(self, works: list[Work]) -> dict[str, Times]:
        eager = self._in_turn(works, [work.calls for work in works], spin=False)
        made = {work.name: graphs for work in works if (graphs := self._captured(work))}
        replayed = [work for work in works if work.name in made]
        replays = [[graph.replay for graph in made[work.name]] for work in replayed]
        times = dict(zip(made, self._in_turn(replayed, replays, spin=True)))
        return {work.name: Times(us, times.get(work.name)) for work, us in zip(works, eager)}

    def host_us(self, call: Callable[[], object]) -> float:
        """The host's time until a call returns, while the GPU is idle."""
        return _host_us(call, self._repeat, torch.cuda.synchronize)

    def _captured(self, work: Work) -> list[torch.cuda.CUDAGraph]:
        """A graph of each call, or none where one cannot be captured. Kernels are loaded and workspaces made
        beforehand, which a capture may not do."""
        torch.cuda.synchronize()
        pool, graphs = torch.cuda.graph_pool_handle(), []
        with torch.cuda.stream(self._side):
            for _ in range(2):
                work.calls[0]()
            self._side.synchronize()
            try:
                for call in work.calls:
                    graphs.append(self._capture(call, pool))
            except RuntimeError as error:
                print(f"{work.name}: not captured: {str(error).partition(chr(10))[0]}", file=sys.stderr)
                graphs = []
        torch.cuda.synchronize()
        return graphs

    @staticmethod
    def _capture(call: Callable[[], torch.Tensor], pool: object) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        # By hand, as torch.cuda.graph() empties the allocator's cache each time.
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            call()
        finally:
            graph.capture_end()
        return graph

    def _in_turn(self, works: list[Work], calls: list[list[Callable[[], object]]], *, spin: bool) -> list[float]:
        times: list[list[float]] = [[] for _ in works]
        for turn in range(-WARM_UPS, self._repeat):
            for place, (work, of, taken) in enumerate(zip(works, calls, times)):
                copy = copy_at(turn, place, len(works), work.turns)
                if work.move is not None:
                    work.move(copy)
                if spin:
                    torch.cuda._sleep(SPIN_CYCLES)
                else:
                    torch.cuda.synchronize()
                self._begin.record()
                of[copy % len(of)]()
                self._end.record()
                self._end.synchronize()
                if turn >= 0:
                    taken.append(self._begin.elapsed_time(self._end) * 1e3)
        return [statistics.median(taken) for taken in times]


class HostTimer:
    """The same without a GPU: calls by the host's clock, for trying the comparison out."""

    def __init__(self, repeat: int) -> None:
        self._repeat = repeat

    def time(self, works: list[Work]) -> dict[str, Times]:
        return {work.name: Times(self.host_us(work.calls[0]), None) for work in works}

    def host_us(self, call: Callable[[], object]) -> float:
        return _host_us(call, self._repeat, lambda: None)


def _host_us(call: Callable[[], object], repeat: int, settle: Callable[[], None]) -> float:
    taken = []
    for turn in range(-WARM_UPS, repeat):
        settle()
        begin = time.perf_counter()
        call()
        if turn >= 0:
            taken.append((time.perf_counter() - begin) * 1e6)
    settle()
    return statistics.median(taken)
