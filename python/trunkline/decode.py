"""Decode attention of a paged KV cache for serving: plans once a step, runs once a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from . import _abi, _direct, errors
from ._arguments import choice, flag, instance, int32, number, optional
from ._capacities import with_capacities
from ._device_planner import DevicePlanner
from ._device_planning import DevicePlanning, DevicePlanReport, PreparedStep
from ._device_tables import DeviceTables
from ._executors import CpuExecutor, CudaExecutor, Workspace
from ._host_planner import HostPlanner
from ._indices import Indices
from ._library import NotCopied
from ._step_options import StepArguments, StepOptions, with_step_options
from ._step_planner import NO_PLAN, StepPlanner
from ._tensors import Tensor, device_of, empty, finished, records_gradients, refuse_gradients
from ._turns import one_at_a_time
from .live import LiveBatch
from .machine import KERNELS, Profile, Workers, shape_struct, shape_text
from .plans import Explanation, Plan, PlanOptions, Statistics

if TYPE_CHECKING:
    from typing_extensions import Unpack

LAYOUTS = {"NHD": 0, "HND": 1}
LSE_BASES = {"natural": 0, "two": 1}


class DecodeAttention(NotCopied):
    """Attention of decode steps: `plan` once a step, `run` once a layer.

    One object serves all layers of one shape. It belongs to one thread at a time: a call that meets another raises
    BusyError. It belongs to one process: in a forked child, calls raise ClosedError.

    num_qo_heads, num_kv_heads: Hq, a multiple of Hkv (1 to 64 times); head_dim: d, 64, 128 or 256; page_size: P.
    dtype: of Q, K and V: float16, bfloat16, on the CPU also float32 (a name, numpy's or torch's).
    kv_dtype: of K and V where it is not `dtype`: float8_e4m3fn or float8_e5m2, on the CPU and on GPUs
    of compute capability 9.0.
    device: "cpu", "cuda", "cuda:1", a torch.device. "cuda" is torch's current device at that time, or "cuda:0".
    kv_layout: "NHD", caches [pages, P, Hkv, d], or "HND", [pages, Hkv, P, d].
    lse_base: "natural" or "two" (FlashInfer's), of the logarithm in log-sum-exps.
    policy, options: how plans are made; `options`, a PlanOptions, has the policy, too.
    profile: the machine to plan for; by default typical figures of this one. On the CPU, Profile.measure_cpu knows
    better.
    workers: CPU threads; by default all cores, shared by all objects that do not bring their own. Runs of objects that
    share workers wait for each other.
    workspace: memory on the device, of any dtype; by default our own, which grows. workspace_bytes() tells what it
    takes. It is this object's from a plan to that step's last run: where another plans in any of it meanwhile, run() is
    a WorkspaceError. Replays of captured graphs cannot tell: objects that are captured have a workspace each, which
    serves all graphs of the object whose replays follow one another.
    use_cuda_graph: `run` will be captured: workspace, tables and capacities then stay as the first plan has them.
    max_queries: the most query tokens of a step, which must be given then.
    async_planning: plan_live takes plans that a thread has made since `submit`.
    edit_share: plan_live edits its plan while at most this share of the requests has come or gone; 0: never.
    kernels: on a GPU "auto", "portable" or "hopper". check_pages: on a GPU, each plan checks all page ids, and waits
    for it.
    device_planning: on a GPU, plans are made there, by policy `trunk` or `invariant`, from tables and lengths that
    are there: nothing is read on the host, and nothing waits. See DevicePlanning, and plan.

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
        kv_dtype: object = None,
    ) -> None:
        self._layout = choice(LAYOUTS, kv_layout, "kv_layout")
        self._lse_base = choice(LSE_BASES, lse_base, "lse_base")
        self._shape = shape_struct(num_qo_heads, num_kv_heads, head_dim, page_size, dtype, device, kv_dtype)
        kind, index = device_of(device)
        choice(KERNELS, kernels, "kernels")
        flag(use_cuda_graph, "use_cuda_graph")
        flag(async_planning, "async_planning")
        flag(check_pages, "check_pages")
        max_queries = int32(max_queries, "max_queries", 0)
        edit_share = number(edit_share, "edit_share", 0)
        optional(profile, Profile, "profile")
        optional(workers, Workers, "workers")
        optional(device_planning, DevicePlanning, "device_planning")
        options = optional(options, PlanOptions, "options") or PlanOptions()
        if policy is not None:
            options = PlanOptions(**{**options.__dict__, "policy": policy})
        # The executor fits plans to workspaces, and runs layers.
        self._executor: CpuExecutor | CudaExecutor
        if kind == _abi.CUDA:
            self._executor = CudaExecutor(
                index, kernels, check_pages, use_graph=use_cuda_graph, max_queries=max_queries
            )
        else:
            self._executor = CpuExecutor(workers)
        self._executor.check_shape(self._shape)
        if use_cuda_graph and kind != _abi.CUDA:
            raise errors.InvalidArgumentError('use_cuda_graph is True on the CPU; expected: device="cuda"')
        # The planner makes a step's plan, on the host or on the GPU.
        self._planner: StepPlanner
        profile = profile or self._executor.typical_profile(self._shape)
        if device_planning is not None:
            max_queries = device_planning.queries
            self._planner = DevicePlanner(
                device_planning, profile, self._shape, options, self._executor, same_tables=use_cuda_graph
            )
        else:
            if use_cuda_graph:
                options = with_capacities(options, max_queries, profile.info["workers"], self._shape)
            self._planner = HostPlanner(
                profile, self._shape, options, self._executor, asynchronous=async_planning, edit_share=edit_share
            )
        self.max_queries = max_queries
        # The workspace holds the plan, and partial results of a run.
        self._workspace = Workspace(kind, index, workspace)
        # The runner runs a layer by what the executor has placed, and gives calls their turns.
        self._runner = _direct.Runner(self._executor.queue, errors.WorkspaceError, NO_PLAN)
        self._run = self._runner.run

    @one_at_a_time
    @with_step_options
    def plan(self, page_table: Indices, kv_lens: Indices, **options: Unpack[StepArguments]) -> None:
        """Finds what the step's requests share, plans who reads what together, and fits the plan to the tables.

        page_table [B, W] of int32 or int64: row r's token t is in page page_table[r, t // P]. Entries past a row's
        length are never read. kv_lens [B]: tokens in the cache, this step's included; 0 is an empty request.

        query_start_loc [B + 1]: prefix sums of query tokens, for steps with several a request (chunks, drafts), T in
        all; by default one each. The i-th of a request's n is at position kv_len - n + i and sees no later one.
        query_parents [T]: token trees; for each query token the index, among its request's, of the one before it, -1
        for the root, which is token 0.

        num_pages: of the cache. Given, ids are trusted unless check_ids; else the largest id in use is looked up.
        null_page: a page of the cache that stands for "no page" and is never shared.
        forest: what is shared, where it is known better than from page ids (Forest.from_tree).

        Tables are read on the host, in place: numpy arrays, torch CPU tensors, lists. They stay in use until the next
        plan. On a GPU, device_tables has the same there; without it they are copied (by torch). Tables that are only
        on the GPU are copied to the host, which waits for it. stream: a cudaStream_t; by default torch's current one.

        With device_planning, page_table, kv_lens, query_start_loc and query_parents are on the GPU (all but
        page_table int32), and read there alone, in place; with query_start_loc, q and outputs have T = num_queries
        rows, by default max_queries, of which those past the last query token are not written. A graph may capture
        plan and run together, after one call of plan before: replays plan what tables and lengths hold by then,
        requests of length 0 being padding. There are no forests and slots then.
        """
        self._forget()
        self._planner.plan_dense(page_table, kv_lens, StepOptions.of(options), self._workspace)
        self._begin_runs()

    @one_at_a_time
    @with_step_options
    def plan_csr(
        self, indptr: Indices, indices: Indices, last_page_len: Indices, **options: Unpack[StepArguments]
    ) -> None:
        """As `plan`, from FlashInfer's form: row r's pages are indices[indptr[r]:indptr[r + 1]],
        and the last of them holds last_page_len[r] tokens, 1 to P; a row without pages is empty. With device_planning
        lengths are computed on torch's current stream."""
        self._forget()
        self._planner.plan_csr(indptr, indices, last_page_len, StepOptions.of(options), self._workspace)
        self._begin_runs()

    @one_at_a_time
    @with_step_options
    def plan_token_level(
        self, req_to_token: Indices, req_pool_indices: Indices, kv_lens: Indices, **options: Unpack[StepArguments]
    ) -> None:
        """As `plan`, from SGLang's form, page_size 1: row r's token t is in place
        req_to_token[req_pool_indices[r], t]."""
        self._forget()
        step = StepOptions.of(options)
        self._planner.plan_token_level(req_to_token, req_pool_indices, kv_lens, step, self._workspace)
        self._begin_runs()

    @one_at_a_time
    @with_step_options
    def prepare(self, page_table: Tensor, kv_lens: Tensor, **options: Unpack[StepArguments]) -> PreparedStep:
        """With device_planning: a step whose arrays stay where they are, checked once. plan_prepared then plans what
        they hold, as `plan` would, in less of the host's time. Valid as long as the arrays are and the
        DecodeAttention. stream: none here, as plan_prepared takes one."""
        return self._planner.prepare(DeviceTables(kv_lens, page_table=page_table), StepOptions.of(options))

    @one_at_a_time
    @with_step_options
    def prepare_tables(self, tables: DeviceTables, **options: Unpack[StepArguments]) -> PreparedStep:
        """As `prepare`, from page tables of any form. Of CSR tables the caller keeps kv_lens up to date."""
        return self._planner.prepare(instance(tables, DeviceTables, "tables"), StepOptions.of(options))

    @one_at_a_time
    def plan_prepared(self, step: PreparedStep, *, stream: int | None = None) -> None:
        """Plans a step of prepare() or prepare_tables(). May be captured in a graph, as `plan`."""
        self._forget()
        self._planner.plan_prepared(instance(step, PreparedStep, "step"), self._workspace, stream)
        self._begin_runs()

    @one_at_a_time
    def plan_live(
        self, live: LiveBatch, *, device_tables: DeviceTables | None = None, stream: int | None = None
    ) -> str:
        """Plans for a live batch as it is, keeping the last plan while that is good. Says where the plan is
        from: "reused", "membership", "truncated", "growth", "edited"; with async_planning also "flat": the new
        one is late.

        The batch must not be edited until the step's runs are done.
        """
        self._forget()
        options = StepOptions.of({"device_tables": device_tables, "stream": stream})
        instance(live, LiveBatch, "live")
        live._users.add(self)  # before a run may read its tables, whatever interrupts
        source = self._planner.plan_live(live, options, self._workspace)
        self._begin_runs()
        return source

    @one_at_a_time
    def submit(self, live: LiveBatch) -> bool:
        """With async_planning: has the next plan made by a thread, once the next step's events are known. False
        when the plan that there is will do. Never waits."""
        return self._planner.submit(instance(live, LiveBatch, "live"))

    def ready(self) -> bool:
        """With async_planning: whether all that was submitted has been planned."""
        return self._planner.ready()

    @property
    def live_counts(self) -> dict[str, int]:
        """Steps of plan_live by where their plans came from."""
        return self._planner.live_counts

    @one_at_a_time
    def resolve(self, stream: int | None = None) -> None:
        """On a GPU: fits the plan again to what the device tables hold by now, without reading anything on the host:
        after tokens were appended and nothing else has changed. May be captured in a graph."""
        if not self._planner.planned:
            raise errors.WorkspaceError(NO_PLAN)
        if not isinstance(self._executor, CudaExecutor):
            raise errors.InvalidArgumentError("resolve() is for GPUs; the plan is for the CPU, where plan() does it")
        self._executor.resolve(self._workspace, self._executor.stream(stream))

    def run(
        self,
        q: Tensor,
        kv: Tensor,
        *,
        out: Tensor = None,
        lse: Tensor = None,
        return_lse: bool = False,
        scale: float | None = None,
        stream: int | None = None,
        num_queries: int | None = None,
        q_scale: float | Tensor = None,
        k_scale: float | Tensor = None,
        v_scale: float | Tensor = None,
        window_left: int | None = None,
        soft_cap: float | None = None,
        sinks: Tensor = None,
    ) -> Any:
        """Attention of one layer for the planned step.

        q [T, Hq, d]; kv: a pair (k, v) of [pages, P, Hkv, d] (NHD) or [pages, Hkv, P, d] (HND), or both packed as
        [pages, 2, ..] or with 2 d in the last dimension, K before V. The last dimension has stride 1, all others any.
        On a GPU q, k, v and out are aligned to 16 bytes, and their other strides are multiples of 8 elements.
        out [T, Hq, d], writable, float16, bfloat16 or float32, by default new and like q; 0 for an empty request.
        lse [T, Hq] of float32: log-sum-exps of the scaled logits, -inf for an empty request; given, or made by
        return_lse. scale multiplies the logits; None: 1 / sqrt(d); by 0 all tokens weigh alike.
        num_queries: T, where q, out and lse have more rows, which are neither read nor written; nor set in a new out.
        A run that is captured with it is for steps of no more: with num_queries=1 it may take a kernel of its own.
        q_scale, k_scale, v_scale: what elements of quantised q, k and v are multiplied by, a number or a tensor of
        float32, [Hkv] or [1]; None: 1. window_left: a query sees this many tokens before its own; None or -1: all.
        soft_cap bounds logits x to soft_cap * tanh(x / soft_cap); None or 0: none. sinks [Hq] of float32: a logit for
        each head that takes weight and adds no value. A plan serves layers with windows and without. Draft trees need
        windows that hold all of a query's drafts. On a GPU windows are an UnsupportedError, and scales of single heads
        need k and v of 8 bits.

        There is no backward: where torch records gradients, tensors that require them are an UnsupportedError.

        Returns out, or (out, lse) with return_lse. On a GPU it launches on torch's current stream, or on `stream`.
        """
        k, v = kv, None
        variants = q_scale, k_scale, v_scale, window_left, soft_cap, sinks
        if isinstance(kv, (tuple, list)):
            if len(kv) != 2:
                raise errors.InvalidArgumentError(f"kv has {len(kv)} tensors; expected: a pair (k, v), or one packed")
            k, v = kv
            if v is None:
                raise errors.ArgumentTypeError("v is of type NoneType; expected: a tensor")
        if records_gradients():
            refuse_gradients(**{"q": q, "kv" if v is None else "k": k, "v": v, "out": out, "lse": lse})
        made_out, made_lse = out is None, return_lse and lse is None
        if made_out:
            out = empty(getattr(q, "shape", ()), q, "out")
        if made_lse:
            lse = empty(getattr(q, "shape", ())[:2], q, "lse", dtype="float32")
        self._run(q, k, v, out, lse, scale, stream, num_queries, *variants)
        if made_out:
            out = finished(out, q)
        if made_lse:
            lse = finished(lse, q)
        return (out, lse) if return_lse else out

    def workspace_bytes(self) -> int:
        """The workspace that the last plan takes, and with capacities any plan within them. Aligned to 64 bytes, on a
        GPU to 256. With device_planning, all plans and the planner together, also before the first plan."""
        return self._open_planner().workspace_bytes()

    @one_at_a_time
    def set_workspace(self, workspace: Tensor) -> None:
        """Another one, from the next plan on: as many are needed as steps are in flight."""
        given = Workspace(self._executor.device, self._executor.device_index, workspace)
        if isinstance(self._executor, CudaExecutor) and self._planner.planned:
            self._executor.release(self._workspace.address)
        self._forget()  # before the former memory goes, whatever interrupts
        self._workspace = given

    @property
    def current(self) -> Plan:
        """The plan of this step; it ends with the next."""
        return self._open_planner().current()

    @property
    def statistics(self) -> Statistics:
        """The statistics of the last plan."""
        return self._open_planner().statistics()

    @one_at_a_time
    def plan_report(self) -> DevicePlanReport:
        """With device_planning: the report that the GPU has published by now, without waiting for it. Each step
        publishes when its plan is resolved; of a step in flight, parts may be missing."""
        return self._planner.report()

    @one_at_a_time
    def explain(self, title: str = "Decode step") -> Explanation:
        """The sharing in the last step, and the plans that the policies make of it."""
        return self._planner.explain(title)

    def close(self) -> None:
        """Frees workspace and handles; using the object afterwards is a ClosedError. In a forked child, whose parent's
        it is, does nothing."""
        if self._runner.forked:
            return
        self._runner.close()  # from here on no call begins, so an interrupt leaves nothing half closed but memory
        self._planner.close()
        self._executor.close()

    def __enter__(self) -> DecodeAttention:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False

    def __repr__(self) -> str:
        place = "cpu" if self._executor.device == _abi.CPU else f"cuda:{self._executor.device_index}"
        return f"<trunkline.DecodeAttention on {place}: {shape_text(self._shape)}>"

    def _begin_runs(self) -> None:
        """Lets runs go by the plan that the workspace has now."""
        executor, workspace = self._executor, self._workspace
        self._runner.bind(
            executor.device, executor.address, workspace.address, workspace.nbytes, self._layout, self._lse_base
        )

    def _forget(self) -> None:
        """Ends the plan, before anything of what runs read changes."""
        self._runner.unbind()
        self._planner.forget()

    def _open_planner(self) -> StepPlanner:
        if self._runner.closed:
            raise errors.ClosedError("the DecodeAttention is closed")
        return self._planner

    def _before_event(self) -> None:
        """A live batch that is planned for calls this before an event moves its tables."""
        if not (self._runner.forked or self._runner.closed):
            self._runner.alone(self._tables_move)

    def _tables_move(self) -> None:
        if self._executor.device == _abi.CPU:  # where runs read the tables in place
            self._forget()
