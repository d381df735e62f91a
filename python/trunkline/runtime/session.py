"""A tree, its KV cache and a model: one call is one decode step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .. import errors
from .._arguments import int32
from .._indices import Indices
from ..decode import DecodeAttention
from .controllers import Logits
from .kv_cache import KVCache
from .tree import SequenceTree, TreeNode, TreeStep

#: attention(layer, q [T, Hq, d], k [T, Hkv, d], v [T, Hkv, d], scale=None) -> out [T, Hq, d], like q.
Attention = Callable[..., Any]

_MODEL = ("num_layers", "num_qo_heads", "num_kv_heads", "head_dim", "dtype", "device", "new_cache", "forward")


class TreeModel(Protocol):
    """A model as tree decoding needs it. Tensors are numpy's or torch's.

    dtype, device: of q, k and v, as DecodeAttention takes them.
    """

    num_layers: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    dtype: Any
    device: Any

    def new_cache(self, shape: tuple[int, ...]) -> Any:
        """A tensor of zeros in dtype on device."""

    def forward(
        self, tokens: npt.NDArray[Any], positions: npt.NDArray[Any], attention: Attention, rows: npt.NDArray[Any]
    ) -> Any:
        """One step. tokens, positions [T] (int32); calls attention(layer, q, k, v) once for each layer, in which k and
        v have not been stored before. Returns logits [N, vocabulary] of the query tokens `rows` [N]."""


class TreeSession:
    """A SequenceTree with a model: step() computes the tokens of leaves that have no KV yet.

    page_size, num_pages: of the KV cache; max_queries: of a leaf in one step, so that long prompts take several; 0: no
    limit. attention: options of DecodeAttention, such as policy, workers or profile.
    """

    def __init__(
        self, model: TreeModel, *, page_size: int = 16, num_pages: int, max_queries: int = 0, **attention: Any
    ) -> None:
        missing = [name for name in _MODEL if not hasattr(model, name)]
        if missing:
            raise errors.ArgumentTypeError(
                f"model is of type {type(model).__name__}, without {', '.join(missing)}; expected: a TreeModel, or a "
                "causal language model of Transformers"
            )
        self.model = model
        self.max_queries = int32(max_queries, "max_queries", 0)
        self.attention = DecodeAttention(
            model.num_qo_heads,
            model.num_kv_heads,
            model.head_dim,
            page_size,
            dtype=model.dtype,
            device=model.device,
            **attention,
        )
        self.tree = SequenceTree(page_size=page_size, num_pages=num_pages)
        shape = (num_pages, page_size, model.num_kv_heads, model.head_dim)
        self.cache = KVCache([(model.new_cache(shape), model.new_cache(shape)) for _ in range(model.num_layers)])
        self._saved: dict[TreeNode, list[list[Any]]] = {}
        #: Leaves whose pages are cached once all their tokens have KV.
        self.to_cache: set[TreeNode] = set()
        #: Steps, query tokens, and the most pages that were in use in one.
        self.counts = {"steps": 0, "queries": 0, "max_pages": 0}

    def step(self, leaves: Sequence[TreeNode], *, last: int = 1) -> Logits:
        """Computes all tokens of the leaves that have no KV, and all drafts. Returns logits of the last `last` query
        tokens of each leaf, [B * last, vocabulary] in float32. Where it raises, the leaves are as they were."""
        last = int32(last, "last", 1)
        logits: list[Any] = [None] * len(leaves)
        waiting = list(range(len(leaves)))
        while waiting:
            step = self.tree.step([leaves[i] for i in waiting], self.max_queries)
            found = self._compute(step, last)
            for row, leaf in enumerate(waiting):
                logits[leaf] = found[row * last : (row + 1) * last]
            infos = {i: self.tree.info(leaves[i]) for i in waiting}
            waiting = [i for i in waiting if infos[i].kv_len < infos[i].end]
        for node in self.to_cache.intersection(leaves):
            self.tree.cache(node)
            self.to_cache.remove(node)
        return np.concatenate(logits) if logits else np.zeros((0, 1), np.float32)

    def accept(self, leaf: TreeNode, accepted: Indices) -> None:
        """SequenceTree.accept, with the moves of keys and values."""
        self.cache.copy(self.tree.accept(leaf, accepted))

    def save(self, leaf: TreeNode) -> None:
        """Copies a leaf's keys and values to host memory, and frees its pages. A leaf that waits for long makes room
        for others so, until restore()."""
        for node in [node for node in self._saved if not self._is_saved(node)]:
            del self._saved[node]
        kept = self.cache.save(self.cache.index(self.tree.slots(leaf)))
        self.tree.save(leaf)
        self._saved[TreeNode(*leaf)] = kept

    def restore(self, leaf: TreeNode) -> None:
        """Brings a saved leaf back, which shares what other leaves still have of its sequence. InvalidArgumentError
        when the pool is full; the leaf stays saved then."""
        restored = self.tree.restore(leaf)
        self.cache.copy(restored.copies)
        self.cache.restore(self.cache.index(restored.slots), self._saved.pop(TreeNode(*leaf)), restored.begin)

    def _is_saved(self, node: TreeNode) -> bool:
        try:
            return self.tree.info(node).state == "saved"
        except errors.Error:  # the tree was cleared
            return False

    def _compute(self, step: TreeStep, last: int) -> Logits:
        ends = step.query_start[1:]
        rows = (ends[:, None] - np.arange(last, 0, -1)[None, :]).reshape(-1)
        try:
            self.cache.copy(step.copies)
            if (np.diff(step.query_start) < last).any():
                raise errors.InvalidArgumentError(f"last is {last}; expected: at most the query tokens of each leaf")
            self.attention.plan_live(self.tree.live)
            index = self.cache.index(step.slot_mapping)

            def attend(layer: int, q: Any, k: Any, v: Any, scale: float | None = None) -> Any:
                self.cache.write(layer, index, k, v)
                return self.attention.run(q, self.cache.layers[layer], scale=scale)

            logits = _on_host(self.model.forward(step.tokens, step.positions, attend, rows))
            if logits.ndim != 2 or logits.shape[0] != len(rows):
                raise errors.InvalidArgumentError(
                    f"model.forward() gave logits of shape {list(logits.shape)}; expected: [{len(rows)}, vocabulary]"
                )
        except BaseException:
            self.tree.cancel_step()
            raise
        self.counts["steps"] += 1
        self.counts["queries"] += len(step.tokens)
        self.counts["max_pages"] = max(self.counts["max_pages"], self.tree.pages_in_use)
        return logits

    def close(self) -> None:
        """Ends the tree and the attention."""
        self.tree.close()
        self.attention.close()


def _on_host(logits: Any) -> Logits:
    """float32 in numpy, of numpy's or torch's."""
    if hasattr(logits, "detach"):
        logits = logits.detach().float().cpu().numpy()
    return np.asarray(logits, np.float32)
