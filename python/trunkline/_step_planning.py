"""What DecodeAttention plans: steps of all forms of page tables, on the host or on the GPU, and live batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from . import _abi, errors
from ._arguments import address, flag, instance
from ._batches import on_gpu, on_host
from ._device_planner import DevicePlanner, csr_tables
from ._device_planning import PreparedStep
from ._device_tables import DeviceTables
from ._executors import CpuExecutor, CudaExecutor, Workspace
from ._host_planner import HostPlanner
from ._indices import Indices
from ._plan_holder import PlanHolder
from ._tensors import Tensor
from ._turns import one_at_a_time
from .live import LiveBatch
from .plans import Forest

if TYPE_CHECKING:
    from typing_extensions import Unpack


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


class StepPlanning(PlanHolder):
    """Plans once a step. max_queries: with use_graph, the most query tokens that captured runs have room for."""

    def __init__(
        self,
        executor: CpuExecutor | CudaExecutor,
        workspace: Workspace,
        host: HostPlanner,
        on_device: DevicePlanner | None,
        *,
        layout: int,
        lse_base: int,
        max_queries: int,
        use_graph: bool,
    ) -> None:
        super().__init__(executor, workspace, on_device, layout=layout, lse_base=lse_base)
        self._host = host
        self._use_graph = use_graph
        self.max_queries = max_queries

    @one_at_a_time
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
            self._host.batch.dense(page_table, kv_lens)
            self._finish(**step)

    @one_at_a_time
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
        if self._on_device is None:
            raise errors.InvalidArgumentError("prepare() needs device_planning; plans of the host take plan()")
        step: Step = {"query_start_loc": query_start_loc, "num_queries": num_queries, "num_pages": num_pages}
        tables = DeviceTables(kv_lens, page_table=page_table)
        return PreparedStep(self._on_device.prepare(tables, step), self)

    @one_at_a_time
    def plan_prepared(self, step: PreparedStep, *, stream: int | None = None) -> None:
        """Plans a step of prepare(). May be captured in a graph, as `plan`."""
        self._forget()
        instance(step, PreparedStep, "step")
        if self._on_device is None or step.owner is not self:
            raise errors.InvalidArgumentError("step was prepared by another DecodeAttention; expected: this one")
        self._on_device.plan(step.batch, self._workspace, stream)
        self._begin_runs(self._on_device.address)

    @one_at_a_time
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
        self._forget()
        if self._on_device is not None:
            index = self._executor.device_index
            tables = csr_tables(indptr, indices, last_page_len, self._host.batch.page_size, index)
            self._plan_there(tables, **step)
            return
        self._host.batch.csr(on_host(indptr), on_host(indices), on_host(last_page_len))
        self._finish(**step)

    @one_at_a_time
    def plan_token_level(
        self,
        req_to_token: Indices,
        req_pool_indices: Indices,
        kv_lens: Indices,
        **step: Unpack[Step],
    ) -> None:
        """As `plan`, from SGLang's form, page_size 1: row r's token t is in place
        req_to_token[req_pool_indices[r], t]."""
        self._forget()
        if self._on_device is not None:
            tables = DeviceTables(kv_lens, req_to_token=req_to_token, req_pool_indices=req_pool_indices)
            self._plan_there(tables, **step)
            return
        self._host.batch.token_level(on_host(req_to_token), on_host(req_pool_indices), on_host(kv_lens))
        self._finish(**step)

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
        if self._on_device is not None:
            raise errors.UnsupportedError(
                "plan_live() with device_planning; supported: plan, plan_csr, plan_token_level, as a live batch is "
                "on the host"
            )
        instance(live, LiveBatch, "live")
        live._users.add(self)  # before a run may read its tables, whatever interrupts
        plan, source = self._host.plan_live(live)
        self._resolve(plan, device_tables, stream, live=True)
        return source

    @one_at_a_time
    def submit(self, live: LiveBatch) -> bool:
        """With async_planning: has the next plan made by a thread, once the next step's events are known. False
        when the plan that there is will do. Never waits."""
        return self._host.submit(instance(live, LiveBatch, "live"))

    def ready(self) -> bool:
        """With async_planning: whether all that was submitted has been planned."""
        return self._host.ready()

    @property
    def live_counts(self) -> dict[str, int]:
        """Steps of plan_live by where their plans came from."""
        return self._host.live_counts

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
        if check_ids is not False:
            flag(check_ids, "check_ids")
        if forest is not None:
            instance(forest, Forest, "forest")
        host = self._host
        host.batch.rest(num_pages, query_start_loc, query_parents, null_page, slots, generations)
        self._resolve(host.plan(forest, check_ids), device_tables, stream, live=False)

    def _plan_there(self, tables: DeviceTables, **step: Unpack[Step]) -> None:
        planner = self._on_device
        assert planner is not None
        for name in step.keys() - Step.__annotations__.keys():
            raise errors.ArgumentTypeError(f"{name} is no argument; expected: {', '.join(Step.__annotations__)}")
        batch = planner.prepare(tables, step)
        planner.plan(batch, self._workspace, step.get("stream"))
        self._begin_runs(planner.address)

    def _resolve(self, plan: int, tables: DeviceTables | None, stream: int | None, *, live: bool) -> None:
        if tables is not None:
            instance(tables, DeviceTables, "device_tables")
        if stream is not None:
            address(stream, "stream")
        batch, executor, workspace = self._host.batch, self._executor, self._workspace
        if self._use_graph and batch.queries > self.max_queries:
            raise errors.InvalidArgumentError(
                f"the step has {batch.queries} query tokens; expected: at most max_queries = {self.max_queries}"
            )
        if isinstance(executor, CpuExecutor):
            executor.prepare(plan, batch, workspace)
        else:
            executor.prepare(plan, batch, workspace, tables, stream, live=live)
        self._begin_runs(plan)
