"""Tree of thoughts: levels of thoughts, of which the most promising go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ._checks import end_tokens_of, function, judged, positive
from .controllers import BranchController, Continuation, Decisions, Logits
from .samples import TokenSampler, _sampler_of
from .tree import SequenceTree, TreeNode


class TreeOfThoughts(BranchController):
    """Breadth-first tree of thoughts (Yao et al., 2023).

    Each kept leaf is forked into `thoughts` samples. A thought is over after thought_tokens tokens, or by one of
    thought_ends. When all thoughts of a level are over, `value` judges each, and the best `kept` go on. After `levels`
    levels they are the results, with their values as scores. A thought with a token of end_tokens is a result at once,
    and counts among the kept of its level no more.

    value: a function that takes the token ids after the prompt, and returns a number or a bool, the higher the better.
    """

    def __init__(
        self,
        levels: int,
        thoughts: int,
        kept: int,
        thought_tokens: int,
        value: Callable[[list[int]], float],
        *,
        thought_ends: int | Sequence[int] | None = None,
        end_tokens: int | Sequence[int] | None = None,
        sampler: TokenSampler | None = None,
    ) -> None:
        self.levels = positive(levels, "levels")
        self.thoughts = positive(thoughts, "thoughts")
        self.kept = positive(kept, "kept")
        self.thought_tokens = positive(thought_tokens, "thought_tokens")
        self.value = function(value, "value")
        self.thought_ends = end_tokens_of(thought_ends, "thought_ends")
        self.end_tokens = end_tokens_of(end_tokens)
        self.sampler = _sampler_of(sampler)

    def begin(self, tree: SequenceTree, root: TreeNode) -> None:
        self._level = 0
        self._starts: dict[TreeNode, int] = {}  # position at which a growing leaf's thought began
        self._over: dict[
            TreeNode, list[tuple[int, float]]
        ] = {}  # waiting leaves, and the first tokens of what may follow

    def decide(self, tree: SequenceTree, leaves: list[TreeNode], logits: Logits, decisions: Decisions) -> None:
        for i, (leaf, row) in enumerate(zip(leaves, logits)):
            end = tree.info(leaf).end
            begin = self._starts.pop(leaf, end)
            over = begin < end and (end - begin >= self.thought_tokens or tree.sequence(leaf)[-1] in self.thought_ends)
            if over or begin == end:
                # Drawn now, so that no logits need to be kept: a later level forks the leaf into these.
                self._over[leaf] = self.sampler.draw(row, self.thoughts)
                continue
            ((token, _),) = self.sampler.draw(row)
            ends = token in self.end_tokens
            score = self._valued(tree, leaf, token) if ends else 0.0
            decisions.fork(i, [Continuation(token, score, ends)])
            if not ends:
                self._starts[leaf] = begin
        if not self._starts:
            self._next_level(tree, decisions)

    def _valued(self, tree: SequenceTree, leaf: TreeNode, token: int) -> float:
        return judged(self.value, [*tree.sequence(leaf)[self.prompt_tokens :], token], "value")

    def _next_level(self, tree: SequenceTree, decisions: Decisions) -> None:
        waiting, self._over = self._over, {}
        if self._level > 0:
            for leaf in waiting:
                tree.set_score(leaf, judged(self.value, tree.sequence(leaf)[self.prompt_tokens :], "value"))
            ordered = sorted(waiting, key=lambda leaf: -tree.info(leaf).score)
            for leaf in ordered[self.kept :]:
                tree.prune(leaf)
                del waiting[leaf]
        if self._level == self.levels:
            for leaf in waiting:
                tree.finish(leaf)
            return
        self._level += 1
        for leaf, drawn in waiting.items():
            begin = tree.info(leaf).end
            for child, (token, _) in zip(tree.fork(leaf, len(drawn)), drawn):
                tree.append(child, [token])
                if token in self.end_tokens:
                    tree.set_score(child, judged(self.value, tree.sequence(child)[self.prompt_tokens :], "value"))
                    tree.finish(child)
                else:
                    self._starts[child] = begin
                    decisions.also(child)
