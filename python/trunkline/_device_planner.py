"""Plans made on a GPU, of page tables and lengths that are there."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from . import _abi, errors
from ._arguments import flag, instance, int64
from ._device_planning import DevicePlanning as DevicePlanning  # both for integrations.flashinfer, too
from ._device_planning import DevicePlanReport as DevicePlanReport
from ._device_tables import DeviceBatch, DeviceTables, device_array
from ._executors import CudaExecutor, Workspace
from ._library import Handle, NotCopied, c, check, new
from ._tensors import Tensor
from .machine import Profile
from .plans import PlanOptions

_ALIGNMENT = 256


def refuse_for_hosts(step: Mapping[str, Any], planning: DevicePlanning) -> None:
    """Refuses the arguments of plan() that only the host's planner takes."""
    for name in ("forest", "slots", "generations", "device_tables"):
        if step.get(name) is not None:
            raise errors.InvalidArgumentError(
                f"{name} is given; expected with device_planning: none, as the GPU plans from its own tables"
            )
    if flag(step.get("check_ids", False), "check_ids"):
        raise errors.InvalidArgumentError(
            "check_ids is True; expected with device_planning: False, as ids are not read on the host; "
            "check_pages=True checks them on the GPU"
        )
    if step.get("null_page") not in (None, planning.null_page):
        raise errors.InvalidArgumentError(
            f"null_page is {step['null_page']}; expected: that of device_planning, {planning.null_page}"
        )


def csr_tables(
    indptr: Tensor, indices: Tensor, last_page_len: Tensor, page_size: int, device_index: int
) -> DeviceTables:
    """With lengths computed on the GPU, by the tensors' library on its current stream."""
    starts = device_array(indptr, "indptr", 1, (_abi.I32,), device_index).shape[0]
    last = device_array(last_page_len, "last_page_len", 1, (_abi.I32,), device_index).shape[0]
    if starts < 1:
        raise errors.InvalidArgumentError("indptr is empty; expected: [batch + 1], from 0")
    if starts != last + 1:
        raise errors.InvalidArgumentError(f"last_page_len has shape [{last}]; expected: [batch] = [{starts - 1}]")
    counts = indptr[1:] - indptr[:-1]
    lengths = ((counts - 1) * page_size + last_page_len) * (counts > 0)
    return DeviceTables(lengths, indptr=indptr, indices=indices)


def _is_capturing() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_current_stream_capturing())


