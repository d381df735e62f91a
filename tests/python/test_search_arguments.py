"""Searches refuse what callers give them by the name of the argument, and as early as they can."""

from collections import UserDict

import numpy as np
import pytest
import trunkline
from tree_model import ToyTreeModel

PROMPT = [5, 1, 7, 7, 2]

SEARCHES = {
    "score": lambda judge: trunkline.BestOfN(3, 4, judge),
    "value": lambda judge: trunkline.TreeOfThoughts(2, 2, 1, 2, judge),
    "value, at an end": lambda judge: trunkline.TreeOfThoughts(2, 2, 1, 2, judge, end_tokens=range(30)),
    "value of UCT": lambda judge: trunkline.MonteCarloTreeSearch(3, 2, 2, judge, max_new_tokens=6),
}


def generator_of(controller, **options):
    return trunkline.TreeGenerator(ToyTreeModel(), None, controller, **({"max_tokens": 1000, "page_size": 4} | options))


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(
    ("found", "kind", "text"),
    [
        (None, trunkline.ArgumentTypeError, "is None; expected: a number"),
        ("a", trunkline.ArgumentTypeError, "is 'a'; expected: a number"),
        (np.zeros(3), trunkline.ArgumentTypeError, "is of type ndarray; expected: a number"),
        (float("nan"), trunkline.InvalidArgumentError, "is nan; expected: a number$"),
    ],
    ids=["None", "text", "array", "NaN"],
)
def test_scores_that_are_no_numbers(name, found, kind, text):
    generator = generator_of(SEARCHES[name](lambda tokens: found))
    with pytest.raises(kind, match=rf"^{name[:5]}\(tokens\) {text}"):
        generator.generate(PROMPT)
    assert generator.session.tree.pages_in_use == 0


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("found", [True, 1, np.float32(1), np.bool_(True), np.array(1.0)], ids=lambda one: repr(one))
def test_scores_that_are_numbers(name, found):
    """A test that passes or fails is a score, too."""
    results = generator_of(SEARCHES[name](lambda tokens: found)).generate(PROMPT)
    assert results and {result.score for result in results} == {1.0}


def test_functions_are_checked_when_a_controller_is_made():
    for name, make in SEARCHES.items():
        with pytest.raises(trunkline.ArgumentTypeError, match=f"^{name[:5]} is 3; expected: a function of token ids"):
            make(3)
    with pytest.raises(trunkline.ArgumentTypeError, match="^answer is None; expected: a function of token ids"):
        trunkline.SelfConsistency(3, 4, None)
    with pytest.raises(trunkline.ArgumentTypeError, match="^drafter is of type list; expected: a function of token"):
        trunkline.SpeculativeDecoding([], 4)


def test_answers_are_hashable():
    with pytest.raises(trunkline.ArgumentTypeError, match=r"^answer\(tokens\) is of type list; expected: a hashable"):
        generator_of(trunkline.SelfConsistency(3, 4, lambda tokens: tokens)).generate(PROMPT)


def test_samplers_are_checked_when_a_controller_is_made():
    for make in (
        lambda sampler: trunkline.Samples(2, 4, sampler=sampler),
        lambda sampler: trunkline.TreeOfThoughts(2, 2, 1, 2, len, sampler=sampler),
        lambda sampler: trunkline.MonteCarloTreeSearch(3, 2, 2, len, max_new_tokens=6, sampler=sampler),
    ):
        with pytest.raises(trunkline.ArgumentTypeError, match=r"^sampler is 0\.7; expected: a TokenSampler, or None"):
            make(0.7)


def test_end_tokens():
    assert trunkline.Samples(2, 4, end_tokens=np.int64(3)).end_tokens == {3}
    assert trunkline.Samples(2, 4, end_tokens=np.array([3, 4])).end_tokens == {3, 4}
    with pytest.raises(trunkline.ArgumentTypeError, match=r"^end_tokens is 2\.0; expected: a token id, several, or No"):
        trunkline.Samples(2, 4, end_tokens=2.0)
    with pytest.raises(trunkline.InvalidArgumentError, match="^end_tokens is -1; expected: at least 0"):
        trunkline.BeamSearch(2, 4, end_tokens=-1)
    with pytest.raises(trunkline.ArgumentTypeError, match=r"^thought_ends\[1\] is None; expected: an int"):
        trunkline.TreeOfThoughts(2, 2, 1, 2, len, thought_ends=[3, None])


def test_prompts():
    generator = generator_of(trunkline.BeamSearch(2, 4), max_tokens=18)
    for found, kind, text in (
        ({"input_ids": PROMPT}, trunkline.ArgumentTypeError, r"^prompt is of type dict; .* its \['input_ids'\]"),
        (UserDict(input_ids=PROMPT), trunkline.ArgumentTypeError, "^prompt is of type UserDict;"),  # as BatchEncoding
        (np.array([PROMPT]), trunkline.InvalidArgumentError, "^prompt has 2 dimensions; expected: 1"),
        ([PROMPT], trunkline.ArgumentTypeError, r"^prompt\[0\] is of type list; expected: an int"),
        (list(range(21)), trunkline.InvalidArgumentError, "^prompt has 21 tokens; expected: at most 20, which max_tok"),
    ):
        with pytest.raises(kind, match=text):
            generator.generate(found)
    assert len(generator.generate(np.array(PROMPT))) == 2


def test_a_controller_is_checked_when_it_is_exchanged():
    generator = generator_of(trunkline.BeamSearch(2, 4))
    generator.controller = "beams"
    with pytest.raises(trunkline.ArgumentTypeError, match="^controller is 'beams'; expected: a BranchController"):
        generator.generate(PROMPT)


def test_forks_are_into_continuations():
    class Forks(trunkline.BranchController):
        def decide(self, tree, leaves, logits, decisions):
            decisions.fork(0, [trunkline.Continuation(3), 4])

    with pytest.raises(trunkline.ArgumentTypeError, match=r"^continuations\[1\] is 4; expected: a Continuation"):
        generator_of(Forks()).generate(PROMPT)
