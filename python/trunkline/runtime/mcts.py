"""Monte Carlo tree search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .._arguments import number
from ._checks import end_tokens_of, function, judged, positive
from .controllers import BranchController, Continuation, Decisions, Logits, Result
from .samples import TokenSampler, _sampler_of
from .tree import SequenceTree, TreeNode


@dataclass
class _Visits:
    parent: TreeNode | None
    children: list[TreeNode] = field(default_factory=list)
    drawn: list[tuple[int, float]] = field(default_factory=list)  # first tokens of its children, before there are any
    count: int = 0
    total: float = 0.0
    terminal: bool = False

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


class MonteCarloTreeSearch(BranchController):
    """Monte Carlo tree search by UCT (Kocsis and Szepesvari, 2006) with a value function in place of rollouts.

    An iteration goes from the root to a node without children, always to the child of the highest
    mean + exploration * sqrt(log(parent's visits) / visits); forks it into `width` different continuations of
    step_tokens tokens, in one batch; and adds their values to all nodes above. Nodes share all KV above them.

    value: a function that takes the token ids after the prompt, and returns a number or a bool, the higher the better;
    the default exploration suits numbers in [0, 1]. max_new_tokens: of a path, its end token included.
    Results are the ends of all paths by their values, also of paths that were not grown further, but first the one that
    the most visited children lead to.
    """

    def __init__(
        self,
        iterations: int,
        width: int,
        step_tokens: int,
        value: Callable[[list[int]], float],
        *,
        max_new_tokens: int,
        exploration: float = math.sqrt(2),
        end_tokens: int | Sequence[int] | None = None,
        sampler: TokenSampler | None = None,
    ) -> None:
        self.iterations = positive(iterations, "iterations")
        self.width = positive(width, "width")
        self.step_tokens = positive(step_tokens, "step_tokens")
        self.max_new_tokens = positive(max_new_tokens, "max_new_tokens")
        self.exploration = number(exploration, "exploration", 0.0)
        self.value = function(value, "value")
        self.end_tokens = end_tokens_of(end_tokens)
        self.sampler = _sampler_of(sampler)

    def begin(self, tree: SequenceTree, root: TreeNode) -> None:
        self._root = root
        self._visits = {root: _Visits(None)}
        self._growing: dict[TreeNode, int] = {root: tree.info(root).end}
        self._iteration = 0

    def decide(self, tree: SequenceTree, leaves: list[TreeNode], logits: Logits, decisions: Decisions) -> None:
        for i, (leaf, row) in enumerate(zip(leaves, logits)):
            if tree.info(leaf).end == self._growing[leaf]:
                self._visits[leaf].drawn = self.sampler.draw(row, self.width, replace=False)
                del self._growing[leaf]
                continue
            ((token, score),) = self.sampler.draw(row)
            ends = self._ends(token, tree.info(leaf).end + 1)
            decisions.fork(i, [Continuation(token, tree.info(leaf).score + score, ends)])
            if ends:
                self._visits[leaf].terminal = True
                self._visits[leaf].drawn = [(token, score)]  # not in the tree yet, for _value_of
                del self._growing[leaf]
        if not self._growing:
            self._next_iteration(tree, decisions)

    def _ends(self, token: int, length: int) -> bool:
        return token in self.end_tokens or length >= self.prompt_tokens + self.max_new_tokens

    def _next_iteration(self, tree: SequenceTree, decisions: Decisions) -> None:
        fresh = [node for node, visits in self._visits.items() if not visits.count and node != self._root]
        for node in fresh:
            self._add(node, self._value_of(tree, node))
        while self._iteration < self.iterations:
            self._iteration += 1
            node = self._select()
            visits = self._visits[node]
            if not visits.terminal:
                self._expand(tree, node, decisions)
                if decisions.nodes:
                    return
                for child in visits.children:  # all of them ended at once
                    self._add(child, self._value_of(tree, child))
            else:
                self._add(node, visits.mean)
        for node, visits in self._visits.items():
            if not visits.terminal and not visits.children:
                tree.finish(node)

    def _value_of(self, tree: SequenceTree, node: TreeNode) -> float:
        tokens = tree.sequence(node)[self.prompt_tokens :]
        visits = self._visits[node]
        if visits.terminal and visits.drawn:
            tokens.append(visits.drawn.pop()[0])
        return judged(self.value, tokens, "value")

    def _add(self, node: TreeNode, value: float) -> None:
        at: TreeNode | None = node
        while at is not None:
            visits = self._visits[at]
            visits.count += 1
            visits.total += value
            at = visits.parent

    def _select(self) -> TreeNode:
        node = self._root
        while self._visits[node].children:
            parent = self._visits[node]
            logarithm = math.log(max(parent.count, 1))

            def bound(child: TreeNode, logarithm: float = logarithm) -> float:
                visits = self._visits[child]
                return visits.mean + self.exploration * math.sqrt(logarithm / max(visits.count, 1))

            node = max(parent.children, key=bound)
        return node

    def _expand(self, tree: SequenceTree, node: TreeNode, decisions: Decisions) -> None:
        visits = self._visits[node]
        base, end = tree.info(node).score, tree.info(node).end
        drawn, visits.drawn = visits.drawn, []
        for child, (token, score) in zip(tree.fork(node, len(drawn)), drawn):
            tree.append(child, [token])
            tree.set_score(child, base + score)
            visits.children.append(child)
            self._visits[child] = _Visits(node)
            if self._ends(token, end + 1):
                self._visits[child].terminal = True
                tree.finish(child)
            else:
                self._growing[child] = end + self.step_tokens
                decisions.also(child)

    def results(self, tree: SequenceTree, root: TreeNode) -> list[Result]:
        found = super().results(tree, root)
        found = [result._replace(score=self._visits[result.node].mean) for result in found]
        best = root
        while self._visits[best].children:
            best = max(self._visits[best].children, key=lambda child: self._visits[child].count)
        return sorted(found, key=lambda result: (result.node != best, -result.score))
