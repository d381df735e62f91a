"""FlashInfer's wrapper for batches of paged caches, one query token a request."""

from __future__ import annotations

import math
from typing import Any

import torch

from ... import _abi, errors
from ..._arguments import number, wrong_type
from ..._batches import on_gpu, on_host
from ..._device_planner import DevicePlanning, DevicePlanReport
from ..._device_tables import DeviceTables
from ..._library import NotCopied
from ..._tensors import dtype_number
from ...decode import DecodeAttention
from ...plans import Explanation, PlanOptions
from ._common import device_of_buffer, refuse, torch_dtype

_LEAST_ROWS = 64  # a planner on the GPU for so many requests is kept for any fewer
_MOST_ROWS = 1024  # beyond, the host plans: how many a GPU can plan depends on its shared memory


class BatchDecodeWithPagedKVCacheWrapper(NotCopied):
    """flashinfer.BatchDecodeWithPagedKVCacheWrapper for the shapes that Trunkline runs; see the package.

    float_workspace_buffer names the device and is not used otherwise: it may be of any size, and shared by any number
    of wrappers. Each has memory of its own, which plans enlarge: some 85 MB at most for the shapes of FlashInfer's own
    tests, up to 128 requests with 32 query heads of 256. With use_cuda_graph the three buffers hold the tables at fixed
    addresses; the batch size is that of the indptr buffer. use_tensor_cores, backend and jit_args change nothing:
    Trunkline's kernels always use tensor cores on GPUs.
    """

    def __init__(
        self,
        float_workspace_buffer: Any,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: Any = None,
        paged_kv_indices_buffer: Any = None,
        paged_kv_last_page_len_buffer: Any = None,
        backend: str = "auto",
        jit_args: Any = None,
        *,
        options: PlanOptions | None = None,
    ) -> None:
        buffers = {
            "paged_kv_indptr_buffer": paged_kv_indptr_buffer,
            "paged_kv_indices_buffer": paged_kv_indices_buffer,
            "paged_kv_last_page_len_buffer": paged_kv_last_page_len_buffer,
        }
        for name, buffer in buffers.items():
            if use_cuda_graph and not isinstance(buffer, torch.Tensor):
                raise errors.ArgumentTypeError(f"{name} is {buffer!r}; expected with use_cuda_graph: a tensor")
        if jit_args is not None:
            refuse("jit_args", jit_args, "None, as kernels are compiled ahead")
        self._device = device_of_buffer(float_workspace_buffer)
        self._layout = kv_layout
        self._use_graph = use_cuda_graph
        self._tensor_cores = use_tensor_cores
        self._buffers = tuple(buffers.values())
        self._options = options
        self._lengths: Any = None
        self._batch_size = paged_kv_last_page_len_buffer.shape[0] if use_cuda_graph else 0
        self._attention: DecodeAttention | None = None
        self._key: tuple[Any, ...] = ()
        self._scale: float | None = None
        self._out_dtype: Any = None
        self._variant: dict[str, Any] = {}  # what plan() was given for run()

    @property
    def use_tensor_cores(self) -> bool:
        """The value that was given."""
        return self._tensor_cores

    @property
    def is_cuda_graph_enabled(self) -> bool:
        """Whether use_cuda_graph was given."""
        return self._use_graph

    def reset_workspace_buffer(self, float_workspace_buffer: Any, int_workspace_buffer: Any = None) -> None:
        """Names the device from the next plan on; neither buffer is used otherwise."""
        self._device = device_of_buffer(float_workspace_buffer)

    def plan(
        self,
        indptr: Any,
        indices: Any,
        last_page_len: Any,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        pos_encoding_mode: str = "NONE",
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        q_data_type: Any = "float16",
        kv_data_type: Any = None,
        o_data_type: Any = None,
        data_type: Any = None,
        sm_scale: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        non_blocking: bool = True,
        block_tables: Any = None,
        seq_lens: Any = None,
        fixed_split_size: int | None = None,
        disable_split_kv: bool = False,
        window_right: int = 0,
        q_len_per_req: int = 1,
    ) -> None:
        """Once a step. indptr [B + 1], indices [indptr[B]], last_page_len [B] of int32: all on the GPU, where the plan
        is made then, without waiting; or on the CPU. sm_scale: None is 1 / sqrt(head_dim); by 0 all tokens weigh alike.

        block_tables, seq_lens, rope_scale, rope_theta, non_blocking and the two about splitting change nothing: tables
        come from `indices`, and how KV is split is the plan's business.
        """
        if pos_encoding_mode != "NONE":
            refuse("pos_encoding_mode", pos_encoding_mode, '"NONE": keys are rotated before they are cached')
        if window_left != -1 and self._on_gpu:
            refuse("window_left", window_left, "-1, no window, on a GPU")
        if window_right > 0:
            refuse("window_right", window_right, "0, as there are no later tokens")
        if q_len_per_req != 1:
            refuse("q_len_per_req", q_len_per_req, "1; DecodeAttention.plan takes query_start_loc")
        q_type = data_type if data_type is not None else q_data_type
        kv_type = data_type if data_type is not None else (kv_data_type if kv_data_type is not None else q_type)
        kv_number = dtype_number(kv_type, "kv_data_type")
        if kv_number not in (dtype_number(q_type, "q_data_type"), _abi.F8E4M3, _abi.F8E5M2):
            refuse("kv_data_type", kv_type, f"that of Q, {q_type}, float8_e4m3fn and float8_e5m2")
        cap = 0.0 if logits_soft_cap is None else number(logits_soft_cap, "logits_soft_cap", -math.inf)
        if sm_scale is not None:
            sm_scale = number(sm_scale, "sm_scale", -math.inf)
        if o_data_type is not None:
            dtype_number(o_data_type, "o_data_type")
        self._out_dtype = None if o_data_type is None else torch_dtype(o_data_type)
        given = indptr, indices, last_page_len
        for name, tensor in zip(("indptr", "indices", "last_page_len"), given):
            if self._on_gpu and not isinstance(tensor, torch.Tensor):
                raise wrong_type(name, tensor, "a tensor of torch's")
        rows = self._rows_on_gpu(given)
        shape = num_qo_heads, num_kv_heads, head_dim, page_size, dtype_number(q_type), kv_number, self._device
        attention = self._for_shape((*shape, rows), q_type, kv_type)
        if rows:
            starts, ids, last = self._copied(given) if self._use_graph else given
            attention.plan_csr(starts.to(torch.int32), ids, last.to(torch.int32))
        else:
            host = [on_host(tensor) for tensor in given]
            tables = self._tables(indptr, indices, host, page_size) if self._on_gpu else None
            attention.plan_csr(*host, device_tables=tables)
        self._scale = sm_scale
        self._head_dim = head_dim
        self._variant = {"soft_cap": cap if cap > 0 else None, "window_left": window_left}

    begin_forward = plan

    def run(
        self,
        q: Any,
        paged_kv_cache: Any,
        *args: Any,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        out: Any = None,
        lse: Any = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        window_left: int | None = None,
        sinks: Any = None,
        q_len_per_req: int | None = None,
        skip_softmax_threshold_scale_factor: float | None = None,
        kv_cache_sf: Any = None,
    ) -> Any:
        """Once a layer. q [B, Hq, d]; paged_kv_cache: a pair (k, v), or one packed tensor [pages, 2, ..]. sinks [Hq] of
        float32. Returns out, or (out, lse [B, Hq] of base 2) with return_lse. enable_pdl changes nothing."""
        if args:
            refuse("a further argument", args[0], "none, as there are no compiled variants")
        if window_left not in (None, self._variant.get("window_left", -1)):
            refuse("window_left", window_left, "None, as plan() takes it")
        if skip_softmax_threshold_scale_factor is not None:
            refuse(
                "skip_softmax_threshold_scale_factor", skip_softmax_threshold_scale_factor, "None: no token is skipped"
            )
        if kv_cache_sf is not None:
            refuse("kv_cache_sf", "given", "none, as elements of caches have 8 bits or more")
        if q_len_per_req not in (None, 1):
            refuse("q_len_per_req", q_len_per_req, "1; DecodeAttention.plan takes query_start_loc")
        if self._attention is None:
            raise errors.WorkspaceError("there is no plan; call plan() once a step")
        scale = self._scale
        factor = 1.0
        for name, given in (("q_scale", q_scale), ("k_scale", k_scale)):
            factor *= 1.0 if given is None else number(given, name, -math.inf)
        if factor != 1.0:
            scale = (1 / math.sqrt(self._head_dim) if scale is None else scale) * factor
        if out is None and self._out_dtype is not None:
            if not isinstance(q, torch.Tensor):
                raise wrong_type("q", q, "a tensor of torch's")
            out = q.new_empty(q.shape, dtype=self._out_dtype)
        return self._attention.run(
            q,
            paged_kv_cache,
            out=out,
            lse=lse,
            return_lse=return_lse,
            scale=scale,
            v_scale=v_scale,
            sinks=sinks,
            **self._variant,
        )

    def run_return_lse(self, q: Any, paged_kv_cache: Any, **keywords: Any) -> Any:
        """run(..., return_lse=True)."""
        return self.run(q, paged_kv_cache, return_lse=True, **keywords)

    forward_return_lse = run_return_lse

    def forward(self, q: Any, paged_kv_cache: Any, **keywords: Any) -> Any:
        """run, by its older name; the arguments that moved to plan() are refused."""
        return self.run(q, paged_kv_cache, **keywords)

    def end_forward(self) -> None:
        """Does nothing, as FlashInfer's."""

    def explain(self, title: str = "Decode step") -> Explanation:
        """The sharing in the last step, and the plans that the policies make of it."""
        if self._attention is None:
            raise errors.WorkspaceError("there is no plan; call plan() once a step")
        return self._attention.explain(title)

    def plan_report(self) -> DevicePlanReport:
        """DecodeAttention.plan_report, for plans that are made on the GPU."""
        if self._attention is None:
            raise errors.WorkspaceError("there is no plan; call plan() once a step")
        return self._attention.plan_report()

    @property
    def _on_gpu(self) -> bool:
        return bool(self._device.type == "cuda")

    def _rows_on_gpu(self, given: tuple[Any, ...]) -> int:
        """The most requests of plans that are made there; 0: the host makes them."""
        if self._use_graph and self._key:
            return int(self._key[-1])  # as the first plan: the tables are in the buffers, wherever they come from
        if self._options is not None or not self._on_gpu or not all(map(on_gpu, given)):
            return 0
        rows = self._batch_size if self._use_graph else given[0].shape[0] - 1
        if rows > _MOST_ROWS:
            return 0
        if self._use_graph:
            return int(rows)
        known = self._key[-1] if self._key else 0
        return known if rows <= known else max(_LEAST_ROWS, 1 << (rows - 1).bit_length())

    def _for_shape(self, key: tuple[Any, ...], dtype: Any, kv_dtype: Any) -> DecodeAttention:
        if self._attention is not None and key == self._key:
            return self._attention
        if self._attention is not None:
            if self._use_graph:
                raise errors.InvalidArgumentError(
                    "the shape is not the first plan's; expected with use_cuda_graph: the same"
                )
            self._attention.close()
        self._attention = DecodeAttention(
            *key[:4],
            dtype=dtype,
            kv_dtype=kv_dtype,
            device=self._device,
            kv_layout=self._layout,
            lse_base="two",
            use_cuda_graph=self._use_graph,
            max_queries=self._batch_size,
            options=self._options,
            device_planning=DevicePlanning(key[-1]) if key[-1] else None,
        )
        self._key = key
        return self._attention

    def _tables(self, indptr: Any, indices: Any, host: list[Any], page_size: int) -> DeviceTables:
        """On the GPU: the caller's where they are there, copies otherwise; with graphs in the buffers."""
        device = self._device
        counts = host[0][1:] - host[0][:-1]
        lengths = torch.where(counts > 0, (counts - 1) * page_size + host[2], torch.zeros_like(counts)).to(torch.int32)
        if not self._use_graph:
            return DeviceTables(
                lengths.to(device),
                indptr=indptr.to(device, torch.int32),
                indices=indices.to(device),
            )
        starts, ids, last = self._copied((indptr, indices, host[2]))
        if self._lengths is None:
            self._lengths = torch.empty_like(last, dtype=torch.int32, device=device)
        self._lengths.copy_(lengths)
        return DeviceTables(self._lengths, indptr=starts, indices=ids)

    def _copied(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The graph's buffers, with the step's tables."""
        indptr, indices, last_page_len = given
        starts, ids, last = self._buffers
        if indptr.shape[0] != starts.shape[0]:
            raise errors.InvalidArgumentError(
                f"indptr has shape {list(indptr.shape)}; expected: [{starts.shape[0]}], that of the buffer"
            )
        if indices.shape[0] > ids.shape[0]:
            raise errors.InvalidArgumentError(
                f"indices has {indices.shape[0]} entries; expected: at most {ids.shape[0]}, the buffer's"
            )
        starts.copy_(indptr)
        ids[: indices.shape[0]].copy_(indices)
        last.copy_(last_page_len)
        return starts, ids, last


class CUDAGraphBatchDecodeWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper: the wrapper with use_cuda_graph and its buffers."""

    def __init__(
        self,
        workspace_buffer: Any,
        indptr_buffer: Any,
        indices_buffer: Any,
        last_page_len_buffer: Any,
        kv_layout: str = "NHD",
        use_tensor_cores: bool = False,
    ) -> None:
        buffers = indptr_buffer, indices_buffer, last_page_len_buffer
        super().__init__(workspace_buffer, kv_layout, True, use_tensor_cores, *buffers)
