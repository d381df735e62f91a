"""The arguments of a step's two calls, made on the device from its page table, without a wait."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from .layout import Layout


@dataclasses.dataclass
class ForestStep:
    """Metadata of one step, for each layer the same. All tensors are int32 but order, and on the device.

    order [rows] int64: the batch's row of each packed row, None where it is the same. The prefix call has a sequence
    for each run of packed rows: prefix_starts [sequences + 1], prefix_lens [sequences] in tokens, 0 where nothing is
    shared, prefix_table [sequences, columns]. The suffix call has one for each packed row: suffix_starts [rows + 1],
    suffix_lens [rows], suffix_table [rows, columns]. The schedules are FlashAttention 3's metadata, or None.
    """

    rows: int
    order: torch.Tensor | None
    prefix_starts: torch.Tensor
    prefix_lens: torch.Tensor
    prefix_table: torch.Tensor
    max_prefix_queries: int
    max_prefix_tokens: int
    suffix_starts: torch.Tensor
    suffix_lens: torch.Tensor
    suffix_table: torch.Tensor
    max_suffix_tokens: int
    suffix_splits: int
    prefix_schedule: Any = None
    suffix_schedule: Any = None


class DeviceLayout:
    """A layout's arrays on the device, uploaded once for all steps that have it."""

    def __init__(self, layout: Layout, page_size: int, device: Any) -> None:
        self.layout, self.page_size = layout, page_size
        row_pages = layout.pages[layout.sequence]
        names = {
            "sequence": layout.sequence,
            "starts": layout.starts,
            "leader": layout.leader,
            "tokens": layout.pages * page_size,
            "row_tokens": row_pages * page_size,
            "suffix_starts": np.arange(layout.rows + 1, dtype=np.int32),
            "inside": np.arange(layout.max_pages) < row_pages[:, None],
        }
        self.on_device = {name: _upload(array, device) for name, array in names.items()}
        self.order = None if layout.order is None else _upload(layout.order, device)
        self.columns: torch.Tensor | None = None

    def step(self, table: torch.Tensor, lengths: torch.Tensor, max_tokens: int, suffix_splits: int) -> ForestStep:
        """table [>= rows, columns] and lengths [>= rows]: of the step. max_tokens: no request is longer.

        Compares the pages of each row with its sequence's leader. A sequence with a row that differs, or that is not
        longer than the prefix, gets no prefix, and its rows have all of their pages in the suffix call.
        """
        at, rows, layout = self.on_device, self.layout.rows, self.layout
        width = min(-(-max_tokens // self.page_size), table.shape[1])
        pages, longest = table[:rows, : max(width, layout.max_pages)], lengths[:rows]
        prefix_table = pages[:, : layout.max_pages].index_select(0, at["leader"])
        if self.order is not None:
            pages, longest = pages.index_select(0, self.order), longest.index_select(0, self.order)
        leaders = prefix_table.index_select(0, at["sequence"])
        differ = ((pages[:, : layout.max_pages] != leaders) & at["inside"]).any(1) | (longest <= at["row_tokens"])
        failed = torch.zeros_like(at["tokens"]).index_add_(0, at["sequence"], differ.int())
        # A row of an ungrouped run, or an empty one, may fail; its sequence has no prefix to lose.
        prefix_lens = at["tokens"].masked_fill(failed > 0, 0)
        skipped = prefix_lens.index_select(0, at["sequence"])
        return ForestStep(
            rows=rows,
            order=self.order,
            prefix_starts=at["starts"],
            prefix_lens=prefix_lens,
            prefix_table=prefix_table,
            max_prefix_queries=layout.max_queries,
            max_prefix_tokens=layout.max_pages * self.page_size,
            suffix_starts=at["suffix_starts"],
            suffix_lens=longest - skipped,
            suffix_table=self._shifted(pages, skipped),
            max_suffix_tokens=max_tokens,
            suffix_splits=suffix_splits,
        )

    def _shifted(self, pages: torch.Tensor, skipped: torch.Tensor) -> torch.Tensor:
        """Each row without the pages of its prefix; behind its end its last column, of which no key is read."""
        width = pages.shape[1]
        if self.columns is None or len(self.columns) != width:
            self.columns = torch.arange(width, device=pages.device)
        columns = self.columns + (skipped // self.page_size).unsqueeze(1)
        return pages.gather(1, columns.clamp_(max=width - 1))


def _upload(array: np.ndarray, device: Any) -> torch.Tensor:
    """Without a wait, where the host's memory can be pinned."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class TorchCopies:
    """TableCopies of tensors. On a GPU the copy is queued on the current stream, before the step that follows."""

    def __init__(self) -> None:
        self._buffer: torch.Tensor | None = None
        self._parts: tuple[torch.Tensor, torch.Tensor] | None = None
        self._event: Any = None

    def begin(self, table: torch.Tensor, lengths: torch.Tensor, rows: int, columns: int) -> None:
        cuda, size = table.is_cuda, rows * (columns + 1)
        if self._buffer is None or self._buffer.numel() < size:
            self._buffer = torch.empty(2 * size, dtype=torch.int32, pin_memory=cuda)
        pages = self._buffer[: rows * columns].view(rows, columns)
        longest = self._buffer[rows * columns : size]
        pages.copy_(table[:rows, :columns], non_blocking=True)
        longest.copy_(lengths[:rows], non_blocking=True)
        self._parts = pages, longest
        if cuda:
            self._event = self._event or torch.cuda.Event()
            self._event.record()

    def take(self) -> tuple[np.ndarray, np.ndarray] | None:
        if self._parts is None or (self._event is not None and not self._event.query()):
            return None
        pages, longest = self._parts
        self._parts = None
        return pages.numpy(), longest.numpy()
