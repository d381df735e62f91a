"""Steps of one run of continuous batching: planned once a step, run once a layer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from ... import errors
from ..engine import CsrTables, DecodeSteps, DenseTables, Engine, LayerFacts, TorchArrays, make_steps, takes_layers
from ..engine.arrays import dtype_name
from .full_attention import refuse_options
from .paged_cache import PagedCache

# Of a step that the engine has prepared: its arguments of the model.
Batch = dict[str, Any]


class BatchSteps:
    """The steps of a ModelRunner, with its cache and model. `steps` is None where no kernel has the shape; the log says
    why then.

    The engine prepares a step in one of two forms. With a block table, in decode steps of its flash attention on a GPU,
    each row has one query token, and the layers write K and V here. With an index of slots for each token that is read
    or written, its cache writes K and V by its own update(), and nothing is gathered, as the index to read is taken
    away. This form has decode and prefill rows in one step, and Trunkline runs all of them; on the CPU alone, since on
    a GPU the engine's flash attention is made for prefill.
    """

    def __init__(self, engine: Engine, model: Any, runner: Any, layers: Sequence[str]) -> None:
        config = model.config.get_text_config()
        self.num_layers: int = config.num_hidden_layers
        self.layers = 0  # that have run in this step
        self._cache = PagedCache(runner.cache)
        k, _ = self._cache.pages(0)
        self._page_size, self._device = self._cache.page_size, k.device
        self._max_rows = int(runner.cb_config.max_requests_per_batch)
        self._head_dim = int(k.shape[3])
        facts = LayerFacts(
            config.num_attention_heads,
            int(k.shape[2]),
            self._head_dim,
            self._page_size,
            dtype_name(k),
            device=k.device.type,
        )
        self.steps: DecodeSteps | None = None
        if takes_layers(engine, facts, layers):
            self.steps = make_steps(
                engine,
                facts,
                layers,
                TorchArrays(k.device),
                max_rows=self._max_rows,
                max_tokens=int(runner.cache.max_batch_tokens),
                num_pages=min(self._cache.pages(layer)[0].shape[0] for layer in range(self.num_layers)),
            )
        self._tables: DenseTables | None = None  # for block tables: in memory that graphs may read
        self._slots: Any = None
        self._by_table = False
        self._tokens = 0

    def begin(self, batch: Batch, stream: Any, *, in_graph: bool, counted: bool) -> bool:
        """Once a step: whether it is Trunkline's, which is planned then. stream: that of the model; None: torch's
        present one. in_graph: its kernels are captured or replayed. counted: False for warm-ups."""
        steps: Any = self.steps
        self.layers = 0
        self._by_table = batch["block_table"] is not None
        if self._by_table:
            rows = batch["block_table"].shape[1]
            if not steps.takes(rows, rows, replayed=in_graph):
                return False
            with nullcontext() if stream is None else torch.cuda.stream(stream):
                self._plan_by_table(batch, rows, counted)
            return True
        if self._device.type != "cpu":
            return bool(steps.takes(0, 1))
        return self._plan_by_index(batch, counted)

    def _plan_by_table(self, batch: Batch, rows: int, counted: bool) -> None:
        """Padding has length 0 and no pages (-1), and writes where nothing is read."""
        block_table, cu_seq_lens = batch["block_table"][0], _of_full_layers(batch["cu_seq_lens_k"])
        tables = self._tables
        if tables is None:
            tables = self._tables = DenseTables(
                torch.zeros((self._max_rows, block_table.shape[1]), dtype=torch.int32, device=self._device),
                torch.zeros(self._max_rows, dtype=torch.int32, device=self._device),
            )
            self._slots = torch.zeros(self._max_rows, dtype=torch.int64, device=self._device)
        pages, lengths = tables.page_table[:rows], tables.kv_lens[:rows]
        pages.copy_(block_table)
        torch.sub(cu_seq_lens[1 : rows + 1], cu_seq_lens[:rows], out=lengths)
        last = (lengths - 1).clamp_(min=0).long()
        page = pages.gather(1, (last // self._page_size)[:, None])[:, 0].long()
        slots = torch.where(lengths > 0, page * self._page_size + last % self._page_size, self._cache.trash_slot)
        self._slots[:rows].copy_(slots)
        self._tokens = rows
        steps: Any = self.steps
        steps.plan(tables, rows, None, rows, counted=counted)

    def _plan_by_index(self, batch: Batch, counted: bool) -> bool:
        """A row's pages follow from the slots of its tokens: the first of each page names it."""
        steps: Any = self.steps
        query_starts = batch["cu_seq_lens_q"].numpy()
        kv_starts = _of_full_layers(batch["cu_seq_lens_k"]).numpy()
        rows = int((np.diff(query_starts) > 0).sum())  # those behind are padding
        query_starts, kv_starts = query_starts[: rows + 1], kv_starts[: rows + 1]
        queries, lengths = np.diff(query_starts), np.diff(kv_starts)
        tokens, decode_rows = int(query_starts[-1]), int((queries == 1).sum())
        if decode_rows and not steps.takes(rows, rows):
            return False
        slots, starts = batch["read_index"][0], kv_starts
        if not slots.numel():  # no row has tokens from earlier steps
            slots, starts = batch["write_index"][0], query_starts
        counts = -(-lengths // self._page_size)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        in_row = np.arange(indptr[-1]) - np.repeat(indptr[:-1], counts)
        first_slots = slots.numpy()[np.repeat(starts[:-1], counts) + in_row * self._page_size]
        tables = CsrTables(
            torch.from_numpy(indptr),
            torch.from_numpy((first_slots // self._page_size).astype(np.int32)),
            torch.from_numpy((lengths - (counts - 1) * self._page_size).astype(np.int32)),
        )
        query_start_loc = None if tokens == rows else torch.from_numpy(query_starts.astype(np.int32))
        steps.plan(tables, rows, query_start_loc, tokens, counted=counted, decode_rows=decode_rows)
        self._tokens = tokens
        if steps.shadow is None:
            batch["read_index"] = [index[:0] for index in batch["read_index"]]
        return True

    def attend(self, module: Any, query: Any, key: Any, value: Any, scaling: float | None, options: Batch) -> Any:
        """One layer. query [1, Hq, T, d], key and value [1, Hkv, T, d]: of the step's tokens. Returns [1, T, Hq, d]."""
        refuse_options(module, options)
        if key.shape[-1] != self._head_dim or value.shape[-1] != self._head_dim:
            raise errors.UnsupportedError(
                f"layer {module.layer_idx} has heads of {key.shape[-1]} and {value.shape[-1]} elements; supported: "
                f"{self._head_dim} in K and V, as its cache has"
            )
        pages = self._cache.pages(module.layer_idx)
        if self._by_table:
            for cache, given in zip(pages, (key, value)):
                cache.flatten(0, 1).index_copy_(0, self._slots[: self._tokens], given[0].transpose(0, 1))
        elif "cache" in options:  # up to 5.17 the attention function calls it, later the layer has done so
            options["cache"].update(key, value, module.layer_idx, options["read_index"], options["write_index"])
        return self._run(query, pages, scaling)

    def compare(self, module: Any, query: Any, scaling: float | None, theirs: Any) -> None:
        """Shadow mode: one layer again, once the engine's function has computed it, [1, T, Hq, d] or without the 1."""
        found = self._run(query, self._cache.pages(module.layer_idx), scaling)[0]
        steps: Any = self.steps
        steps.shadow.compare(found, theirs.reshape(found.shape))

    def _run(self, query: Any, pages: Any, scaling: float | None) -> Any:
        q = query[0].transpose(0, 1)
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        out[self._tokens :] = 0  # of padding
        steps: Any = self.steps
        steps.run(q, pages, out, scaling, self._tokens)
        self.layers += 1
        return out[None]


def _of_full_layers(lengths: Any) -> Any:
    """Up to 5.17 a model of one kind of layers has them without a dictionary."""
    return lengths["full_attention"] if isinstance(lengths, dict) else lengths
