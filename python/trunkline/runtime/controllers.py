"""What decides how the branches of a search go on, and how decisions are carried out."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _abi
from .._arguments import int32, number, wrong_type
from .._library import c, check, new
from .tree import SequenceTree, TreeNode, _node_structs

if TYPE_CHECKING:
    from .session import TreeSession

#: [B, vocabulary] in float32.
Logits = npt.NDArray[Any]


class Continuation(NamedTuple):
    """One token after a leaf. score: what its node gets; finished: the node is a result, without a further step."""

    token: int
    score: float = 0.0
    finished: bool = False


class Result(NamedTuple):
    """A sequence that a search ended with. tokens: those after the prompt; score: as the controller has it, higher is
    better; text: the tokens decoded, where TreeGenerator has a tokenizer."""

    node: TreeNode
    tokens: list[int]
    score: float
    text: str | None = None


class Decisions:
    """What a controller wants, leaf by leaf; leaves are named by their index in the list that it was given.

    A leaf that is named nowhere waits: it keeps its KV and is in no step, until a controller lists it by also().
    """

    def __init__(self) -> None:
        self.continuations: list[tuple[int, Continuation]] = []
        self.pruned: list[int] = []
        self.finished: list[int] = []
        self.nodes: list[TreeNode] = []
        self.stopped = False

    def go_on(self, leaf: int, token: int, score: float = 0.0) -> None:
        """The leaf gets one token."""
        self.fork(leaf, [Continuation(token, score)])

    def fork(self, leaf: int, continuations: Sequence[Continuation]) -> None:
        """The leaf is forked into as many as there are continuations; by one alone it goes on."""
        added = list(continuations)
        for i, one in enumerate(added):
            if not isinstance(one, Iterable):
                raise wrong_type(f"continuations[{i}]", one, "a Continuation")
        self.continuations += [(leaf, Continuation(*one)) for one in added]

    def prune(self, leaf: int) -> None:
        """The leaf is given up."""
        self.pruned.append(leaf)

    def finish(self, leaf: int) -> None:
        """The leaf becomes a result as it is."""
        self.finished.append(leaf)

    def also(self, node: TreeNode) -> None:
        """Another leaf for the next step, which the controller has forked or kept waiting, and appended to."""
        self.nodes.append(node)

    def stop(self) -> None:
        """No further step."""
        self.stopped = True

    def apply(self, tree: SequenceTree, leaves: Sequence[TreeNode]) -> list[TreeNode]:
        """Carries the decisions out. Returns the leaves of the next step. Where it is refused, nothing was done."""
        given = _node_structs(leaves, "leaves")
        _node_structs(self.nodes, "nodes")
        continuations = (_abi.Continuation * len(self.continuations))()
        for i, (leaf, (token, score, finished)) in enumerate(self.continuations):
            continuations[i].leaf = int32(leaf, f"continuations[{i}].leaf")
            continuations[i].token = int32(token, f"continuations[{i}].token")
            continuations[i].score = number(score, f"continuations[{i}].score", -np.inf)
            continuations[i].finished = int(bool(finished))
        pruned = (ctypes.c_int32 * len(self.pruned))(*(int32(leaf, "prune") for leaf in self.pruned))
        finishing = (ctypes.c_int32 * len(self.finished))(*(int32(leaf, "finish") for leaf in self.finished))
        struct = new(
            _abi.Decisions,
            continuations=ctypes.addressof(continuations),
            continuation_count=len(continuations),
            prune=ctypes.addressof(pruned),
            prune_count=len(pruned),
            finish=ctypes.addressof(finishing),
            finish_count=len(finishing),
        )
        made = (_abi.Node * max(len(continuations), 1))()
        count = ctypes.c_int32()
        check(
            c.trunkline_sequence_tree_apply(
                tree._edited(), given, len(given), ctypes.byref(struct), made, len(made), ctypes.byref(count)
            )
        )
        return [TreeNode(one.index, one.tree) for one in made[: count.value]] + [TreeNode(*node) for node in self.nodes]


class BranchController:
    """Decides after each step how the branches of a search go on. Derive from it, and define `decide`.

    >>> import trunkline
    >>> class Twins(trunkline.BranchController):
    ...     "Greedy, but for the first token, of which it takes the best two."
    ...     def decide(self, tree, leaves, logits, decisions):
    ...         for i, (leaf, row) in enumerate(zip(leaves, logits)):
    ...             if tree.info(leaf).end == self.prompt_tokens + 8:
    ...                 decisions.finish(i)
    ...             elif len(leaves) == 1:
    ...                 decisions.fork(i, [trunkline.Continuation(int(token)) for token in row.argsort()[-2:]])
    ...             else:
    ...                 decisions.go_on(i, int(row.argmax()))
    """

    #: Tokens of the prompt of the present run.
    prompt_tokens = 0

    def begin(self, tree: SequenceTree, root: TreeNode) -> None:
        """Called before the first step of a run."""

    def decide(self, tree: SequenceTree, leaves: list[TreeNode], logits: Logits, decisions: Decisions) -> None:
        """leaves: of the step; logits [B, vocabulary]: after the last token of each, float32; decisions: none yet.
        Where it raises, none of its decisions is carried out, and the tree can be used on."""
        raise NotImplementedError(f"{type(self).__name__}.decide")

    def results(self, tree: SequenceTree, root: TreeNode) -> list[Result]:
        """The results of a run, the best first. By default all finished nodes, by their scores."""
        found = [
            Result(node, tree.sequence(node)[self.prompt_tokens :], tree.info(node).score)
            for node in tree.nodes()
            if tree.info(node).state == "finished" and _comes_from(tree, node, root)
        ]
        return sorted(found, key=lambda result: -result.score)

    def run(self, session: TreeSession, root: TreeNode) -> None:
        """Steps from a root until no leaf goes on. Leaves that are left then are pruned."""
        tree = session.tree
        self.prompt_tokens = tree.info(root).end
        self.begin(tree, root)
        leaves = [root]
        while leaves:
            logits = session.step(leaves)
            decisions = Decisions()
            self.decide(tree, list(leaves), logits, decisions)
            leaves = decisions.apply(tree, leaves)
            if decisions.stopped:
                break


def _comes_from(tree: SequenceTree, node: TreeNode, root: TreeNode) -> bool:
    above: TreeNode | None = node
    while above is not None and above.id > root.id:
        above = tree.info(above).parent
    return above == root
