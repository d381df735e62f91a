"""Several samples of one prompt: independent ones, the best of n, the answer that most agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import errors
from .._arguments import int32, integer, number, wrong_type
from ._checks import end_tokens_of, function, judged, positive
from .controllers import BranchController, Continuation, Decisions, Logits, Result
from .tree import SequenceTree, TreeNode

_FIRST_LOOK = 256  # most probable tokens that top_p looks at first; sorting a whole vocabulary takes milliseconds


class TokenSampler:
    """Draws tokens by softmax(logits / temperature), of the top_k best alone, and of the fewest that have probability
    top_p together. temperature 0 is greedy; top_k 0 and top_p 1 leave all. The same seed gives the same tokens; a
    second search with one sampler goes on in its random numbers, so it draws others."""

    def __init__(self, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0) -> None:
        self.temperature = number(temperature, "temperature", 0.0)
        self.top_k = int32(top_k, "top_k", 0)
        self.top_p = number(top_p, "top_p", 0.0)
        if not self.top_p <= 1:
            raise errors.InvalidArgumentError(f"top_p is {top_p!r}; expected: at most 1")
        self._random = np.random.default_rng(integer(seed, "seed", 0, 2**63 - 1))

    def draw(self, row: Logits, count: int = 1, *, replace: bool = True) -> list[tuple[int, float]]:
        """Tokens after one leaf, with their log-probabilities by the logits alone. Without replacement they all differ,
        and may be fewer than asked for."""
        exact = row.astype(np.float64)
        most = exact.max()
        if not np.isfinite(most):
            raise errors.InvalidArgumentError("logits have NaN or inf, or are all -inf; expected: numbers, or -inf")
        exact -= most
        weights = np.exp(exact)
        total = np.log(weights.sum())
        if self.temperature == 0:
            best = _largest(exact, 1 if replace else count)
            chosen = np.repeat(best, count) if replace else best
        else:
            if self.temperature != 1:
                weights = np.exp(exact / self.temperature)
            self._restrict(weights)
            chosen = self._chosen(weights, count, replace)
        return [(int(token), float(exact[token] - total)) for token in chosen]

    def _restrict(self, weights: npt.NDArray[np.float64]) -> None:
        """Zeroes all but the top_k and top_p."""
        if not self.top_k and self.top_p == 1:
            return
        limit = self.top_p * weights.sum()
        size = len(weights) if not self.top_k else min(self.top_k, len(weights))
        looked_at = size if self.top_p == 1 else min(_FIRST_LOOK, size)
        while True:
            order = _largest(weights, looked_at)
            sums = np.cumsum(weights[order])
            if looked_at == size or sums[-1] >= limit:
                break
            looked_at = min(8 * looked_at, size)
        kept = looked_at if self.top_p == 1 else max(1, int((sums - weights[order] < limit).sum()))
        values = weights[order[:kept]]
        weights[:] = 0
        weights[order[:kept]] = values

    def _chosen(self, weights: npt.NDArray[np.float64], count: int, replace: bool) -> npt.NDArray[Any]:
        if replace:  # by the inverse of the distribution: Generator.choice() takes four times as long for one token
            sums = np.cumsum(weights)
            sums /= sums[-1]
            return sums.searchsorted(self._random.random(count), side="right")
        size = min(count, int((weights > 0).sum()))
        return self._random.choice(len(weights), size=size, replace=False, p=weights / weights.sum())


def _sampler_of(sampler: TokenSampler | None) -> TokenSampler:
    """A controller's sampler: None is one at temperature 1."""
    if sampler is None:
        return TokenSampler()
    if not hasattr(sampler, "draw"):
        raise wrong_type("sampler", sampler, "a TokenSampler, or None")
    return sampler


def _largest(values: npt.NDArray[np.float64], count: int) -> npt.NDArray[Any]:
    """The indices of the `count` largest, the largest first, of equal ones the first."""
    if count == 1:
        return np.array([values.argmax()])
    if count < len(values):
        smallest = np.partition(values, len(values) - count)[len(values) - count]
        candidates = np.flatnonzero(values >= smallest)
    else:
        candidates = np.arange(len(values))
    return candidates[np.argsort(-values[candidates], kind="stable")[:count]]


