"""The plan that a DecodeAttention's runs go by, in which workspace, and whose turn it is."""

from __future__ import annotations

from . import _abi, _direct, errors
from ._device_planner import DevicePlanner
from ._executors import CpuExecutor, CudaExecutor, Workspace
from ._library import NotCopied

_NO_PLAN = "there is no plan; call plan() once a step, or plan_live() after each event"


class PlanHolder(NotCopied):
    """One step's plan at a time, for one thread at a time.

    on_device: the planner on the GPU, where plans are made there. layout, lse_base: numbers of decode.LAYOUTS and
    decode.LSE_BASES.
    """

    def __init__(
        self,
        executor: CpuExecutor | CudaExecutor,
        workspace: Workspace,
        on_device: DevicePlanner | None,
        *,
        layout: int,
        lse_base: int,
    ) -> None:
        self._device = executor.device
        self._executor = executor
        self._workspace = workspace
        self._on_device = on_device
        self._layout = layout
        self._lse_base = lse_base
        self._runner = _direct.Runner(executor.queue, errors.WorkspaceError, _NO_PLAN)
        self._run = self._runner.run
        self._plan = 0

    def _begin_runs(self, plan: int) -> None:
        """plan: its handle, or that of the planner on the GPU that has made it."""
        workspace = self._workspace
        self._runner.bind(
            self._device, self._executor.address, workspace.address, workspace.nbytes, self._layout, self._lse_base
        )
        self._plan = plan

    def _forget(self) -> None:
        self._runner.unbind()
        self._plan = 0

    def _need_plan(self) -> int:
        if self._runner.closed:
            raise errors.ClosedError("the DecodeAttention is closed")
        if not self._plan:
            raise errors.WorkspaceError(_NO_PLAN)
        return self._plan

    def _need_host(self, what: str) -> None:
        if self._on_device is not None:
            raise errors.UnsupportedError(
                f"{what} with device_planning; supported: plan_report(), as the host has no plan"
            )

    def _before_event(self) -> None:
        """Of the live batch that is planned for: its tables move, and on the CPU runs read them in place."""
        if not (self._runner.forked or self._runner.closed):
            self._runner.alone(self._tables_move)

    def _tables_move(self) -> None:
        if self._device == _abi.CPU:
            self._forget()
