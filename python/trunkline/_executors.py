"""Executors run plans, on the CPU or a GPU: they fit a plan to a batch in a workspace, and then run layers by it."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import numpy as np

from . import _abi, errors
from ._arguments import address, choice
from ._batches import HostBatch
from ._device_tables import DeviceBatch, copied_tables, live_tables
from ._library import Handle, NotCopied, c, check, new
from ._step_options import StepOptions
from ._tensors import Tensor, view
from .machine import KERNELS, Profile, Workers

_ALIGNMENT = {_abi.CPU: 64, _abi.CUDA: 256}
_shared: dict[int, Workers] = {}


def shared_workers() -> Workers:
    """Workers on all cores, made when first needed; a forked child gets workers of its own."""
    process = os.getpid()
    found = _shared.get(process)
    return _shared.setdefault(process, Workers()) if found is None else found


class Workspace(NotCopied):
    """Memory for one step: the caller's, or our own, which grows until a graph may hold its address."""

    def __init__(self, device: int, device_index: int, given: Tensor = None) -> None:
        self._device = device
        self._index = device_index
        self.owned = given is None
        self.fixed = not self.owned
        self.address = 0
        self.nbytes = 0
        if given is not None:
            self.give(given)

    def give(self, memory: Tensor) -> None:
        found = view(memory, "workspace")
        if (found.device, found.device_index) != (self._device, self._index):
            place = "cpu" if self._device == _abi.CPU else f"cuda:{self._index}"
            raise errors.InvalidArgumentError(f"workspace is on {found.place}; expected: {place}")
        if not found.contiguous or found.read_only:
            raise errors.InvalidArgumentError(
                "workspace has gaps or is read-only; expected: contiguous writable memory"
            )
        skipped = -found.address % _ALIGNMENT[self._device]
        self.owned, self.fixed = False, True
        self._memory = memory
        self.address = found.address + skipped
        self.nbytes = max(found.nbytes - skipped, 0)

    def reserve(self, nbytes: int) -> bool:
        """Makes room; True when the address has changed."""
        if nbytes <= self.nbytes:
            return False
        if self.fixed:
            whose = "captured graphs may hold it" if self.owned else "it is the caller's"
            raise errors.WorkspaceError(
                f"workspace has {self.nbytes} aligned bytes and cannot grow, as {whose}; this plan takes {nbytes}"
            )
        room = nbytes + nbytes // 4  # batches grow
        if self._device == _abi.CPU:
            memory: Any = np.empty(room + 64, np.uint8)
            address = memory.ctypes.data
        else:
            memory = _torch().empty(room + 256, dtype=_torch().uint8, device=f"cuda:{self._index}")
            address = memory.data_ptr()
        self._memory = memory
        self.address = address + -address % _ALIGNMENT[self._device]
        self.nbytes = room
        return True


def _torch() -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        raise errors.WorkspaceError("workspace is missing, and torch is not imported to make one on the GPU; give one")
    return torch


class _HandleOwner(NotCopied):
    _handle: Handle

    def close(self) -> None:
        self._handle.close()


class CpuExecutor(_HandleOwner):
    device = _abi.CPU
    device_index = 0

    def __init__(self, workers: Workers | None) -> None:
        self.workers = workers or shared_workers()
        self.queue = self.workers._queue
        self._handle = Handle("cpu", self.workers._handle.value, None)
        self.address = self._handle.value
        self._bytes = ctypes.c_size_t()
        self._bytes_at = ctypes.addressof(self._bytes)

    def check_shape(self, shape: _abi.Shape) -> None:
        """UnsupportedError, with reasons, where it cannot be run."""
        check(c.trunkline_supports(ctypes.byref(shape)))

    def typical_profile(self, shape: _abi.Shape) -> Profile:
        """Figures for so many threads, where the caller has not measured."""
        return Profile.generic_cpu(self.workers.size)

    def workspace_bytes(self, plan: int, queries: int) -> int:
        check(c.trunkline_cpu_workspace_bytes(self._handle.value, plan, queries, self._bytes_at))
        return self._bytes.value

    def place(self, plan: int, batch: HostBatch, workspace: Workspace, options: StepOptions) -> None:
        """Fits the plan to the tables. No option is about that here. The size is asked for only when it does not fit,
        which saves 1 us a step."""
        if workspace.nbytes:
            status = self._resolve(plan, batch, workspace)
            if status != _abi.WORKSPACE:
                check(status)
                return
        workspace.reserve(self.workspace_bytes(plan, batch.queries))
        check(self._resolve(plan, batch, workspace))

    def _resolve(self, plan: int, batch: HostBatch, workspace: Workspace) -> int:
        resolve = c.trunkline_cpu_resolve
        return int(resolve(self.address, plan, batch.address, workspace.address, workspace.nbytes))


