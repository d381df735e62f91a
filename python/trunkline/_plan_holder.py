"""The plan that a DecodeAttention's runs go by, in which workspace, and whose turn it is."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from . import _abi, _direct, errors
from ._device_planner import DevicePlanner
from ._executors import CpuExecutor, CudaExecutor, Workspace

_made: weakref.WeakSet[PlanHolder] = weakref.WeakSet()


def _after_fork() -> None:
    for holder in list(_made):
        holder._after_fork()


os.register_at_fork(after_in_child=_after_fork)


class PlanHolder:
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
        self._lock = threading.Lock()
        self._device = executor.device
        self._executor = executor
        self._workspace = workspace
        self._on_device = on_device
        self._layout = layout
        self._lse_base = lse_base
        self._runner = _direct.Runner()
        self._run: Any
        self._forget()
        _made.add(self)

    def _enter(self) -> None:
        if not self._lock.acquire(False):
            self._busy()

    def _busy(self) -> None:
        raise errors.BusyError(
            "the DecodeAttention is in use by another thread; use one for each thread, or take turns"
        )

    def _begin_runs(self, plan: int) -> None:
        """plan: its handle, or that of the planner on the GPU that has made it."""
        workspace = self._workspace
        self._runner.bind(
            self._device, self._executor.address, workspace.address, workspace.nbytes, self._layout, self._lse_base
        )
        self._plan = plan
        self._run = self._runner.run

    def _forget(self) -> None:
        self._plan = 0
        self._run = self._no_plan

    def _need_plan(self) -> int:
        if not self._plan:
            self._no_plan()
        return self._plan

    def _need_host(self, what: str) -> None:
        if self._on_device is not None:
            raise errors.UnsupportedError(
                f"{what} with device_planning; supported: plan_report(), as the host has no plan"
            )

    def _no_plan(self, *_: object) -> None:
        if self._executor.closed:
            raise errors.ClosedError("the DecodeAttention is closed, or was made before this process was forked")
        raise errors.WorkspaceError("there is no plan; call plan() once a step, or plan_live() after each event")

    def _before_event(self) -> None:
        """Of the live batch that is planned for: its tables move, and on the CPU runs read them in place."""
        self._enter()
        if self._device == _abi.CPU:
            self._forget()
        self._lock.release()

    def _after_fork(self) -> None:
        """In the child: threads that runs would wait for are not there."""
        self._lock = threading.Lock()
        self._executor.abandon()
        if self._on_device is not None:
            self._on_device.abandon()
        self._forget()
