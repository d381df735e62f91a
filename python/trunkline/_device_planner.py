"""Plans made on a GPU, of page tables and lengths that are there."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import fields
from typing import Any, NoReturn

from . import _abi, errors
from ._arguments import int64
from ._device_planning import DevicePlanning as DevicePlanning  # both for integrations.flashinfer, too
from ._device_planning import DevicePlanReport as DevicePlanReport
from ._device_planning import PreparedStep
from ._device_tables import DeviceBatch, DeviceTables, device_array
from ._executors import CpuExecutor, CudaExecutor, Workspace
from ._indices import Indices
from ._library import Handle, NotCopied, c, check, new
from ._step_options import StepOptions
from ._tensors import Tensor
from .live import LiveBatch
from .machine import Profile
from .plans import PlanOptions

_ALIGNMENT = 256


def refuse_host_options(options: StepOptions, planning: DevicePlanning) -> None:
    """Refuses the options that only the host's planner has."""
    for name in ("forest", "slots", "generations", "device_tables"):
        if getattr(options, name) is not None:
            raise errors.InvalidArgumentError(
                f"{name} is given; expected with device_planning: none, as the GPU plans from its own tables"
            )
    if options.check_ids:
        raise errors.InvalidArgumentError(
            "check_ids is True; expected with device_planning: False, as ids are not read on the host; "
            "check_pages=True checks them on the GPU"
        )
    if options.null_page not in (None, planning.null_page):
        raise errors.InvalidArgumentError(
            f"null_page is {options.null_page}; expected: that of device_planning, {planning.null_page}"
        )


def csr_tables(
    indptr: Tensor, indices: Tensor, last_page_len: Tensor, page_size: int, device_index: int
) -> DeviceTables:
    """Has lengths computed on the GPU, by the tensors' library on its current stream."""
    starts = device_array(indptr, "indptr", 1, (_abi.I32,), device_index).shape[0]
    last = device_array(last_page_len, "last_page_len", 1, (_abi.I32,), device_index).shape[0]
    if starts < 1:
        raise errors.InvalidArgumentError("indptr is empty; expected: [batch + 1], from 0")
    if starts != last + 1:
        raise errors.InvalidArgumentError(f"last_page_len has shape [{last}]; expected: [batch] = [{starts - 1}]")
    return DeviceTables(csr_lengths(indptr, last_page_len, page_size), indptr=indptr, indices=indices)


def csr_lengths(indptr: Tensor, last_page_len: Tensor, page_size: int) -> Tensor:
    """kv_lens of CSR tables, in a new array; 0 for a row without pages, whatever last_page_len says."""
    counts = indptr[1:] - indptr[:-1]
    return ((counts - 1) * page_size + last_page_len) * (counts > 0)


