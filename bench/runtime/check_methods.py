"""Compares all methods, on trees that are computed whole, with the model's own eager attention: log-probabilities of
forced tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import tree_suites
from references import LOG_PROBABILITY_TOLERANCE, larger, token_log_probabilities
from stepping import SteppedTree, WrongResult

_PROMPT = [(7 * token * token + 3) % 997 + 2 for token in range(75)]  # ends within a page
_STEPS = 3
_DRAFTS = [-1, -1, 0, 0, 1, 2]  # parents


class _Right:
    """Log-probabilities of a text's tokens from `begin` on; each text is computed once for all methods."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._known: dict[tuple[int, ...], np.ndarray] = {}

    def __call__(self, tokens: list[int], begin: int) -> np.ndarray:
        key = (begin, *tokens)
        if key not in self._known:
            self._known[key] = token_log_probabilities(self._model.model, tokens, begin)
        return self._known[key]


def check(model: Any, given: Any, names: list[str]) -> dict[str, float]:
    """The largest difference by method. WrongResult where one is beyond the tolerance for the model's type."""
    found = {}
    right = _Right(model)
    for name in names:
        methods = tree_suites.made_methods([name, "trunk"], model, given, room=16)  # trunk for the prompt of `copies`
        stepped = SteppedTree(model, methods, num_pages=64, page_size=tree_suites.PAGE_SIZE, filled=False)
        try:
            worst = _branches(stepped, right, equal=name == "copies")
            if name != "copies":
                worst = larger(worst, _drafts(stepped, right))
        finally:
            stepped.close()
            for method in methods:
                method.close()
        tolerance = LOG_PROBABILITY_TOLERANCE[model.dtype]
        if not worst < tolerance:
            raise WrongResult(f"{name}: log-probabilities differ by {worst}; tolerance: {tolerance}")
        found[name] = worst
    return found


def _scores(logits: Any) -> np.ndarray:
    exact = logits.double()
    return (exact - exact.logsumexp(dim=-1, keepdim=True)).cpu().numpy()


def _branches(stepped: SteppedTree, right: _Right, *, equal: bool) -> float:
    """Three branches that grow by tokens of their own; unless they must be of equal lengths without further forks, one
    of them is forked on the way."""
    tree, method = stepped.tree, stepped.methods[0]
    root = tree.add_root(_PROMPT)
    logits, _ = stepped.run(stepped.begin([root]), stepped.methods[1 if equal else 0])
    scores = _scores(logits)
    leaves = tree.fork(root, 3)
    found: dict[Any, list[float]] = {leaf: [] for leaf in leaves}
    rows = [0] * len(leaves)
    for step in range(_STEPS):
        for branch, (leaf, row) in enumerate(zip(leaves, rows)):
            token = 11 + 13 * branch + step
            tree.append(leaf, [token])
            found[leaf].append(float(scores[row][token]))
        logits, _ = stepped.run(stepped.begin(leaves), method)
        scores, rows = _scores(logits), list(range(len(leaves)))
        if not equal and step == 0:
            children = tree.fork(leaves[0], 2)
            found |= {child: list(found[leaves[0]]) for child in children}
            leaves, rows = [*leaves[1:], *children], [1, 2, 0, 0]
    worst = 0.0
    for leaf in leaves:
        expected = right(tree.sequence(leaf), len(_PROMPT))
        worst = larger(worst, float(np.abs(expected - found[leaf]).max()))
    tree.clear()
    return worst


def _drafts(stepped: SteppedTree, right: _Right) -> float:
    """A draft tree behind the prompt, then another behind what was accepted."""
    tree, method = stepped.tree, stepped.methods[0]
    root = tree.add_root(_PROMPT)
    stepped.run(stepped.begin([root]), method)
    tree.append(root, [5])
    worst = 0.0
    for start in (20, 40):
        tokens = [start + draft for draft in range(len(_DRAFTS))]
        tree.draft(root, tokens, _DRAFTS)
        step = stepped.begin([root], {0: _DRAFTS})
        logits, _ = stepped.run(step, method, last=len(_DRAFTS) + 1)
        scores = _scores(logits)
        text = tree.sequence(root)
        for end in sorted(set(range(len(_DRAFTS))) - set(_DRAFTS)):
            path = [end]
            while _DRAFTS[path[0]] >= 0:
                path.insert(0, _DRAFTS[path[0]])
            ours = [scores[_DRAFTS[draft] + 1][tokens[draft]] for draft in path]
            expected = right(text + [tokens[draft] for draft in path], len(text))
            worst = larger(worst, float(np.abs(expected - ours).max()))
        stepped.cache.copy(tree.accept(root, [0, 2]))
        tree.append(root, [start + 30])
    tree.clear()
    return worst
