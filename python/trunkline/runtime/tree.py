"""The sequences of a tree search: nodes of tokens, the KV pages of the leaves, and the batch of each decode step."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _abi, errors
from .._arguments import flag, int32, int64, integer, number, wrong_type
from .._indices import Indices, host_ints
from .._library import Handle, NotCopied, c, check, new
from ..live import LiveBatch

_STATES = ("leaf", "inner", "finished", "pruned", "saved")
_Array = npt.NDArray[Any]


class TreeNode(NamedTuple):
    """A node of a tree: its number, never used twice, and its tree's."""

    id: int
    tree: int


class NodeInfo(NamedTuple):
    """parent: None for a root. state: "leaf", "inner", "finished", "pruned" or "saved". begin, end: token positions, of
    which `end` is the length of the node's sequence. kv_len: tokens of the sequence whose KV is in the pool; 0 for a
    node that holds no KV. drafts: draft tokens behind `end` that are not accepted yet."""

    parent: TreeNode | None
    state: str
    begin: int
    end: int
    kv_len: int
    drafts: int
    score: float


class TreeStep(NamedTuple):
    """One decode step, row after row. nodes [B]; query_start [B + 1]; tokens, positions, slot_mapping [T]: token ids,
    positions for the model, and the slots, page * page_size + page offset, where K and V are to be written. copies
    [N, 2]: slots whose keys and values are to be copied before that, from column 0 to column 1, in all layers."""

    nodes: list[TreeNode]
    query_start: _Array
    tokens: _Array
    positions: _Array
    slot_mapping: _Array
    copies: _Array


class RestoredKV(NamedTuple):
    """A leaf that was brought back. Keys and values of the tokens from `begin` on are to be written to slots [N]; those
    before are shared. copies [M, 2]: slots whose keys and values are to be copied before that, as a TreeStep has
    them."""

    begin: int
    slots: _Array
    copies: _Array


def _node_struct(node: TreeNode, name: str = "node") -> _abi.Node:
    if not isinstance(node, (tuple, list)) or len(node) != 2:
        raise wrong_type(name, node, "a TreeNode, as add_root() or fork() give")
    index, tree = node
    return _abi.Node(index=int32(index, f"{name}.index"), tree=integer(tree, f"{name}.tree", 0, 2**32 - 1))


def _node_structs(nodes: Iterable[TreeNode], name: str) -> Any:
    nodes = list(nodes)
    if all(type(node) is TreeNode for node in nodes):  # as they came from here: no need to look at each
        return (_abi.Node * len(nodes))(*nodes)  # type: ignore[misc]
    structs = [_node_struct(node, f"{name}[{i}]") for i, node in enumerate(nodes)]
    return (_abi.Node * len(structs))(*structs)


def _array(address: int | None, count: int, kind: Any) -> _Array:
    """A copy of what the library shows until the next call."""
    if not count or not address:
        return np.zeros(0, kind)
    return np.ctypeslib.as_array((kind * count).from_address(address)).copy()


class _TreesBatch:
    """The handle of a tree's batch, which the tree ends."""

    def __init__(self, tree: Handle) -> None:
        self._tree = tree
        found = ctypes.c_void_p()
        check(c.trunkline_sequence_tree_live(tree.value, ctypes.byref(found)))
        self._value = found.value or 0

    @property
    def value(self) -> int:
        self._tree.value  # noqa: B018 -- a ClosedError once the tree is closed
        return self._value

    @property
    def closed(self) -> bool:
        return self._tree.closed

    def close(self) -> None:
        """The tree's business."""


