"""Decode attention of a paged KV cache for serving: plans once a step, runs once a layer."""

from __future__ import annotations

from typing import Any, Literal

from . import _abi, errors
from ._arguments import choice, flag, int32, number, optional
from ._capacities import with_capacities
from ._device_planner import planner_for
from ._device_planning import DevicePlanning, DevicePlanReport
from ._executors import CpuExecutor, CudaExecutor, Workspace
from ._host_planner import HostPlanner
from ._step_planning import Step as Step  # which signatures name
from ._step_planning import StepPlanning
from ._tensors import Tensor, device_of, empty, finished, records_gradients, refuse_gradients
from ._turns import one_at_a_time
from .machine import KERNELS, Profile, Workers, shape_struct, shape_text
from .plans import Explanation, Plan, PlanOptions, Statistics

LAYOUTS = {"NHD": 0, "HND": 1}
LSE_BASES = {"natural": 0, "two": 1}


class DecodeAttention(StepPlanning):
    """Attention of decode steps: `plan` once a step, `run` once a layer.

    One object serves all layers of one shape. It belongs to one thread at a time: a call that meets another raises
    BusyError. It belongs to one process: in a forked child, calls raise ClosedError.

    num_qo_heads, num_kv_heads: Hq, a multiple of Hkv (1 to 64 times); head_dim: d, 64, 128 or 256; page_size: P.
    dtype: of Q, K and V: float16, bfloat16, on the CPU also float32 (a name, numpy's or torch's).
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
    a WorkspaceError. Replays of captured graphs cannot tell: objects that are captured have a workspace each.
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
    ) -> None:
        layout = choice(LAYOUTS, kv_layout, "kv_layout")
        base = choice(LSE_BASES, lse_base, "lse_base")
        self._shape = shape_struct(num_qo_heads, num_kv_heads, head_dim, page_size, dtype, device)
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
        executor: CpuExecutor | CudaExecutor
        if kind == _abi.CUDA:
            executor = CudaExecutor(index, kernels, check_pages, use_cuda_graph)
            profile = profile or Profile.cuda(
                num_qo_heads, num_kv_heads, head_dim, page_size, dtype=dtype, device=device, kernels=kernels
            )
        else:
            executor = CpuExecutor(workers)
            profile = profile or Profile.generic_cpu(executor.workers.size)
        executor.check_shape(self._shape)
        if use_cuda_graph and kind != _abi.CUDA:
            raise errors.InvalidArgumentError('use_cuda_graph is True on the CPU; expected: device="cuda"')
        on_device = None
        if device_planning is not None:
            on_device = planner_for(device_planning, profile, self._shape, options, executor, use_cuda_graph)
            max_queries = device_planning.queries
        elif use_cuda_graph:
            options = with_capacities(options, max_queries, profile.info["workers"], self._shape)
        host = HostPlanner(profile, self._shape, options, asynchronous=async_planning, edit_share=edit_share)
        super().__init__(
            executor,
            Workspace(kind, index, workspace),
            host,
            on_device,
            layout=layout,
            lse_base=base,
            max_queries=max_queries,
            use_graph=use_cuda_graph,
        )

    @one_at_a_time
    def resolve(self, stream: int | None = None) -> None:
        """On a GPU: fits the plan again to what the device tables hold by now, without reading anything on the host:
        after tokens were appended and nothing else has changed. May be captured in a graph."""
        self._need_plan()
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
        out [T, Hq, d], writable, float16, bfloat16 or float32, by default new and like q; 0 for an empty request.
        lse [T, Hq] of float32: log-sum-exps of the scaled logits, -inf for an empty request; given, or made by
        return_lse. scale multiplies the logits; None: 1 / sqrt(d); by 0 all tokens weigh alike.
        num_queries: T, where q, out and lse have more rows, which are neither read nor written; nor set in a new out.
        A run that is captured with it is for steps of no more: with num_queries=1 it may take a kernel of its own.
        q_scale, k_scale, v_scale: what elements of quantised q, k and v are multiplied by, a number or a tensor of
        float32, [Hkv] or [1]; None: 1. window_left: a query sees this many tokens before its own; None or -1: all.
        soft_cap bounds logits x to soft_cap * tanh(x / soft_cap); None or 0: none. sinks [Hq] of float32: a logit for
        each head that takes weight and adds no value. No kernel has these six yet: they are an UnsupportedError.

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
        """What the last plan takes, and with capacities any other within them. Aligned to 64 bytes, on a GPU to 256.
        With device_planning, what all plans and the planner take, before the first, too."""
        if self._on_device is not None:
            return self._on_device.nbytes
        return self._executor.workspace_bytes(self._need_plan(), self._host.batch.queries)

    @one_at_a_time
    def set_workspace(self, workspace: Tensor) -> None:
        """Another one, from the next plan on: as many are needed as steps are in flight."""
        given = Workspace(self._device, self._executor.device_index, workspace)
        if isinstance(self._executor, CudaExecutor) and self._plan:
            self._executor.release(self._workspace.address)
        self._forget()  # before the former memory goes, whatever interrupts
        self._workspace = given

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

    @one_at_a_time
    def plan_report(self) -> DevicePlanReport:
        """With device_planning: what the GPU has told by now, as each step does when its plan is resolved, without
        waiting for it. Of a step in flight, some may be missing."""
        if self._on_device is None:
            raise errors.InvalidArgumentError(
                "plan_report() needs device_planning; of plans of the host, statistics tells"
            )
        return self._on_device.report()

    @one_at_a_time
    def explain(self, title: str = "Decode step") -> Explanation:
        """What the last step shares, and what the policies make of it."""
        self._need_host("explain()")
        self._need_plan()
        return self._host.explanation(title)

    def close(self) -> None:
        """Frees workspace and handles; using the object afterwards is a ClosedError. In a forked child, whose parent's
        it is, does nothing."""
        if self._runner.forked:
            return
        self._runner.close()  # from here on no call begins, so an interrupt leaves nothing half closed but memory
        for held in (self._on_device, self._executor, self._host):
            if held is not None:
                held.close()

    def __enter__(self) -> DecodeAttention:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False

    def __repr__(self) -> str:
        place = "cpu" if self._device == _abi.CPU else f"cuda:{self._executor.device_index}"
        return f"<trunkline.DecodeAttention on {place}: {shape_text(self._shape)}>"
