"""Decode attention of a paged KV cache for serving: plans once a step, runs once a layer."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from . import _abi, _direct, errors
from ._batches import HostBatch, on_gpu, on_host
from ._device_planner import DevicePlanner, DevicePlanning, DevicePlanReport, PreparedStep, csr_tables
from ._device_tables import DeviceTables
from ._executors import CpuExecutor, CudaExecutor, Workspace
from ._tensors import Indices, Tensor, device_of, empty_like, empty_lse
from .live import LiveBatch, LivePlans
from .machine import Profile, Workers, choice, shape_struct, shape_text
from .plans import Explanation, Forest, Plan, Planner, PlanOptions, Statistics

if TYPE_CHECKING:
    from typing_extensions import Unpack

LAYOUTS = {"NHD": 0, "HND": 1}
LSE_BASES = {"natural": 0, "two": 1}


_made: weakref.WeakSet[DecodeAttention] = weakref.WeakSet()


def _after_fork() -> None:
    for attention in list(_made):
        attention._after_fork()


os.register_at_fork(after_in_child=_after_fork)


class Step(TypedDict, total=False):
    """What all forms of page tables take beside them: see DecodeAttention.plan."""

    query_start_loc: Indices | None
    query_parents: Indices | None
    num_queries: int | None
    num_pages: int | None
    null_page: int | None
    check_ids: bool
    forest: Forest | None
    slots: Indices | None
    generations: Indices | None
    device_tables: DeviceTables | None
    stream: int | None


class DecodeAttention:
    """Attention of decode steps: `plan` once a step, `run` once a layer.

    One object serves all layers of one shape. It belongs to one thread at a time: a call that meets another raises
    BusyError.

    num_qo_heads, num_kv_heads: Hq, a multiple of Hkv (1 to 16 times); head_dim: d, 64, 128 or 256; page_size: P.
    dtype: of Q, K and V: float16, bfloat16, on the CPU also float32 (a name, numpy's or torch's).
    device: "cpu", "cuda", "cuda:1", a torch.device. "cuda" is torch's current device at that time, or "cuda:0".
    kv_layout: "NHD", caches [pages, P, Hkv, d], or "HND", [pages, Hkv, P, d].
    lse_base: "natural" or "two" (FlashInfer's), of the logarithm in log-sum-exps.
    policy, options: how plans are made; `options`, a PlanOptions, has the policy, too.
    profile: the machine to plan for; by default typical figures of this one. On the CPU, Profile.measure_cpu knows
    better.
    workers: CPU threads; by default all cores, shared by all objects that do not bring their own.
    workspace: memory on the device, of any dtype; by default our own, which grows. workspace_bytes() tells what it
    takes.
    use_cuda_graph: `run` will be captured: workspace, tables and capacities then stay as the first plan has them.
    max_queries: the most query tokens of a step, which must be given then.
    async_planning: plan_live takes plans that a thread has made since `submit`.
    edit_share: plan_live edits its plan while at most this share of the requests has come or gone; 0: never.
    kernels: on a GPU "auto", "portable" or "hopper". check_pages: on a GPU, each plan checks all page ids, and waits
    for it.
    device_planning: on a GPU, plans are made there, by policy `trunk`, from tables and lengths that are there: nothing
    is read on the host, and nothing waits. See DevicePlanning, and plan.

    >>> import numpy as np, trunkline
    >>> attention = trunkline.DecodeAttention(8, 2, 64, page_size=16, dtype="float32")
    >>> table = np.array([[3, 8, 1], [3, 8, 4]], np.int32)  # both requests begin with pages 3 and 8
    >>> attention.plan(table, kv_lens=[40, 37])
    >>> q = np.ones((2, 8, 64), np.float32)
    >>> k, v = np.zeros((2, 10, 16, 2, 64), np.float32)
    >>> for layer in range(4):
    ...     out = attention.run(q, (k, v))
    >>> attention.statistics.kv_tokens_total, attention.statistics.kv_tokens_distinct
    (77, 45)
    """

    def __init__(
        self,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        *,
        dtype: object = "float16",
        device: object = "cpu",
        kv_layout: str = "NHD",
        lse_base: str = "natural",
        policy: str | None = None,
        options: PlanOptions | None = None,
        profile: Profile | None = None,
        workers: Workers | None = None,
        workspace: Tensor = None,
        use_cuda_graph: bool = False,
        max_queries: int = 0,
        async_planning: bool = False,
        edit_share: float = 0.0,
        kernels: str = "auto",
        check_pages: bool = False,
        device_planning: DevicePlanning | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._layout = choice(LAYOUTS, kv_layout, "kv_layout")
        self._lse_base = choice(LSE_BASES, lse_base, "lse_base")
        self._shape = shape_struct(num_qo_heads, num_kv_heads, head_dim, page_size, dtype, device)
        self._device, index = device_of(device)
        options = options or PlanOptions()
        if policy is not None:
            options = PlanOptions(**{**options.__dict__, "policy": policy})
        self._executor: CpuExecutor | CudaExecutor
        if self._device == _abi.CUDA:
            self._executor = CudaExecutor(index, kernels, check_pages, use_cuda_graph)
            profile = profile or Profile.cuda(
                num_qo_heads, num_kv_heads, head_dim, page_size, dtype=dtype, device=device, kernels=kernels
            )
        else:
            self._executor = CpuExecutor(workers)
            profile = profile or Profile.generic_cpu(self._executor.workers.size)
        self._executor.check_shape(self._shape)
        self._use_graph = use_cuda_graph
        if use_cuda_graph and self._device != _abi.CUDA:
            raise errors.InvalidArgumentError('use_cuda_graph is True on the CPU; expected: device="cuda"')
        self._on_device: DevicePlanner | None = None
        if device_planning is not None:
            self._on_device = _device_planner(
                device_planning, profile, self._shape, options, self._executor, use_cuda_graph
            )
            max_queries = device_planning.queries
        elif use_cuda_graph:
            options = _with_capacities(options, max_queries, profile.info["workers"])
        self.max_queries = max_queries
        self._planner = Planner(profile, self._shape, options)
        self._forest = Forest()
        self._batch = HostBatch(page_size)
        self._workspace = Workspace(self._device, index, workspace)
        self._runner = _direct.Runner()
        self._run: Any
        self._forget()
        self._planned_forest = 0
        self._in_use: Forest | LiveBatch | None = None
        _made.add(self)
        self._live: tuple[LiveBatch, LivePlans] | None = None
        self._asynchronous = async_planning
        self._edit_share = edit_share

    # -- Planning: once a step

    def plan(
        self,
        page_table: Indices,
        kv_lens: Indices,
        *,
        query_start_loc: Indices | None = None,
        query_parents: Indices | None = None,
        num_queries: int | None = None,
        num_pages: int | None = None,
        null_page: int | None = None,
        check_ids: bool = False,
        forest: Forest | None = None,
        slots: Indices | None = None,
        generations: Indices | None = None,
        device_tables: DeviceTables | None = None,
        stream: int | None = None,
    ) -> None:
        """Finds what the step's requests share, plans who reads what together, and fits the plan to the tables.

        page_table [B, W] of int32 or int64: row r's token t is in page page_table[r, t // P]. Entries past a row's
        length are never read. kv_lens [B]: tokens in the cache, this step's included; 0 is an empty request.

        query_start_loc [B + 1]: prefix sums of query tokens, for steps with several a request (chunks, drafts), T in
        all; by default one each. The i-th of a request's n is at position kv_len - n + i and sees no later one.
        query_parents [T]: token trees; for each query token the index, among its request's, of the one before it, -1
        for the root, which is token 0.

        num_pages: of the cache. Given, ids are trusted unless check_ids; else the largest id in use is looked up.
        null_page: an id that stands for "no page" and is never shared.
        forest: what is shared, where it is known better than from page ids (Forest.from_tree).

        Tables are read on the host, in place: numpy arrays, torch CPU tensors, lists. They stay in use until the next
        plan. On a GPU, device_tables has the same there; without it they are copied (by torch). Tables that are only
        on the GPU are copied to the host, which waits for it. stream: a cudaStream_t; by default torch's current one.

        With device_planning, page_table, kv_lens and query_start_loc are on the GPU (all but page_table int32), and
        read there alone, in place; with query_start_loc, q and outputs have T = num_queries rows, by default
        max_queries, of which those past the last query token are not written. A graph may capture plan and run
        together, after one call of plan before: replays plan what tables and lengths hold by then, requests of length
        0 being padding. There are no token trees, forests and slots then.
        """
        self._enter()
        try:
            self._forget()
            there = self._on_device is not None
            if self._device == _abi.CUDA and not there:
                if device_tables is None and on_gpu(page_table) and on_gpu(kv_lens):
                    device_tables = DeviceTables(kv_lens.int(), page_table=page_table)
                page_table, kv_lens = on_host(page_table), on_host(kv_lens)
            step: Step = {
                "query_start_loc": query_start_loc,
                "query_parents": query_parents,
                "num_queries": num_queries,
                "num_pages": num_pages,
                "null_page": null_page,
                "check_ids": check_ids,
                "forest": forest,
                "slots": slots,
                "generations": generations,
                "device_tables": device_tables,
                "stream": stream,
            }
            if there:
                self._plan_there(DeviceTables(kv_lens, page_table=page_table), **step)
            else:
                self._batch.dense(page_table, kv_lens)
                self._finish(**step)
        finally:
            self._lock.release()

    def prepare(
        self,
        page_table: Tensor,
        kv_lens: Tensor,
        *,
        query_start_loc: Tensor = None,
        num_queries: int | None = None,
        num_pages: int | None = None,
    ) -> PreparedStep:
        """With device_planning: a step whose arrays stay where they are, checked once. plan_prepared then plans what
        they hold, as `plan` would, in less of the host's time. Valid as long as the arrays are and the
        DecodeAttention."""
        self._enter()
        try:
            if self._on_device is None:
                raise errors.InvalidArgumentError("prepare() needs device_planning; plans of the host take plan()")
            step: Step = {"query_start_loc": query_start_loc, "num_queries": num_queries, "num_pages": num_pages}
            tables = DeviceTables(kv_lens, page_table=page_table)
            return PreparedStep(self._on_device.prepare(tables, step), self)
        finally:
            self._lock.release()

    def plan_prepared(self, step: PreparedStep, *, stream: int | None = None) -> None:
        """Plans a step of prepare(). May be captured in a graph, as `plan`."""
        self._enter()
        try:
            self._forget()
            if self._on_device is None or step.owner is not self:
                raise errors.InvalidArgumentError("step was prepared by another DecodeAttention; expected: this one")
            self._on_device.plan(step.batch, self._workspace, stream)
            self._begin_runs(self._on_device.address)
        finally:
            self._lock.release()

    def plan_csr(
        self,
        indptr: Indices,
        indices: Indices,
        last_page_len: Indices,
        **step: Unpack[Step],
    ) -> None:
        """As `plan`, from FlashInfer's form: row r's pages are indices[indptr[r]:indptr[r + 1]],
        and the last of them holds last_page_len[r] tokens, 1 to P; a row without pages is empty. With device_planning
        lengths are computed on torch's current stream."""
        self._enter()
        try:
            self._forget()
            if self._on_device is not None:
                index = self._executor.device_index
                tables = csr_tables(indptr, indices, last_page_len, self._shape.page_size, index)
                self._plan_there(tables, **step)
                return
            self._batch.csr(on_host(indptr), on_host(indices), on_host(last_page_len))
            self._finish(**step)
        finally:
            self._lock.release()

    def plan_token_level(
        self,
        req_to_token: Indices,
        req_pool_indices: Indices,
        kv_lens: Indices,
        **step: Unpack[Step],
    ) -> None:
        """As `plan`, from SGLang's form, page_size 1: row r's token t is in place
        req_to_token[req_pool_indices[r], t]."""
        self._enter()
        try:
            self._forget()
            if self._on_device is not None:
                tables = DeviceTables(kv_lens, req_to_token=req_to_token, req_pool_indices=req_pool_indices)
                self._plan_there(tables, **step)
                return
            self._batch.token_level(on_host(req_to_token), on_host(req_pool_indices), on_host(kv_lens))
            self._finish(**step)
        finally:
            self._lock.release()

    def plan_live(
        self, live: LiveBatch, *, device_tables: DeviceTables | None = None, stream: int | None = None
    ) -> str:
        """Plans for a live batch as it is, keeping the last plan while that is good. Says where the plan is
        from: "kept", "membership", "truncated", "growth", "edited"; with async_planning also "flat": the new
        one is late.

        The batch must not be edited until the step's runs are done.
        """
        self._enter()
        try:
            self._forget()
            if self._on_device is not None:
                raise errors.UnsupportedError(
                    "plan_live() with device_planning; supported: plan, plan_csr, plan_token_level, as a live batch is "
                    "on the host"
                )
            plans = self._plans_of(live)
            plan = plans.take(live)
            self._batch.live(live._handle.value)
            self._resolve(plan, device_tables, stream, live=True)
            self._planned_forest, self._in_use = live._forest(), live
            live._users.add(self)
            return plans.source
        finally:
            self._lock.release()

    def submit(self, live: LiveBatch) -> bool:
        """With async_planning: has the next plan made by a thread, once the next step's events are known. False
        when the plan that there is will do. Never waits."""
        self._enter()
        try:
            if not self._asynchronous:
                raise errors.InvalidArgumentError("submit() needs async_planning=True")
            return self._plans_of(live).submit(live)
        finally:
            self._lock.release()

    def ready(self) -> bool:
        """With async_planning: whether all that was submitted has been planned."""
        return self._live is None or not self._asynchronous or self._live[1].ready()

    @property
    def live_counts(self) -> dict[str, int]:
        """Steps of plan_live by where their plans came from."""
        return self._live[1].counts if self._live else {}

    def resolve(self, stream: int | None = None) -> None:
        """On a GPU: fits the plan again to what the device tables hold by now, without reading anything on the host:
        after tokens were appended and nothing else has changed. May be captured in a graph."""
        self._enter()
        try:
            self._need_plan()
            if not isinstance(self._executor, CudaExecutor):
                raise errors.InvalidArgumentError(
                    "resolve() is for GPUs; the plan is for the CPU, where plan() does it"
                )
            self._executor.resolve(self._workspace, self._executor.stream(stream))
        finally:
            self._lock.release()

    # -- Running: once a layer

    def run(
        self,
        q: Tensor,
        kv: Tensor,
        *,
        out: Tensor = None,
        lse: Tensor = None,
        return_lse: bool = False,
        scale: float = 0.0,
        stream: int | None = None,
    ) -> Any:
        """Attention of one layer for the planned step.

        q [T, Hq, d]; kv: a pair (k, v) of [pages, P, Hkv, d] (NHD) or [pages, Hkv, P, d] (HND), or both packed as
        [pages, 2, ..]. The last dimension has stride 1, all others any. out [T, Hq, d], float16, bfloat16 or float32,
        by default new and like q; 0 for an empty request. lse [T, Hq] of float32: log-sum-exps of the scaled logits,
        -inf for an empty request; given, or made by return_lse. scale multiplies the logits; 0: 1 / sqrt(d).

        Returns out, or (out, lse) with return_lse. On a GPU it launches on torch's current stream, or on `stream`.
        """
        if not self._lock.acquire(False):
            self._busy()
        try:
            if out is None:
                out = empty_like(q)
            if return_lse and lse is None:
                lse = empty_lse(q, q.shape[:2])
            if isinstance(kv, (tuple, list)):
                if len(kv) != 2:
                    raise errors.InvalidArgumentError(
                        f"kv has {len(kv)} tensors; expected: a pair (k, v), or one packed"
                    )
                if kv[1] is None:
                    raise errors.ArgumentTypeError("v is of type NoneType; expected: a tensor")
                self._run(q, kv[0], kv[1], out, lse, scale, stream)
            else:
                self._run(q, kv, None, out, lse, scale, stream)
        finally:
            self._lock.release()
        return (out, lse) if return_lse else out

    # -- Memory, and what there is to know

    def workspace_bytes(self) -> int:
        """What the last plan takes, and with capacities any other within them. Aligned to 64 bytes, on a GPU to 256.
        With device_planning, what all plans and the planner take, before the first, too."""
        if self._on_device is not None:
            return self._on_device.nbytes
        return self._executor.workspace_bytes(self._need_plan(), self._batch.queries)

    def set_workspace(self, workspace: Tensor) -> None:
        """Another one, from the next plan on: as many are needed as steps are in flight."""
        self._enter()
        try:
            if isinstance(self._executor, CudaExecutor) and self._plan:
                self._executor.release(self._workspace.address)
            self._workspace.give(workspace)
            self._forget()
        finally:
            self._lock.release()

    @property
    def current(self) -> Plan:
        """The plan of this step; it ends with the next."""
        self._need_host("current")
        return Plan(self._need_plan())

    @property
    def statistics(self) -> Statistics:
        """Of the last plan."""
        self._need_host("statistics")
        return self.current.statistics

    def plan_report(self) -> DevicePlanReport:
        """With device_planning: what the GPU has written by now, without waiting for it. Of a step in flight, some
        may be missing."""
        self._enter()
        try:
            if self._on_device is None:
                raise errors.InvalidArgumentError(
                    "plan_report() needs device_planning; of plans of the host, statistics tells"
                )
            return self._on_device.report()
        finally:
            self._lock.release()

    def explain(self, title: str = "Decode step") -> Explanation:
        """What the last step shares, and what the policies make of it."""
        self._enter()
        try:
            self._need_host("explain()")
            self._need_plan()
            # With a planner of its own, so that the plan in use stays.
            planner = Planner(self._planner.profile, self._shape, self._planner.options)
            return Explanation(planner, self._planned_forest, title)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Frees workspace and handles; using the object afterwards is a ClosedError."""
        self._enter()
        try:
            self._forget()
            for held in (self._on_device, self._executor, self._planner, self._forest):
                if held is not None:
                    held.close()
            if self._live is not None:
                self._live[1].close()
        finally:
            self._lock.release()

    def __enter__(self) -> DecodeAttention:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False

    def __repr__(self) -> str:
        place = "cpu" if self._device == _abi.CPU else f"cuda:{self._executor.device_index}"
        return f"<trunkline.DecodeAttention on {place}: {shape_text(self._shape)}>"

    # -- What the above have in common

    def _enter(self) -> None:
        if not self._lock.acquire(False):
            self._busy()

    def _busy(self) -> None:
        raise errors.BusyError(
            "the DecodeAttention is in use by another thread; use one for each thread, or take turns"
        )

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

    def _forget(self) -> None:
        self._plan = 0
        self._run = self._no_plan

    def _finish(
        self,
        *,
        query_start_loc: Indices | None = None,
        query_parents: Indices | None = None,
        num_queries: int | None = None,
        num_pages: int | None = None,
        null_page: int | None = None,
        check_ids: bool = False,
        forest: Forest | None = None,
        slots: Indices | None = None,
        generations: Indices | None = None,
        device_tables: DeviceTables | None = None,
        stream: int | None = None,
    ) -> None:
        if num_queries is not None:
            raise errors.InvalidArgumentError(
                f"num_queries is {num_queries}; expected without device_planning: none, as query_start_loc is read"
            )
        batch = self._batch
        batch.rest(num_pages, query_start_loc, query_parents, null_page, slots, generations)
        if forest is None:
            self._forest._build(batch, check_ids)
            forest = self._forest
        planned = forest._handle.value
        plan = self._planner.plan(planned)
        self._resolve(plan, device_tables, stream, live=False)
        self._planned_forest, self._in_use = planned, forest

    def _plan_there(self, tables: DeviceTables, **step: Unpack[Step]) -> None:
        planner = self._on_device
        assert planner is not None
        batch = planner.prepare(tables, step)
        planner.plan(batch, self._workspace, step.get("stream"))
        self._begin_runs(planner.address)

    def _resolve(self, plan: int, tables: DeviceTables | None, stream: int | None, *, live: bool) -> None:
        batch, executor, workspace = self._batch, self._executor, self._workspace
        if self._use_graph and batch.queries > self.max_queries:
            raise errors.InvalidArgumentError(
                f"the step has {batch.queries} query tokens; expected: at most max_queries = {self.max_queries}"
            )
        if isinstance(executor, CpuExecutor):
            executor.prepare(plan, batch, workspace)
        else:
            executor.prepare(plan, batch, workspace, tables, stream, live=live)
        self._begin_runs(plan)

    def _begin_runs(self, plan: int) -> None:
        """plan: its handle, or that of the planner on the GPU that has made it."""
        workspace = self._workspace
        self._runner.bind(
            self._device, self._executor.address, workspace.address, workspace.nbytes, self._layout, self._lse_base
        )
        self._plan = plan
        self._run = self._runner.run

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


def _device_planner(
    planning: DevicePlanning,
    profile: Profile,
    shape: _abi.Shape,
    options: PlanOptions,
    executor: object,
    use_graph: bool,
) -> DevicePlanner:
    if not isinstance(executor, CudaExecutor):
        raise errors.InvalidArgumentError('device_planning is given on the CPU; expected: device="cuda"')
    if not isinstance(planning, DevicePlanning):
        raise errors.ArgumentTypeError(f"device_planning is {planning!r}; expected: a DevicePlanning")
    if options not in (PlanOptions(), PlanOptions(policy="trunk")):
        raise errors.InvalidArgumentError(
            f"options are {options}; expected with device_planning: none, or policy='trunk', which it plans by"
        )
    return DevicePlanner(profile, shape, planning, executor, same_tables=use_graph)


def _with_capacities(options: PlanOptions, queries: int, workers: int) -> PlanOptions:
    """Limits for graphs where the caller has set none: room for `trunk` on any batch of the size that is not built to
    break them; beyond, a plan falls back to `flat`, which always fits."""
    if queries < 1:
        raise errors.InvalidArgumentError(f"max_queries is {queries}; expected with use_cuda_graph: at least 1")
    items = options.capacity_items or 2 * queries + 4 * workers
    filled = {
        "capacity_queries": options.capacity_queries or queries,
        "capacity_items": items,
        "capacity_spans": options.capacity_spans or 8 * items,
        "capacity_partials": options.capacity_partials or 4 * queries + 4 * workers,
    }
    return PlanOptions(**{**options.__dict__, **filled})