class SequenceTree(NotCopied):
    """The tree of a search, its KV pages and its batches. The path from a root to a node is a sequence.

    page_size: tokens of a page; num_pages: of the pool; expected_leaves, expected_pages: capacity that the batch
    allocates at once. It owns no tensors: `step` and `accept` say which slots are written, copied and moved.

    Leaves share pages by reference counts, and a step copies a part-filled page that several hold. Tokens and scores
    stay after a node was finished or pruned. A call that is refused changes nothing: StaleError for a node that was
    finished, pruned or saved, InvalidArgumentError for a node of another tree or a full pool.

    >>> import trunkline
    >>> tree = trunkline.SequenceTree(page_size=16, num_pages=100)
    >>> root = tree.add_root(range(40))
    >>> len(tree.step([root]).tokens)
    40
    >>> children = tree.fork(root, 2)
    >>> for token, child in enumerate(children):
    ...     tree.append(child, [token])
    >>> step = tree.step(children)
    >>> step.tokens.tolist(), step.positions.tolist(), tree.pages_in_use
    ([0, 1], [40, 40], 4)
    """

    def __init__(self, *, page_size: int, num_pages: int, expected_leaves: int = 0, expected_pages: int = 0) -> None:
        options = new(
            _abi.SequenceTreeOptions,
            page_size=int32(page_size, "page_size"),
            num_pages=int64(num_pages, "num_pages"),
            expected_leaves=int32(expected_leaves, "expected_leaves"),
            expected_pages=int32(expected_pages, "expected_pages"),
        )
        self.page_size = page_size
        self.num_pages = num_pages
        self._handle = Handle("sequence_tree", ctypes.byref(options), None)
        self._data: dict[TreeNode, Any] = {}
        live = LiveBatch.__new__(LiveBatch)
        live.page_size, live.num_pages = page_size, num_pages
        live._handle = _TreesBatch(self._handle)  # type: ignore[assignment]
        live._users = weakref.WeakSet()
        self._live = live

    @property
    def live(self) -> LiveBatch:
        """The batch of the last step, for DecodeAttention.plan_live. The tree alone edits it."""
        return self._live

    def add_root(self, tokens: Indices) -> TreeNode:
        """A root with the tokens of a prompt. It holds the pages that are cached of all but the last token."""
        ids = host_ints(list(tokens) if isinstance(tokens, range) else tokens, "tokens")
        found = _abi.Node()
        check(c.trunkline_sequence_tree_add_root(self._edited(), ids.address, ids.shape[0], ctypes.byref(found)))
        return TreeNode(found.index, found.tree)

    def fork(self, node: TreeNode, count: int, *, keep: bool = False) -> list[TreeNode]:
        """Children without tokens. The KV of a leaf passes to them; with `keep` it keeps its own, too. An inner node
        can be forked again while it or a leaf below it holds KV."""
        parent, count = _node_struct(node), int32(count, "count", 1)
        made = (_abi.Node * count)()
        check(c.trunkline_sequence_tree_fork(self._edited(), parent, count, int(flag(keep, "keep")), made))
        return [TreeNode(one.index, one.tree) for one in made]

    def append(self, leaf: TreeNode, tokens: Indices) -> None:
        """Tokens at the end of a leaf. The next step with the leaf has them as queries."""
        ids = host_ints(tokens, "tokens")
        check(
            c.trunkline_sequence_tree_append(self._handle.value, _node_struct(leaf, "leaf"), ids.address, ids.shape[0])
        )

    def draft(self, leaf: TreeNode, tokens: Indices, parents: Indices) -> None:
        """A tree of drafts behind the leaf's last token, which has no KV yet. parents: the index of each token's parent
        among the drafts, -1 for a child of the leaf's last token."""
        ids, above = host_ints(tokens, "tokens"), host_ints(parents, "parents")
        if above.shape != ids.shape:
            raise errors.InvalidArgumentError(f"parents has shape {list(above.shape)}; expected: {list(ids.shape)}")
        whose = _node_struct(leaf, "leaf")
        check(c.trunkline_sequence_tree_draft(self._handle.value, whose, ids.address, above.address, ids.shape[0]))

    def accept(self, leaf: TreeNode, accepted: Indices) -> _Array:
        """Ends the drafts of a leaf. Those accepted, a path from the leaf's last token, become its tokens. Returns
        slots [N, 2] whose keys and values are to be moved, from column 0 to column 1, before the next step."""
        ids, whose = host_ints(accepted, "accepted"), _node_struct(leaf, "leaf")
        moves, count = ctypes.c_void_p(), ctypes.c_int64()
        at = ids.address if ids.shape[0] else None
        check(
            c.trunkline_sequence_tree_accept(
                self._edited(), whose, at, ids.shape[0], ctypes.byref(moves), ctypes.byref(count)
            )
        )
        return _array(moves.value, 2 * count.value, ctypes.c_int64).reshape(-1, 2)

    def prune(self, node: TreeNode) -> None:
        """Gives up a node and all below it, but for results."""
        self._edit("prune", node)

    def finish(self, leaf: TreeNode) -> None:
        """Makes a leaf a result, and frees its KV."""
        self._edit("finish", leaf)

    def commit(self, node: TreeNode) -> None:
        """Prunes all branches of the node's root that neither lead to it nor come from it."""
        self._edit("commit", node)

    def cache(self, node: TreeNode) -> None:
        """Caches the full pages of a node's sequence, for add_root to find, once their KV has been written."""
        self._edit("cache", node)

    def save(self, leaf: TreeNode) -> None:
        """Frees the pages of a leaf, which restore() brings back. Its keys and values are the caller's: copy those of
        its slots() before. TreeSession.save does both."""
        self._edit("save_outside", leaf)

    def restore(self, leaf: TreeNode) -> RestoredKV:
        """Brings a saved leaf back. It shares what another leaf or the prefix cache still has of its sequence; the rest
        is to be written before the next step. InvalidArgumentError when the pool is full."""
        whose, found = _node_struct(leaf, "leaf"), new(_abi.RestoredKv)
        check(c.trunkline_sequence_tree_restore_outside(self._edited(), whose, ctypes.byref(found)))
        copies = _array(found.copies, 5 * found.copy_count, ctypes.c_int32).reshape(-1, 5)
        return RestoredKV(found.begin, _array(found.slots, found.count, ctypes.c_int64), self._slots_of_copies(copies))

    def clear(self) -> None:
        """Prunes all nodes and forgets them. Cached pages stay."""
        check(c.trunkline_sequence_tree_clear(self._edited()))
        self._data.clear()

    def step(self, leaves: Sequence[TreeNode], max_queries: int = 0) -> TreeStep:
        """Begins a decode step: all tokens without KV and all drafts of the leaves are its queries. max_queries: at
        most so many of a leaf without drafts; 0: no limit. InvalidArgumentError when the pool is full."""
        given, limit = _node_structs(leaves, "leaves"), int32(max_queries, "max_queries", 0)
        step = new(_abi.TreeStep)
        check(c.trunkline_sequence_tree_step(self._edited(), given, len(given), limit, ctypes.byref(step)))
        return TreeStep(
            [TreeNode(*node) for node in leaves],
            _array(step.query_start, step.rows + 1, ctypes.c_int32),
            _array(step.tokens, step.queries, ctypes.c_int32),
            _array(step.positions, step.queries, ctypes.c_int32),
            _array(step.slot_mapping, step.queries, ctypes.c_int64),
            self._slots_of_copies(_array(step.copies, 5 * step.copy_count, ctypes.c_int32).reshape(-1, 5)),
        )

    def cancel_step(self) -> None:
        """Takes the last step back, where its keys and values were not written: its tokens have no KV again."""
        check(c.trunkline_sequence_tree_cancel_step(self._edited()))

    def info(self, node: TreeNode) -> NodeInfo:
        """What is known of a node, also after it was finished or pruned."""
        found = new(_abi.NodeInfo)
        check(c.trunkline_sequence_tree_get_node(self._handle.value, _node_struct(node), ctypes.byref(found)))
        parent = None if found.parent.index < 0 else TreeNode(found.parent.index, found.parent.tree)
        state = _STATES[found.state]
        return NodeInfo(parent, state, found.begin, found.end, found.kv_len, found.drafts, found.score)

    def sequence(self, node: TreeNode) -> list[int]:
        """The tokens of a node's whole sequence."""
        length = self.info(node).end
        tokens = (ctypes.c_int32 * max(length, 1))()
        check(c.trunkline_sequence_tree_sequence(self._handle.value, _node_struct(node), tokens, length))
        return list(tokens[:length])

    def slots(self, node: TreeNode) -> _Array:
        """The slots of a node's tokens that have KV in the pool."""
        length = self.info(node).kv_len
        slots = np.zeros(length, np.int64)
        check(c.trunkline_sequence_tree_slots(self._handle.value, _node_struct(node), slots.ctypes.data, length))
        return slots

    def set_score(self, node: TreeNode, score: float) -> None:
        """A number that stays with the node."""
        value = number(score, "score", -np.inf)
        check(c.trunkline_sequence_tree_set_score(self._handle.value, _node_struct(node), value))

    def set_data(self, node: TreeNode, data: Any) -> None:
        """Any object that stays with the node."""
        self.info(node)
        self._data[TreeNode(*node)] = data

    def data(self, node: TreeNode) -> Any:
        """What set_data gave; None without."""
        self.info(node)
        return self._data.get(TreeNode(*node))

    def nodes(self) -> list[TreeNode]:
        """All nodes since the last clear(), in the order in which they were made."""
        info = self._info()
        return [TreeNode(index, info.tree) for index in range(info.nodes)]

    def leaves(self) -> list[TreeNode]:
        """All nodes in state "leaf"."""
        return [node for node in self.nodes() if self.info(node).state == "leaf"]

    @property
    def pages_in_use(self) -> int:
        """Pages that nodes hold."""
        return self.num_pages - int(self._info().available_pages)

    @property
    def cached_pages(self) -> int:
        """Pages in the prefix cache, in use or not."""
        return int(self._info().cached_pages)

    def close(self) -> None:
        if not self._handle.closed:
            self._edited()
        self._handle.close()

    def __enter__(self) -> SequenceTree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _info(self) -> _abi.SequenceTreeInfo:
        info = new(_abi.SequenceTreeInfo)
        check(c.trunkline_sequence_tree_get_info(self._handle.value, ctypes.byref(info)))
        return info

    def _edit(self, operation: str, node: TreeNode) -> None:
        whose = _node_struct(node)
        check(getattr(c, f"trunkline_sequence_tree_{operation}")(self._edited(), whose))

    def _edited(self) -> int:
        """The handle, for a call that may edit the batch: plans that read its tables end before."""
        value = self._handle.value
        self._live._edited()
        return value

    def _slots_of_copies(self, copies: _Array) -> _Array:
        pairs = [
            (source * self.page_size + offset, target * self.page_size + offset)
            for source, target, tokens, _, _ in copies.tolist()
            for offset in range(tokens)
        ]
        return np.array(pairs, np.int64).reshape(-1, 2)