class Samples(BranchController):
    """Independent samples of one prompt, whose KV they share. A result's score is its log-probability.

    samples: how many; max_new_tokens: of each, its end token included; sampler: a TokenSampler, by default at
    temperature 1.
    """

    def __init__(
        self,
        samples: int,
        max_new_tokens: int,
        *,
        end_tokens: int | Sequence[int] | None = None,
        sampler: TokenSampler | None = None,
    ) -> None:
        self.samples = positive(samples, "samples")
        self.max_new_tokens = positive(max_new_tokens, "max_new_tokens")
        self.end_tokens = end_tokens_of(end_tokens)
        self.sampler = _sampler_of(sampler)

    def decide(self, tree: SequenceTree, leaves: list[TreeNode], logits: Logits, decisions: Decisions) -> None:
        for i, (leaf, row) in enumerate(zip(leaves, logits)):
            info = tree.info(leaf)
            first = info.end == self.prompt_tokens
            decisions.fork(
                i,
                [
                    self._continuation(info.score + score, token, info.end + 1)
                    for token, score in self.sampler.draw(row, self.samples if first else 1)
                ],
            )

    def _continuation(self, score: float, token: int, length: int) -> Continuation:
        ends = token in self.end_tokens or length == self.prompt_tokens + self.max_new_tokens
        return Continuation(token, score, ends)


class _Judged(Samples):
    """Samples whose results are looked at as soon as they end, so that the others may be given up."""

    def begin(self, tree: SequenceTree, root: TreeNode) -> None:
        self._root = root
        self._judged: dict[TreeNode, Any] = {}

    def decide(self, tree: SequenceTree, leaves: list[TreeNode], logits: Logits, decisions: Decisions) -> None:
        for result in super().results(tree, self._root):
            if result.node not in self._judged:
                self._judged[result.node] = self._judge(result)
        if self._enough():
            for i in range(len(leaves)):
                decisions.prune(i)
            decisions.stop()
            return
        super().decide(tree, leaves, logits, decisions)

    def _judge(self, result: Result) -> Any:
        raise NotImplementedError

    def _enough(self) -> bool:
        raise NotImplementedError

    def _all_judged(self, tree: SequenceTree, root: TreeNode) -> list[tuple[Result, Any]]:
        found = []
        for result in super().results(tree, root):
            if result.node not in self._judged:
                self._judged[result.node] = self._judge(result)
            found.append((result, self._judged[result.node]))
        return found


class BestOfN(_Judged):
    """The best of n samples by a score of the caller's.

    score: a function that takes the token ids of a finished sample after the prompt, and returns a number or a bool,
    the higher the better. enough: a score from which on the other samples are given up, by default none is.
    """

    def __init__(
        self,
        samples: int,
        max_new_tokens: int,
        score: Callable[[list[int]], float],
        *,
        enough: float | None = None,
        end_tokens: int | Sequence[int] | None = None,
        sampler: TokenSampler | None = None,
    ) -> None:
        super().__init__(samples, max_new_tokens, end_tokens=end_tokens, sampler=sampler)
        self.score = function(score, "score")
        self.enough = None if enough is None else number(enough, "enough", -np.inf)

    def _judge(self, result: Result) -> float:
        return judged(self.score, result.tokens, "score")

    def _enough(self) -> bool:
        return self.enough is not None and any(score >= self.enough for score in self._judged.values())

    def results(self, tree: SequenceTree, root: TreeNode) -> list[Result]:
        judged = [result._replace(score=score) for result, score in self._all_judged(tree, root)]
        return sorted(judged, key=lambda result: -result.score)


class SelfConsistency(_Judged):
    """The answer that most samples agree on (Wang et al., 2022). A result's score is the share of the samples that have
    its answer; there is one result for each answer, its most probable sample.

    answer: a function of the tokens after the prompt, which gives anything hashable, or None for no answer. Samples are
    given up once no other answer can be given by more of them.
    """

    def __init__(
        self,
        samples: int,
        max_new_tokens: int,
        answer: Callable[[list[int]], Hashable],
        *,
        end_tokens: int | Sequence[int] | None = None,
        sampler: TokenSampler | None = None,
    ) -> None:
        super().__init__(samples, max_new_tokens, end_tokens=end_tokens, sampler=sampler)
        self.answer = function(answer, "answer")

    def _judge(self, result: Result) -> Hashable:
        found = self.answer(result.tokens)
        try:
            hash(found)
        except TypeError:
            raise wrong_type("answer(tokens)", found, "a hashable value, or None") from None
        return found

    def _enough(self) -> bool:
        votes = [count for _, count in self._votes().most_common(2)]
        running = self.samples - len(self._judged)
        return bool(votes) and running > 0 and votes[0] > (votes[1] if len(votes) > 1 else 0) + running

    def _votes(self) -> Counter[Hashable]:
        return Counter(answer for answer in self._judged.values() if answer is not None)

    def results(self, tree: SequenceTree, root: TreeNode) -> list[Result]:
        best: dict[Hashable, Result] = {}
        for result, answer in self._all_judged(tree, root):  # the most probable first
            if answer is not None:
                best.setdefault(answer, result)
        votes = self._votes()
        ordered = sorted(best, key=lambda answer: -votes[answer])
        return [best[answer]._replace(score=votes[answer] / self.samples) for answer in ordered]
