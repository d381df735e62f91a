"""The planner interface of DecodeAttention. HostPlanner reads page tables in host memory, DevicePlanner on a GPU."""

from __future__ import annotations

from typing import Protocol

from ._device_planning import DevicePlanReport, PreparedStep
from ._device_tables import DeviceTables
from ._executors import Workspace
from ._indices import Indices
from ._step_options import StepOptions
from .live import LiveBatch
from .plans import Explanation, Plan, Statistics

NO_PLAN = "there is no plan; call plan() once a step, or plan_live() after each event"


class StepPlanner(Protocol):
    """Plans a step, and puts the plan into a workspace, fitted to the step's tables, for an executor to run.

    There is one plan at a time: a call that plans replaces it. Methods that only the other planner has raise an error.
    """

    # The plan of a step.
    def plan_dense(self, page_table: Indices, kv_lens: Indices, options: StepOptions, workspace: Workspace) -> None: ...

    def plan_csr(
        self, indptr: Indices, indices: Indices, last_page_len: Indices, options: StepOptions, workspace: Workspace
    ) -> None: ...

    def plan_token_level(
        self,
        req_to_token: Indices,
        req_pool_indices: Indices,
        kv_lens: Indices,
        options: StepOptions,
        workspace: Workspace,
    ) -> None: ...

    # A step whose arrays stay where they are: checked once, planned often.
    def prepare(self, tables: DeviceTables, options: StepOptions) -> PreparedStep: ...

    def plan_prepared(self, step: PreparedStep, workspace: Workspace, stream: int | None) -> None: ...

    # Steps of a live batch.
    def plan_live(self, live: LiveBatch, options: StepOptions, workspace: Workspace) -> str: ...

    def submit(self, live: LiveBatch) -> bool: ...

    def ready(self) -> bool: ...

    @property
    def live_counts(self) -> dict[str, int]: ...

    # The plan of the last call that planned.
    @property
    def planned(self) -> bool:
        """Whether there is one: the call succeeded, and forget() has not ended it."""

    def forget(self) -> None: ...

    def workspace_bytes(self) -> int: ...

    def current(self) -> Plan: ...

    def statistics(self) -> Statistics: ...

    def report(self) -> DevicePlanReport: ...

    def explain(self, title: str) -> Explanation: ...

    def close(self) -> None: ...