class CudaExecutor(_HandleOwner):
    """use_graph: runs are captured, so that workspace and tables stay where they are. A step then has at most
    max_queries query tokens."""

    device = _abi.CUDA
    queue = None  # runs are launched, and wait for none

    def __init__(
        self, device_index: int, kernels: str, check_pages: bool, *, use_graph: bool, max_queries: int
    ) -> None:
        self.device_index = device_index
        self._kernels = choice(KERNELS, kernels, "kernels")
        self._use_graph = use_graph
        self._max_queries = max_queries
        self._tables: DeviceBatch | None = None  # read by runs, so kept
        options = new(
            _abi.CudaOptions,
            device=device_index,
            check_pages=int(check_pages),
            kernels=self._kernels,
        )
        self._handle = Handle("cuda", ctypes.byref(options))
        self.address = self._handle.value
        self._bytes = ctypes.c_size_t()

    def check_shape(self, shape: _abi.Shape) -> None:
        """UnsupportedError, with reasons, where it cannot be run."""
        check(c.trunkline_cuda_supports(self._handle.value, ctypes.byref(shape)))

    def typical_profile(self, shape: _abi.Shape) -> Profile:
        """Figures of the GPU, with the tiles of the kernels that run the shape."""
        return Profile._made("cuda", self.device_index, ctypes.byref(shape), self._kernels)

    def workspace_bytes(self, plan: int, queries: int) -> int:
        check(c.trunkline_cuda_workspace_bytes(self._handle.value, plan, ctypes.byref(self._bytes)))
        return self._bytes.value

    def place(self, plan: int, batch: HostBatch, workspace: Workspace, options: StepOptions) -> None:
        """Copies the plan to the workspace and fits it to options.device_tables; without them, to a copy of the batch's
        tables."""
        if self._use_graph and batch.queries > self._max_queries:
            raise errors.InvalidArgumentError(
                f"the step has {batch.queries} query tokens; expected: at most max_queries = {self._max_queries}"
            )
        tables = options.device_tables
        if tables is None:
            if self._use_graph:
                raise errors.InvalidArgumentError(
                    "device_tables is missing; expected with use_cuda_graph, whose runs read tables where they were"
                )
            tables = (live_tables if batch.is_live else copied_tables)(batch, self.device_index)
        found = DeviceBatch(
            tables, batch.page_size, self.device_index, rows=batch.rows, num_pages=batch.batch.num_pages
        )
        if self._use_graph and self._tables is not None and found.addresses != self._tables.addresses:
            raise errors.InvalidArgumentError(
                "device_tables are elsewhere than with the first plan; expected with use_cuda_graph: the same memory, "
                "written anew"
            )
        at = self.stream(options.stream)
        former = workspace.address
        if workspace.reserve(self.workspace_bytes(plan, batch.queries)) and former:
            self.release(former)
        upload = c.trunkline_cuda_upload
        check(upload(self._handle.value, plan, batch.address, workspace.address, workspace.nbytes, at))
        self._tables = found
        self.resolve(workspace, at)
        workspace.fixed = workspace.fixed or self._use_graph

    def take(self, tables: DeviceBatch) -> None:
        """Takes the batch of a plan that is not from the host. It is resolved, and kept while it is read."""
        self._tables = tables

    def resolve(self, workspace: Workspace, stream: int) -> None:
        assert self._tables is not None
        check(c.trunkline_cuda_resolve(self._handle.value, self._tables.address, workspace.address, stream))

    def release(self, address: int) -> None:
        """Forgets a workspace."""
        check(c.trunkline_cuda_release(self._handle.value, address))

    def stream(self, given: int | None) -> int:
        """An address; by default torch's current one, else the legacy default stream."""
        if given is not None:
            return address(given, "stream")
        torch = sys.modules.get("torch")
        return int(torch.cuda.current_stream(self.device_index).cuda_stream) if torch is not None else 0
