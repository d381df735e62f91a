"""Speculative decoding: drafts of several tokens, verified in one step."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import _abi, errors
from .._arguments import integer, number, optional
from .._indices import Indices, host_ints
from .._library import Handle, NotCopied, c, check, new
from ._checks import end_tokens_of, function, log_probabilities, positive, refuse_logits
from .controllers import BranchController, Decisions, Logits
from .tree import SequenceTree, TreeNode

if TYPE_CHECKING:
    from .session import TreeSession


class Verified(NamedTuple):
    """accepted: a path of drafts, for SequenceTree.accept; next_token: what the target model has after them;
    log_probability: of all these tokens."""

    accepted: list[int]
    next_token: int
    log_probability: float


class Sampler(NotCopied):
    """Draws tokens by softmax(logits / temperature). The same seed gives the same tokens."""

    def __init__(self, seed: int = 0, temperature: float = 1.0) -> None:
        value = ctypes.c_double(number(temperature, "temperature", 0.0))
        self._handle = Handle("sampler", ctypes.c_uint64(integer(seed, "seed", 0, 2**64 - 1)), value)

    def sample(self, logits: Logits) -> int:
        """A token by logits [vocabulary]."""
        row, token = np.ascontiguousarray(logits, np.float32), ctypes.c_int32()
        check(c.trunkline_sampler_sample(self._handle.value, row.ctypes.data, row.size, ctypes.byref(token)))
        return token.value


def verify_drafts(
    tokens: Indices, parents: Indices, logits: Logits, *, sampler: Sampler | None = None, probabilities: Any = None
) -> Verified:
    """Which drafts a target model accepts. tokens, parents [D]: as SequenceTree.draft has them. logits [D + 1,
    vocabulary] of the target: row 0 after the sequence's last token, row i + 1 after draft i.

    sampler: None for greedy decoding, whose text it then is. With one, the text has the distribution of sampling from
    the target alone. probabilities [D + 1, vocabulary]: row 0 is the distribution from which the children of the last
    token were drawn, row i + 1 that of the children of draft i, those of one parent without replacement, in their
    order; None: drafts may come from anywhere.
    """
    ids, above = host_ints(tokens, "tokens"), host_ints(parents, "parents")
    if above.shape != ids.shape:
        raise errors.InvalidArgumentError(f"parents has shape {list(above.shape)}; expected: {list(ids.shape)}")
    count = ids.shape[0]
    rows = np.ascontiguousarray(logits, np.float32)
    refuse_logits(rows, count + 1)
    given = None if probabilities is None else np.ascontiguousarray(probabilities, np.float32)
    if given is not None and given.shape != rows.shape:
        raise errors.InvalidArgumentError(f"probabilities has shape {list(given.shape)}; expected: {list(rows.shape)}")
    optional(sampler, Sampler, "sampler")
    drafts = new(
        _abi.Drafts,
        tokens=ids.address if count else None,
        parents=above.address if count else None,
        count=count,
        probabilities=None if given is None else given.ctypes.data,
    )
    view = _abi.Logits(data=rows.ctypes.data, row_stride=0, rows=rows.shape[0], vocabulary=rows.shape[1])
    accepted, verified = (ctypes.c_int32 * max(count, 1))(), new(_abi.Verified)
    check(
        c.trunkline_verify_drafts(
            None if sampler is None else sampler._handle.value,
            ctypes.byref(drafts),
            ctypes.byref(view),
            accepted,
            ctypes.byref(verified),
        )
    )
    return Verified(list(accepted[: verified.accepted_count]), verified.next_token, verified.log_probability)


class PromptLookup:
    """Drafts by looking the text's last tokens up in the text itself (Saxena, 2023): what followed them before.

    ngram: tokens that must agree, fewer where so many do not; count: drafts of one chain; chains: places looked at.
    """

    def __init__(self, ngram: int = 3, count: int = 8, chains: int = 2) -> None:
        self.ngram = positive(ngram, "ngram")
        self.count = positive(count, "count")
        self.chains = positive(chains, "chains")

    def __call__(self, tokens: list[int]) -> tuple[list[int], list[int]]:
        drafts: list[int] = []
        parents: list[int] = []
        for size in range(min(self.ngram, len(tokens) - 1), 0, -1):
            end = tokens[-size:]
            starts = [at + size for at in range(len(tokens) - size - 1, -1, -1) if tokens[at : at + size] == end]
            for start in starts[: self.chains]:
                self._add(tokens[start : start + self.count], drafts, parents)
            if drafts:
                break
        return drafts, parents

    @staticmethod
    def _add(chain: list[int], drafts: list[int], parents: list[int]) -> None:
        parent = -1
        for token in chain:
            known = [i for i, above in enumerate(parents) if above == parent and drafts[i] == token]
            if not known:
                drafts.append(token)
                parents.append(parent)
            parent = known[0] if known else len(drafts) - 1


class SpeculativeDecoding(BranchController):
    """One sequence, several tokens a step: a drafter proposes a tree of tokens, the model verifies all of it at once.

    drafter: a function of all tokens so far that gives (tokens, parents), or (tokens, parents, probabilities), as
    verify_drafts has them; no tokens for a step without drafts. sampler: as verify_drafts's.

    After a run, steps, drafted and accepted tell how well drafts did.
    """

    def __init__(
        self,
        drafter: Callable[[list[int]], Sequence[Any]],
        max_new_tokens: int,
        *,
        end_tokens: int | Sequence[int] | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self.drafter = function(drafter, "drafter")
        self.max_new_tokens = positive(max_new_tokens, "max_new_tokens")
        self.end_tokens = end_tokens_of(end_tokens)
        self.sampler = optional(sampler, Sampler, "sampler")
        self.steps = self.drafted = self.accepted = 0

    def decide(self, tree: SequenceTree, leaves: list[TreeNode], logits: Logits, decisions: Decisions) -> None:
        raise errors.UnsupportedError("SpeculativeDecoding has a loop of its own, run(); expected: TreeGenerator")

    def run(self, session: TreeSession, root: TreeNode) -> None:
        tree = session.tree
        self.prompt_tokens = tree.info(root).end
        self.steps = self.drafted = self.accepted = 0
        score = 0.0
        while True:
            drafts, parents, *probabilities = self.drafter(tree.sequence(root))
            drafts, parents = list(drafts), list(parents)
            if drafts:
                tree.draft(root, drafts, parents)
            try:
                logits = session.step([root], last=len(drafts) + 1)
                verified = verify_drafts(
                    drafts,
                    parents,
                    logits,
                    sampler=self.sampler,
                    probabilities=probabilities[0] if probabilities else None,
                )
            except BaseException:
                if drafts and tree.info(root).drafts:
                    session.accept(root, [])
                raise
            added = [drafts[i] for i in verified.accepted] + [verified.next_token]
            room = self.prompt_tokens + self.max_new_tokens - tree.info(root).end
            ends = [i for i, token in enumerate(added) if token in self.end_tokens]
            added = added[: min([room, *(i + 1 for i in ends[:1])])]
            rows = [0, *(draft + 1 for draft in verified.accepted)][: len(added)]
            score += float(log_probabilities(logits[rows])[np.arange(len(rows)), added].sum())
            self.steps += 1
            self.drafted += len(drafts)
            self.accepted += len(added) - 1
            # The last token has no KV, a draft or not.
            if drafts:
                session.accept(root, verified.accepted[: len(added) - 1])
            tree.append(root, [added[-1]])
            if ends or len(added) == room:
                tree.set_score(root, score)
                tree.finish(root)
                return
