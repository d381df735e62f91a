"""Plans made on the host: of a step's page tables, or of a live batch."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from . import _abi, errors
from ._batches import HostBatch, on_gpu, on_host
from ._device_planning import DevicePlanReport, PreparedStep
from ._device_tables import DeviceTables
from ._executors import CpuExecutor, CudaExecutor, Workspace
from ._indices import Indices
from ._library import NotCopied
from ._step_options import StepOptions
from ._step_planner import NO_PLAN
from .live import LiveBatch, LivePlans
from .machine import Profile
from .plans import Explanation, Forest, Plan, Planner, PlanOptions, Statistics


class HostPlanner(NotCopied):
    """A StepPlanner that reads tables in host memory, and makes plans of all policies there.

    asynchronous, edit_share: of live batches, as DecodeAttention has them.
    """

    def __init__(
        self,
        profile: Profile,
        shape: _abi.Shape,
        options: PlanOptions,
        executor: CpuExecutor | CudaExecutor,
        *,
        asynchronous: bool,
        edit_share: float,
    ) -> None:
        self._shape = shape
        self._planner = Planner(profile, shape, options)
        self._executor = executor
        self._for_gpu = executor.device == _abi.CUDA
        self._asynchronous = asynchronous
        self._edit_share = edit_share
        self._batch = HostBatch(shape.page_size)  # the step's arrays, which runs on the CPU read in place
        self._forest = Forest()
        self._plan = 0  # its handle; 0: there is none
        # The sources that the plan was made from, kept until the next step.
        self._planned_forest = 0
        self._in_use: Forest | LiveBatch | None = None
        self._live: tuple[LiveBatch, LivePlans] | None = None

    def plan_dense(self, page_table: Indices, kv_lens: Indices, options: StepOptions, workspace: Workspace) -> None:
        if self._for_gpu:
            if options.device_tables is None and on_gpu(page_table) and on_gpu(kv_lens):
                options = replace(options, device_tables=DeviceTables(kv_lens.int(), page_table=page_table))
            page_table, kv_lens = on_host(page_table), on_host(kv_lens)
        self._batch.dense(page_table, kv_lens)
        self._plan_batch(options, workspace)

    def plan_csr(
        self, indptr: Indices, indices: Indices, last_page_len: Indices, options: StepOptions, workspace: Workspace
    ) -> None:
        self._batch.csr(on_host(indptr), on_host(indices), on_host(last_page_len))
        self._plan_batch(options, workspace)

    def plan_token_level(
        self,
        req_to_token: Indices,
        req_pool_indices: Indices,
        kv_lens: Indices,
        options: StepOptions,
        workspace: Workspace,
    ) -> None:
        self._batch.token_level(on_host(req_to_token), on_host(req_pool_indices), on_host(kv_lens))
        self._plan_batch(options, workspace)

    def prepare(self, tables: DeviceTables, options: StepOptions) -> NoReturn:
        raise errors.InvalidArgumentError("prepare() needs device_planning; plans of the host take plan()")

    def plan_prepared(self, step: PreparedStep, workspace: Workspace, stream: int | None) -> NoReturn:
        raise errors.InvalidArgumentError("step was prepared by another DecodeAttention; expected: this one")

    def plan_live(self, live: LiveBatch, options: StepOptions, workspace: Workspace) -> str:
        """Keeps the last plan while it is good; says where the plan is from."""
        plans = self._plans_of(live)
        plan = plans.take(live)
        self._batch.live(live._handle.value)
        self._planned_forest, self._in_use = live._forest(), live
        self._executor.place(plan, self._batch, workspace, options)
        self._plan = plan
        return plans.source

    def submit(self, live: LiveBatch) -> bool:
        if not self._asynchronous:
            raise errors.InvalidArgumentError("submit() needs async_planning=True")
        return self._plans_of(live).submit(live)

    def ready(self) -> bool:
        return self._live is None or not self._asynchronous or self._live[1].ready()

    @property
    def live_counts(self) -> dict[str, int]:
        return self._live[1].counts if self._live else {}

    @property
    def planned(self) -> bool:
        return self._plan != 0

    def forget(self) -> None:
        self._plan = 0

    def workspace_bytes(self) -> int:
        """The size that the plan takes, and with capacities any other within them."""
        return self._executor.workspace_bytes(self._needed_plan(), self._batch.queries)

    def current(self) -> Plan:
        return Plan(self._needed_plan())

    def statistics(self) -> Statistics:
        return self.current().statistics

    def report(self) -> DevicePlanReport:
        raise errors.InvalidArgumentError("plan_report() needs device_planning; of plans of the host, statistics tells")

    def explain(self, title: str) -> Explanation:
        """Explains the last step by a planner of its own, so that the plan in use stays."""
        self._needed_plan()
        planner = Planner(self._planner.profile, self._shape, self._planner.options)
        return Explanation(planner, self._planned_forest, title)

    def close(self) -> None:
        self._planner.close()
        self._forest.close()
        if self._live is not None:
            self._live[1].close()

    def _needed_plan(self) -> int:
        if not self._plan:
            raise errors.WorkspaceError(NO_PLAN)
        return self._plan

    def _plan_batch(self, options: StepOptions, workspace: Workspace) -> None:
        """Plans for options.forest, or for what the batch's page tables share."""
        if options.num_queries is not None:
            raise errors.InvalidArgumentError(
                f"num_queries is {options.num_queries}; expected without device_planning: none, as query_start_loc is "
                "read"
            )
        self._batch.rest(options)
        forest = options.forest
        if forest is None:
            forest = self._forest
            forest._build(self._batch, options.check_ids)
        planned = forest._handle.value
        plan = self._planner.plan(planned)
        self._planned_forest, self._in_use = planned, forest
        self._executor.place(plan, self._batch, workspace, options)
        self._plan = plan

    def _plans_of(self, live: LiveBatch) -> LivePlans:
        if self._live is None or self._live[0] is not live:
            profile = self._planner.profile._handle.value
            plans = LivePlans(
                profile,
                self._shape,
                self._planner.options,
                asynchronous=self._asynchronous,
                edit_share=self._edit_share,
            )
            self._live = live, plans
        return self._live[1]
