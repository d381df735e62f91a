"""FlashInfer's wrapper for cascades, one query token a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ... import errors
from ..._arguments import int32
from ..._batches import on_host
from ..._indices import host_ints
from ..._library import NotCopied
from ._common import refuse
from .decode import BatchDecodeWithPagedKVCacheWrapper
from .merging import merge_states

_Ints = npt.NDArray[np.integer[Any]]


class _Level(NamedTuple):
    """A level, for each query token: where its pages begin in `ids`, how many they are, and the tokens of the last."""

    ids: _Ints
    begin: _Ints
    counts: _Ints
    last: _Ints


class MultiLevelCascadeAttentionWrapper(NotCopied):
    """flashinfer.MultiLevelCascadeAttentionWrapper for decoding, with one query token a request.

    Where each level of a request ends at the end of a page, which the request's last may miss, the pages of all levels
    are one table and one run, whose plan finds what is shared by itself. Else there is a run for each level, and these
    are merged. Plans are made on the host: tables on the GPU are copied there, and plan() waits for it. CUDA graphs
    are not supported. float_workspace_buffer is as BatchDecodeWithPagedKVCacheWrapper has it.
    """

    def __init__(
        self,
        num_levels: int,
        float_workspace_buffer: Any,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        qo_indptr_buf_arr: Any = None,
        paged_kv_indptr_buf_arr: Any = None,
        paged_kv_indices_buf_arr: Any = None,
        paged_kv_last_page_len_buf_arr: Any = None,
    ) -> None:
        if use_cuda_graph:
            refuse("use_cuda_graph", use_cuda_graph, "False; BatchDecodeWithPagedKVCacheWrapper has graphs")
        self._levels = int32(num_levels, "num_levels", 1)
        # One a level; where one run does, the first is all that is used, and the others take no memory.
        self._wrappers = [
            BatchDecodeWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout) for _ in range(self._levels)
        ]
        self._planned = 0

    @property
    def is_cuda_graph_enabled(self) -> bool:
        """False."""
        return False

    def reset_workspace_buffer(self, float_workspace_buffer: Any, int_workspace_buffers: Any = None) -> None:
        """Names the device from the next plan on; no buffer is used otherwise."""
        for wrapper in self._wrappers:
            wrapper.reset_workspace_buffer(float_workspace_buffer)

    def plan(
        self,
        qo_indptr_arr: Sequence[Any],
        paged_kv_indptr_arr: Sequence[Any],
        paged_kv_indices_arr: Sequence[Any],
        paged_kv_last_page_len: Sequence[Any],
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        causal: bool = False,
        pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False,
        sm_scale: float | None = None,
        window_left: int = -1,
        logits_soft_cap: float | None = None,
        rope_scale: float | None = None,
        rope_theta: float | None = None,
        q_data_type: Any = "float16",
        kv_data_type: Any = None,
    ) -> None:
        """Once a step. For each level: qo_indptr [groups + 1], prefix sums of the query tokens that share its pages, T
        in all; paged_kv_indptr [groups + 1], paged_kv_indices, paged_kv_last_page_len [groups], of int32 or int64.

        causal is supported where each group of the last level has one query token, which sees all tokens.
        use_fp16_qk_reduction, rope_scale and rope_theta change nothing.
        """
        given = {
            "qo_indptr_arr": qo_indptr_arr,
            "paged_kv_indptr_arr": paged_kv_indptr_arr,
            "paged_kv_indices_arr": paged_kv_indices_arr,
            "paged_kv_last_page_len": paged_kv_last_page_len,
        }
        for name, arrays in given.items():
            if len(arrays) != self._levels:
                raise errors.InvalidArgumentError(
                    f"{name} has {len(arrays)} entries; expected: {self._levels}, one a level"
                )
        self._planned = 0
        if window_left != -1:
            refuse("window_left", window_left, "-1, no window")
        starts = [_read(values, f"qo_indptr_arr[{i}]") for i, values in enumerate(qo_indptr_arr)]
        for i, values in enumerate(starts):
            _check_indptr(values, f"qo_indptr_arr[{i}]", int(starts[0][-1]) if starts[0].size else 0, exact=True)
        if causal and (np.diff(starts[-1]) > 1).any():
            refuse("causal", True, "False, where a group of the last level has several query tokens")
        levels = [
            _level(i, starts[i], paged_kv_indptr_arr[i], paged_kv_indices_arr[i], paged_kv_last_page_len[i], page_size)
            for i in range(self._levels)
        ]
        tables = [_joined(levels)] if _whole(levels, page_size) else [_joined([level]) for level in levels]
        options = {
            "pos_encoding_mode": pos_encoding_mode,
            "window_left": window_left,
            "logits_soft_cap": logits_soft_cap,
            "q_data_type": q_data_type,
            "kv_data_type": kv_data_type,
            "sm_scale": sm_scale,
        }
        for wrapper, table in zip(self._wrappers, tables):
            indptr, indices, last = (torch.from_numpy(values) for values in table)
            wrapper.plan(indptr, indices, last, num_qo_heads, num_kv_heads, head_dim, page_size, **options)
        self._planned = len(tables)

    begin_forward = plan

    def run(self, q: Any, paged_kv_cache: Any) -> Any:
        """Once a layer. q [T, Hq, d]; paged_kv_cache: a pair (k, v), or one packed tensor [pages, 2, ..]. Returns out
        [T, Hq, d]."""
        if not self._planned:
            raise errors.WorkspaceError("there is no plan; call plan() once a step")
        if self._planned == 1:
            return self._wrappers[0].run(q, paged_kv_cache)
        states = [wrapper.run_return_lse(q, paged_kv_cache) for wrapper in self._wrappers[: self._planned]]
        return merge_states(torch.stack([v for v, _ in states], 1), torch.stack([s for _, s in states], 1))[0]

    forward = run


def _read(values: Any, name: str, *, ids: bool = False) -> _Ints:
    read = host_ints(on_host(values), name, int32=not ids).numpy()
    return read if ids else read.astype(np.int64)


def _check_indptr(values: _Ints, name: str, end: int, *, exact: bool) -> None:
    if not values.size or values[0] != 0 or (np.diff(values) < 0).any():
        raise errors.InvalidArgumentError(f"{name} is {values.tolist()}; expected: prefix sums, from 0")
    if values[-1] > end or (exact and values[-1] != end):
        meant = (
            f"{end}, the query tokens of qo_indptr_arr[0]" if exact else f"at most {end}, the entries of its indices"
        )
        raise errors.InvalidArgumentError(f"{name} ends with {values[-1]}; expected: {meant}")


def _level(index: int, starts: _Ints, indptr: Any, indices: Any, last: Any, page_size: int) -> _Level:
    name = f"paged_kv_indptr_arr[{index}]"
    ids = _read(indices, f"paged_kv_indices_arr[{index}]", ids=True)
    pages = _read(indptr, name)
    tokens = _read(last, f"paged_kv_last_page_len[{index}]")
    groups = len(starts) - 1
    for values, what, count in ((pages, name, groups + 1), (tokens, f"paged_kv_last_page_len[{index}]", groups)):
        if len(values) != count:
            raise errors.InvalidArgumentError(
                f"{what} has shape [{len(values)}]; expected: [{count}], as qo_indptr_arr[{index}] has {groups} groups"
            )
    _check_indptr(pages, name, len(ids), exact=False)
    counts = np.diff(pages)
    wrong = np.flatnonzero((counts > 0) & ((tokens < 1) | (tokens > page_size)))
    if wrong.size:
        raise errors.InvalidArgumentError(
            f"paged_kv_last_page_len[{index}][{wrong[0]}] is {tokens[wrong[0]]}; expected: 1 to page_size = {page_size}"
        )
    of_query = np.repeat(np.arange(groups), np.diff(starts))
    return _Level(ids, pages[:-1][of_query], counts[of_query], tokens[of_query])


def _whole(levels: list[_Level], page_size: int) -> bool:
    """Whether no request has a page that is not full but for the last of all."""
    later = np.zeros_like(levels[0].counts)
    for level in reversed(levels):
        if ((level.counts > 0) & (level.last < page_size) & (later > 0)).any():
            return False
        later = later + level.counts
    return True


def _joined(levels: list[_Level]) -> tuple[_Ints, ...]:
    """indptr, indices and last_page_len of query tokens that have the pages of all levels one after another."""
    totals = np.sum([level.counts for level in levels], axis=0, dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(totals)])
    indices = np.empty(indptr[-1], np.result_type(*(level.ids.dtype for level in levels)))
    last: _Ints = np.ones(len(indptr) - 1, np.int32)
    to = indptr[:-1].copy()
    for level in levels:
        # The index of each page within the level: 0, 1, .. for every query token.
        place = np.arange(level.counts.sum()) - np.repeat(np.cumsum(level.counts) - level.counts, level.counts)
        indices[np.repeat(to, level.counts) + place] = level.ids[np.repeat(level.begin, level.counts) + place]
        to = to + level.counts
        last = np.where(level.counts > 0, level.last, last).astype(np.int32)
    if indptr[-1] > np.iinfo(np.int32).max:
        raise errors.UnsupportedError(f"the levels have {indptr[-1]} pages of all query tokens; supported: below 2^31")
    return indptr.astype(np.int32), indices, last