class DevicePlanner(NotCopied):
    """A StepPlanner that has a GPU read tables there, and make plans of policy `trunk` or `invariant` in a workspace.

    A workspace holds a plan and, behind it, the planner's own memory. Calls only launch; none waits for the GPU.
    same_tables: runs are captured, so that all steps have the first one's tables.
    """

    def __init__(
        self,
        planning: DevicePlanning,
        profile: Profile,
        shape: _abi.Shape,
        plan_options: PlanOptions,
        executor: CpuExecutor | CudaExecutor,
        *,
        same_tables: bool,
    ) -> None:
        if not isinstance(executor, CudaExecutor):
            raise errors.InvalidArgumentError('device_planning is given on the CPU; expected: device="cuda"')
        invariant = plan_options.invariant_chunk if plan_options.policy == "invariant" else 0
        supported = PlanOptions(), PlanOptions("trunk"), PlanOptions("invariant", invariant_chunk=invariant)
        if plan_options not in supported:
            raise errors.InvalidArgumentError(
                f"options are {plan_options}; expected with device_planning: none, policy='trunk', or "
                "policy='invariant' and its invariant_chunk"
            )
        self._same_tables = same_tables
        self._planning = planning
        self._page_size = shape.page_size
        self._executor = executor
        options = planning._struct(executor.device_index, profile.info["workers"], shape, plan_options)
        self._handle = Handle("cuda_planner", profile._handle.value, ctypes.byref(shape), ctypes.byref(options))
        self._address = self._handle.value
        size = ctypes.c_size_t()
        check(c.trunkline_cuda_planner_memory_bytes(self._address, ctypes.byref(size)))
        self._memory_bytes = size.value
        check(c.trunkline_cuda_planner_workspace_bytes(executor.address, self._address, ctypes.byref(size)))
        self._plan_bytes = size.value
        self._planned = False
        self._bound = 0  # address of the workspace that has the planner's memory
        self._first: tuple[Any, ...] = ()

    def plan_dense(self, page_table: Indices, kv_lens: Indices, options: StepOptions, workspace: Workspace) -> None:
        batch = self._batch(DeviceTables(kv_lens, page_table=page_table), options)
        self._plan(batch, workspace, options.stream)

    def plan_csr(
        self, indptr: Indices, indices: Indices, last_page_len: Indices, options: StepOptions, workspace: Workspace
    ) -> None:
        tables = csr_tables(indptr, indices, last_page_len, self._page_size, self._executor.device_index)
        self._plan(self._batch(tables, options), workspace, options.stream)

    def plan_token_level(
        self,
        req_to_token: Indices,
        req_pool_indices: Indices,
        kv_lens: Indices,
        options: StepOptions,
        workspace: Workspace,
    ) -> None:
        tables = DeviceTables(kv_lens, req_to_token=req_to_token, req_pool_indices=req_pool_indices)
        self._plan(self._batch(tables, options), workspace, options.stream)

    def prepare(self, tables: DeviceTables, options: StepOptions) -> PreparedStep:
        if options.stream is not None:
            raise errors.InvalidArgumentError(
                f"stream is {options.stream}; expected in prepare(): none, as plan_prepared() takes one"
            )
        return PreparedStep(self._batch(tables, options), self)

    def plan_prepared(self, step: PreparedStep, workspace: Workspace, stream: int | None) -> None:
        if step.owner is not self:
            raise errors.InvalidArgumentError("step was prepared by another DecodeAttention; expected: this one")
        self._plan(step.batch, workspace, stream)

    def plan_live(self, live: LiveBatch, options: StepOptions, workspace: Workspace) -> NoReturn:
        raise _no_live_batches("plan_live()")

    def submit(self, live: LiveBatch) -> NoReturn:
        raise _no_live_batches("submit()")

    def ready(self) -> bool:
        return True

    @property
    def live_counts(self) -> dict[str, int]:
        return {}

    @property
    def planned(self) -> bool:
        return self._planned

    def forget(self) -> None:
        self._planned = False

    def workspace_bytes(self) -> int:
        """The size that any plan and the planner's memory take."""
        return self._memory_at + self._memory_bytes

    def current(self) -> NoReturn:
        raise _no_host_plan("current")

    def statistics(self) -> NoReturn:
        raise _no_host_plan("statistics")

    def report(self) -> DevicePlanReport:
        found = new(_abi.CudaPlanReport)
        check(c.trunkline_cuda_planner_report(self._handle.value, ctypes.byref(found)))
        return DevicePlanReport(*(getattr(found, field.name) for field in fields(DevicePlanReport)))

    def explain(self, title: str) -> NoReturn:
        raise _no_host_plan("explain()")

    def close(self) -> None:
        self._handle.close()

    @property
    def _memory_at(self) -> int:
        return self._plan_bytes + -self._plan_bytes % _ALIGNMENT

    def _batch(self, tables: DeviceTables, options: StepOptions) -> DeviceBatch:
        """A step's tables as the library reads them, checked."""
        refuse_host_options(options, self._planning)
        batch = DeviceBatch(
            tables,
            self._page_size,
            self._executor.device_index,
            num_pages=0 if options.num_pages is None else int64(options.num_pages, "num_pages", 0),
            query_start_loc=options.query_start_loc,
            queries=self._queries(options),
            query_parents=options.query_parents,
            query_capacity=self._planning.queries,
            prefix="",
        )
        if batch.rows > self._planning.max_rows:
            raise errors.InvalidArgumentError(
                f"the step has {batch.rows} requests; expected: at most device_planning.max_rows = "
                f"{self._planning.max_rows}"
            )
        return batch

    def _queries(self, options: StepOptions) -> int:
        """The most that query_start_loc may count; 0: as many as the planner has room for."""
        given = options.num_queries
        if given is None:
            return 0
        if options.query_start_loc is None:
            raise errors.InvalidArgumentError(
                f"num_queries is {given}; expected without query_start_loc: none, as there is a query token a request"
            )
        if not 1 <= int64(given, "num_queries") <= self._planning.queries:
            raise errors.InvalidArgumentError(
                f"num_queries is {given}; expected: 1 to device_planning.max_queries = {self._planning.queries}"
            )
        return int(given)

    def _plan(self, batch: DeviceBatch, workspace: Workspace, stream: int | None) -> None:
        """Launches planning, and fits the plan to the tables."""
        if self._same_tables and self._first not in ((), batch.table_addresses):
            raise errors.InvalidArgumentError(
                "the page table is elsewhere than with the first plan; expected with use_cuda_graph: the same memory, "
                "written anew"
            )
        executor = self._executor
        at = executor.stream(stream)
        self._bind(workspace, at)
        status = self._launch(batch, workspace, at)
        if status == _abi.WORKSPACE and not _is_capturing():  # another object has planned in this memory since
            self._bound = 0
            self._bind(workspace, at)
            status = self._launch(batch, workspace, at)
        check(status)
        executor.take(batch)
        executor.resolve(workspace, at)
        self._first = self._first or batch.table_addresses
        self._planned = True

    def _launch(self, batch: DeviceBatch, workspace: Workspace, stream: int) -> int:
        plan, nbytes = c.trunkline_cuda_plan, self._plan_bytes
        return int(plan(self._executor.address, self._address, batch.address, workspace.address, nbytes, stream))

    def _bind(self, workspace: Workspace, stream: int) -> None:
        """Gives the planner its memory in a workspace, once for each."""
        if self._bound and self._bound == workspace.address:
            return
        if _is_capturing():
            raise errors.WorkspaceError(
                "plan() is captured before its workspace was set up; call plan() once before the capture"
            )
        workspace.reserve(self.workspace_bytes())
        memory = workspace.address + self._memory_at
        check(c.trunkline_cuda_planner_bind(self._address, memory, self._memory_bytes, stream))
        self._bound = workspace.address


def _no_live_batches(call: str) -> errors.UnsupportedError:
    return errors.UnsupportedError(
        f"{call} with device_planning; supported: plan, plan_csr, plan_token_level, as a live batch is on the host"
    )


def _no_host_plan(what: str) -> errors.UnsupportedError:
    return errors.UnsupportedError(f"{what} with device_planning; supported: plan_report(), as the host has no plan")


def _is_capturing() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_current_stream_capturing())