class DevicePlanner(NotCopied):
    """Makes plans in a workspace, behind which its own memory is. same_tables: captured runs read the first step's."""

    def __init__(
        self,
        profile: Profile,
        shape: _abi.Shape,
        planning: DevicePlanning,
        executor: CudaExecutor,
        plan_options: PlanOptions,
        *,
        same_tables: bool,
    ) -> None:
        self._same_tables = same_tables
        self.planning = planning
        self._page_size = shape.page_size
        self._executor = executor
        options = planning._struct(executor.device_index, profile.info["workers"], shape, plan_options)
        self._handle = Handle("cuda_planner", profile._handle.value, ctypes.byref(shape), ctypes.byref(options))
        self.address = self._handle.value
        size = ctypes.c_size_t()
        check(c.trunkline_cuda_planner_memory_bytes(self.address, ctypes.byref(size)))
        self._memory_bytes = size.value
        check(c.trunkline_cuda_planner_workspace_bytes(executor.address, self.address, ctypes.byref(size)))
        self._workspace_bytes = size.value
        self._bound = 0
        self._first: tuple[Any, ...] = ()

    @property
    def nbytes(self) -> int:
        """Of a workspace: the plan's, and the planner's memory from the next multiple of 256 bytes on."""
        return self._memory_at + self._memory_bytes

    @property
    def _memory_at(self) -> int:
        return self._workspace_bytes + -self._workspace_bytes % _ALIGNMENT

    def prepare(self, tables: DeviceTables, step: Mapping[str, Any]) -> DeviceBatch:
        """What plan() reads, checked."""
        refuse_for_hosts(step, self.planning)
        num_pages = step.get("num_pages")
        batch = DeviceBatch(
            tables,
            self._page_size,
            self._executor.device_index,
            num_pages=0 if num_pages is None else int64(num_pages, "num_pages", 0),
            query_start_loc=step.get("query_start_loc"),
            queries=self._queries(step),
            query_parents=step.get("query_parents"),
            query_capacity=self.planning.queries,
            prefix="",
        )
        if batch.rows > self.planning.max_rows:
            raise errors.InvalidArgumentError(
                f"the step has {batch.rows} requests; expected: at most device_planning.max_rows = "
                f"{self.planning.max_rows}"
            )
        return batch

    def plan(self, batch: DeviceBatch, workspace: Workspace, stream: int | None) -> None:
        """Plans and fits the plan to the tables; launches only."""
        if self._same_tables and self._first not in ((), batch.table_addresses):
            raise errors.InvalidArgumentError(
                "the page table is elsewhere than with the first plan; expected with use_cuda_graph: the same memory, "
                "written anew"
            )
        executor = self._executor
        at = executor.stream(stream)
        self._bind(workspace, at)
        status = self._launch(batch, workspace, at)
        if status == _abi.WORKSPACE and not _is_capturing():  # another has planned in this memory since
            self._bound = 0
            self._bind(workspace, at)
            status = self._launch(batch, workspace, at)
        check(status)
        executor.take(batch)
        executor.resolve(workspace, at)
        self._first = self._first or batch.table_addresses

    def _launch(self, batch: DeviceBatch, workspace: Workspace, stream: int) -> int:
        plan, nbytes = c.trunkline_cuda_plan, self._workspace_bytes
        return int(plan(self._executor.address, self.address, batch.address, workspace.address, nbytes, stream))

    def _queries(self, step: Mapping[str, Any]) -> int:
        """What query_start_loc may count; 0 for as many as the planner has room for."""
        given = step.get("num_queries")
        if given is None:
            return 0
        if step.get("query_start_loc") is None:
            raise errors.InvalidArgumentError(
                f"num_queries is {given}; expected without query_start_loc: none, as there is a query token a request"
            )
        if not 1 <= int64(given, "num_queries") <= self.planning.queries:
            raise errors.InvalidArgumentError(
                f"num_queries is {given}; expected: 1 to device_planning.max_queries = {self.planning.queries}"
            )
        return int(given)

    def _bind(self, workspace: Workspace, stream: int) -> None:
        """To a workspace, once."""
        if self._bound and self._bound == workspace.address:
            return
        if _is_capturing():
            raise errors.WorkspaceError(
                "plan() is captured before its workspace was set up; call plan() once before the capture"
            )
        workspace.reserve(self.nbytes)
        memory = workspace.address + self._memory_at
        check(c.trunkline_cuda_planner_bind(self.address, memory, self._memory_bytes, stream))
        self._bound = workspace.address

    def report(self) -> DevicePlanReport:
        found = new(_abi.CudaPlanReport)
        check(c.trunkline_cuda_planner_report(self._handle.value, ctypes.byref(found)))
        return DevicePlanReport(*(getattr(found, field.name) for field in fields(DevicePlanReport)))

    def close(self) -> None:
        self._handle.close()


def planner_for(
    planning: DevicePlanning,
    profile: Profile,
    shape: _abi.Shape,
    options: PlanOptions,
    executor: object,
    use_graph: bool,
) -> DevicePlanner:
    if not isinstance(executor, CudaExecutor):
        raise errors.InvalidArgumentError('device_planning is given on the CPU; expected: device="cuda"')
    instance(planning, DevicePlanning, "device_planning")
    instance(options, PlanOptions, "options")
    invariant = options.invariant_chunk if options.policy == "invariant" else 0
    if options not in (PlanOptions(), PlanOptions(policy="trunk"), PlanOptions("invariant", invariant_chunk=invariant)):
        raise errors.InvalidArgumentError(
            f"options are {options}; expected with device_planning: none, policy='trunk', or policy='invariant' "
            "and its invariant_chunk"
        )
    return DevicePlanner(profile, shape, planning, executor, options, same_tables=use_graph)
