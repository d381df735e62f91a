"""Beam search."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from .. import _abi
from .._arguments import choice, number
from .._library import Handle, c, check, new
from ._checks import end_tokens_of, positive, refuse_logits
from .controllers import BranchController, Continuation, Decisions, Logits, Result
from .tree import SequenceTree, TreeNode, _node_structs

_EARLY_STOPPING = {
    "heuristic": _abi.STOP_HEURISTIC,
    "always": _abi.STOP_ALWAYS,
    "never": _abi.STOP_NEVER,
}


class BeamSearch(BranchController):
    """Beam search with the rules of Transformers' generate(num_beams=..).

    beams: sequences that go on; max_new_tokens: of a result, its end token included; end_tokens: one or several.
    length_penalty: a result's score is its log-probability divided by its number of tokens to this power.
    early_stopping: once there are as many results as beams, stop "always" (Transformers' True); by "heuristic" (False)
    when the best beam at its present length is no better than the worst result; or "never", unless no beam can become
    better.
    """

    def __init__(
        self,
        beams: int,
        max_new_tokens: int,
        *,
        end_tokens: int | Sequence[int] | None = None,
        length_penalty: float = 1.0,
        early_stopping: str = "heuristic",
    ) -> None:
        self.beams = positive(beams, "beams")
        self.max_new_tokens = positive(max_new_tokens, "max_new_tokens")
        self.end_tokens = end_tokens_of(end_tokens)
        self.length_penalty = number(length_penalty, "length_penalty", -np.inf)
        self._early_stopping = choice(_EARLY_STOPPING, early_stopping, "early_stopping")
        self._search = self._made()

    def _made(self) -> Handle:
        tokens = (ctypes.c_int32 * len(self.end_tokens))(*sorted(self.end_tokens))
        options = new(
            _abi.BeamSearchOptions,
            beams=self.beams,
            max_new_tokens=self.max_new_tokens,
            end_tokens=ctypes.addressof(tokens),
            end_token_count=len(tokens),
            early_stopping=self._early_stopping,
            length_penalty=self.length_penalty,
        )
        return Handle("beam_search", ctypes.byref(options))

    def begin(self, tree: SequenceTree, root: TreeNode) -> None:
        self._search = self._made()

    def decide(self, tree: SequenceTree, leaves: list[TreeNode], logits: Logits, decisions: Decisions) -> None:
        refuse_logits(logits, len(leaves))
        logits = np.ascontiguousarray(logits, np.float32)
        given = _node_structs(leaves, "leaves")
        view = _abi.Logits(data=logits.ctypes.data, row_stride=0, rows=logits.shape[0], vocabulary=logits.shape[1])
        found = new(_abi.Decisions)
        check(
            c.trunkline_beam_search_decide(
                self._search.value, tree._handle.value, given, len(given), ctypes.byref(view), ctypes.byref(found)
            )
        )
        if found.continuation_count:
            for one in (_abi.Continuation * found.continuation_count).from_address(found.continuations or 0):
                decisions.fork(one.leaf, [Continuation(one.token, one.score, bool(one.finished))])
        if found.prune_count:
            decisions.pruned += (ctypes.c_int32 * found.prune_count).from_address(found.prune or 0)
        decisions.stopped = bool(found.stop)

    def results(self, tree: SequenceTree, root: TreeNode) -> list[Result]:
        found, count = (_abi.BeamResult * self.beams)(), ctypes.c_int32()
        check(
            c.trunkline_beam_search_results(
                self._search.value, tree._handle.value, found, self.beams, ctypes.byref(count)
            )
        )
        nodes = [(TreeNode(one.node.index, one.node.tree), one.score) for one in found[: count.value]]
        return [Result(node, tree.sequence(node)[self.prompt_tokens :], score) for node, score in nodes]
