"""Controllers beside plain implementations that keep whole sequences; failures leak nothing."""

import collections
import itertools
import os

import numpy as np
import pytest
import trunkline
from tree_model import ToyTreeModel

PROMPT = [5, 1, 7, 7, 2]


def log_probabilities(logits):
    logits = logits.astype(np.float64)
    return logits - np.logaddexp.reduce(logits)


def generator_of(model, controller, **options):
    return trunkline.TreeGenerator(model, None, controller, **({"max_tokens": 1000, "page_size": 4} | options))


def no_branch_is_left(generator):
    return generator.session.tree.pages_in_use == 0


def plain_greedy(model, count, end=None):
    tokens = []
    for _ in range(count):
        tokens.append(int(model.after(PROMPT + tokens).argmax()))
        if tokens[-1] == end:
            break
    return tokens


def plain_beams(model, beams, count, end):
    running, results = [([], 0.0)], []
    for length in range(1, count + 1):
        grown = []
        for tokens, score in running:
            scores = log_probabilities(model.after(PROMPT + tokens))
            grown += [([*tokens, token], score + scores[token]) for token in range(model.vocabulary)]
        grown = sorted(grown, key=lambda beam: -beam[1])[: 2 * beams]
        over = [beam[0][-1] == end or length == count for beam in grown]
        results += [(beam[0], beam[1] / length) for beam, ends in zip(grown[:beams], over) if ends]
        results = sorted(results, key=lambda beam: -beam[1])[:beams]
        running = [beam for beam, ends in zip(grown, over) if not ends][:beams]
        if len(results) == beams and running and running[0][1] / length <= results[-1][1]:
            break
    return results


@pytest.mark.parametrize("seed", range(4))
def test_beam_search(seed):
    model = ToyTreeModel(vocabulary=12, seed=seed)
    generator = generator_of(model, trunkline.BeamSearch(3, 8, end_tokens=4))
    expected = plain_beams(model, 3, 8, 4)
    for _ in range(2):  # the second time with the prompt's pages from the cache
        found = generator.generate(PROMPT)
        assert [result.tokens for result in found] == [tokens for tokens, _ in expected]
        np.testing.assert_allclose([result.score for result in found], [score for _, score in expected], atol=1e-4)
        assert no_branch_is_left(generator)


def test_greedy_samples_are_greedy_decoding():
    model = ToyTreeModel()
    sampler = trunkline.TokenSampler(temperature=0)
    found = generator_of(model, trunkline.Samples(3, 10, sampler=sampler)).generate(PROMPT)
    assert [result.tokens for result in found] == [plain_greedy(model, 10)] * 3


def test_samples_have_their_log_probabilities():
    model = ToyTreeModel()
    generator = generator_of(model, trunkline.Samples(6, 7, end_tokens=[3, 4]))
    found = generator.generate(PROMPT)
    assert len(found) == 6
    assert [result.score for result in found] == sorted((result.score for result in found), reverse=True)
    for result in found:
        score = sum(
            log_probabilities(model.after(PROMPT + result.tokens[:i]))[token] for i, token in enumerate(result.tokens)
        )
        assert result.score == pytest.approx(score, abs=1e-3)
        assert len(result.tokens) == 7 or result.tokens[-1] in (3, 4)
    assert len({tuple(result.tokens) for result in found}) > 1
    assert no_branch_is_left(generator)


def test_token_sampler_draws_from_what_it_says():
    row = np.log(np.array([0.5, 0.25, 0.15, 0.1], np.float32))

    def shares(**options):
        sampler = trunkline.TokenSampler(seed=1, **options)
        counts = collections.Counter(token for token, _ in sampler.draw(row, 20000))
        return [counts[token] / 20000 for token in range(4)]

    assert shares() == pytest.approx([0.5, 0.25, 0.15, 0.1], abs=0.015)
    assert shares(top_k=2) == pytest.approx([2 / 3, 1 / 3, 0, 0], abs=0.015)
    assert shares(top_p=0.8) == pytest.approx([5 / 9, 2.5 / 9, 1.5 / 9, 0], abs=0.015)
    assert shares(temperature=0.5)[0] == pytest.approx(0.25 / 0.345, abs=0.015)
    assert shares(temperature=0) == [1, 0, 0, 0]
    different = trunkline.TokenSampler().draw(row, 9, replace=False)
    assert sorted(token for token, _ in different) == [0, 1, 2, 3]
    assert dict(different)[0] == pytest.approx(np.log(0.5), abs=1e-6)


def test_token_sampler_is_that_of_a_full_sort():
    """Of a vocabulary that is larger than what it looks at first, with ties; as softmax, sort and choice() have it."""
    row = np.random.default_rng(3).integers(-40, 40, 3000).astype(np.float32) / 16
    for options in ({}, {"temperature": 0.7}, {"top_k": 50}, {"top_p": 0.97}, {"top_p": 0.9, "top_k": 500}):
        scores = log_probabilities(row)
        probabilities = np.exp(log_probabilities(row / options.get("temperature", 1)))
        order = np.argsort(-probabilities, kind="stable")
        before = np.cumsum(probabilities[order]) - probabilities[order]
        kept = max(1, min(int((before < options.get("top_p", 1)).sum()), options.get("top_k", len(row))))
        probabilities[order[kept:]] = 0
        for count, replace in ((1, True), (64, True), (5, False)):
            random = np.random.default_rng(7)
            expected = random.choice(len(row), size=count, replace=replace, p=probabilities / probabilities.sum())
            found = trunkline.TokenSampler(seed=7, **options).draw(row, count, replace=replace)
            assert [token for token, _ in found] == expected.tolist()
            assert [score for _, score in found] == pytest.approx(scores[expected].tolist(), abs=1e-12)
    greedy = trunkline.TokenSampler(temperature=0)
    assert [token for token, _ in greedy.draw(row, 3, replace=False)] == np.argsort(-row, kind="stable")[:3].tolist()
    assert [token for token, _ in greedy.draw(row, 2)] == [int(row.argmax())] * 2


def test_token_sampler_refuses_what_has_no_softmax():
    for bad in (np.nan, np.inf):
        for options in ({}, {"top_k": 2}, {"top_p": 0.5}, {"temperature": 0}):
            with pytest.raises(trunkline.InvalidArgumentError, match="logits have NaN or inf"):
                trunkline.TokenSampler(**options).draw(np.array([0, bad, 1, 2], np.float32))
    masked = np.array([-np.inf, 0, -np.inf], np.float32)
    assert {token for token, _ in trunkline.TokenSampler(top_p=0.9).draw(masked, 20)} == {1}


def test_best_of_n_stops_early():
    model = ToyTreeModel()
    seen = []

    def score(tokens):
        seen.append(tuple(tokens))
        return float(len(tokens))

    def run(enough):
        seen.clear()
        controller = trunkline.BestOfN(8, 12, score, enough=enough, end_tokens=range(12))
        generator = generator_of(model, controller)
        found = generator.generate(PROMPT)
        assert no_branch_is_left(generator)
        return found, generator.session.counts["steps"]

    everything, steps = run(None)
    assert len(everything) == len(seen) == 8
    assert everything[0].score == max(map(len, seen))
    best, fewer = run(1)
    assert fewer < steps
    assert best[0].score >= 1
    assert len(best) < 8


def test_self_consistency_counts_answers():
    model = ToyTreeModel(vocabulary=8)
    sampler = trunkline.TokenSampler(temperature=1.5)
    controller = trunkline.SelfConsistency(12, 3, lambda tokens: tokens[-1] % 2, sampler=sampler)
    found = generator_of(model, controller).generate(PROMPT)
    assert sum(result.score for result in found) == pytest.approx(1)
    assert found[0].score >= found[-1].score
    assert {result.tokens[-1] % 2 for result in found} == {0, 1}
    one_answer = trunkline.SelfConsistency(12, 9, lambda tokens: "same", end_tokens=[0, 1, 2, 3], sampler=sampler)
    generator = generator_of(model, one_answer)
    assert generator.generate(PROMPT)[0].score < 1  # the others were given up
    assert no_branch_is_left(generator)


def test_tree_of_thoughts_keeps_the_best_of_each_level():
    model = ToyTreeModel()
    valued = []

    def value(tokens):
        valued.append(tuple(tokens))
        return float(sum(tokens))

    controller = trunkline.TreeOfThoughts(3, 4, 2, 3, value, sampler=trunkline.TokenSampler(seed=2))
    generator = generator_of(model, controller)
    found = generator.generate(PROMPT)
    assert [len(result.tokens) for result in found] == [9, 9]
    assert [result.score for result in found] == [sum(result.tokens) for result in found]
    levels = {size: [tokens for tokens in valued if len(tokens) == size] for size in (3, 6, 9)}
    assert [len(levels[size]) for size in (3, 6, 9)] == [4, 8, 8]
    for size in (3, 6):
        best = sorted(map(sum, levels[size]), reverse=True)[:2]
        kept = {tokens[:size] for tokens in levels[size + 3]}
        assert sorted(map(sum, kept), reverse=True) == best
    assert [result.score for result in found] == sorted(map(sum, levels[9]), reverse=True)[:2]
    assert no_branch_is_left(generator)


def test_thoughts_end_by_tokens():
    controller = trunkline.TreeOfThoughts(
        2, 3, 2, 6, lambda tokens: -len(tokens), thought_ends=range(15), end_tokens=29, sampler=trunkline.TokenSampler()
    )
    generator = generator_of(ToyTreeModel(), controller)
    found = generator.generate(PROMPT)
    for result in found:
        inner = [i for i, token in enumerate(result.tokens[:-1]) if token < 15]
        assert len(inner) <= 1
    assert no_branch_is_left(generator)


def test_monte_carlo_tree_search_finds_what_is_valued():
    model = ToyTreeModel(vocabulary=8)

    def value(tokens):
        return sum(token == 3 for token in tokens) / 6

    controller = trunkline.MonteCarloTreeSearch(
        40, 8, 1, value, max_new_tokens=6, exploration=0.3, sampler=trunkline.TokenSampler(temperature=2)
    )
    generator = generator_of(model, controller)
    found = generator.generate(PROMPT)
    tree = generator.session.tree
    assert max(value(result.tokens) for result in found) >= 4 / 6
    assert value(found[0].tokens) >= 3 / 6
    for result in found:
        assert result.score == pytest.approx(value(result.tokens))
    siblings = collections.defaultdict(list)
    for result in found:
        siblings[tree.info(result.node).parent].append(result.tokens[tree.info(result.node).begin - len(PROMPT)])
    assert all(len(set(tokens)) == len(tokens) for tokens in siblings.values())
    assert no_branch_is_left(generator)


def test_monte_carlo_tree_search_with_longer_steps():
    controller = trunkline.MonteCarloTreeSearch(12, 3, 4, lambda tokens: len(tokens) / 20, max_new_tokens=10)
    generator = generator_of(ToyTreeModel(), controller)
    found = generator.generate(PROMPT)
    assert {len(result.tokens) for result in found} <= {4, 8, 10}
    assert len(found) == len({tuple(result.tokens) for result in found})
    assert no_branch_is_left(generator)


@pytest.mark.parametrize("seed", range(3))
def test_speculation_is_greedy_decoding(seed):
    model = ToyTreeModel(vocabulary=9, seed=seed)
    right = plain_greedy(model, 30)
    random = np.random.default_rng(seed)

    def drafter(tokens):
        made = len(tokens) - len(PROMPT)
        chain = right[made : made + int(random.integers(0, 6))]
        chain = [token if random.random() < 0.8 else int(random.integers(9)) for token in chain]
        return [*chain, *chain[:1]], [*range(-1, len(chain) - 1), *[-1 for _ in chain[:1]]]

    controller = trunkline.SpeculativeDecoding(drafter, 30)
    generator = generator_of(model, controller)
    (found,) = generator.generate(PROMPT)
    assert found.tokens == right
    assert controller.steps < 30
    assert 0 < controller.accepted <= controller.drafted
    score = sum(log_probabilities(model.after(PROMPT + right[:i]))[token] for i, token in enumerate(right))
    assert found.score == pytest.approx(score, abs=1e-2)
    assert no_branch_is_left(generator)


def test_prompt_lookup():
    tokens, parents = trunkline.PromptLookup(ngram=2, count=3, chains=2)([1, 2, 3, 4, 1, 2, 5, 6, 1, 2])
    assert tokens == [5, 6, 1, 3, 4, 1]
    assert parents == [-1, 0, 1, -1, 3, 4]
    assert trunkline.PromptLookup()([1, 2, 3]) == ([], [])
    model = ToyTreeModel(vocabulary=4)
    controller = trunkline.SpeculativeDecoding(trunkline.PromptLookup(), 40)
    (found,) = generator_of(model, controller).generate([1])
    tokens = [1]
    for _ in range(40):
        tokens = [*tokens, int(model.after(tokens).argmax())]
    assert found.tokens == tokens[1:]
    assert controller.steps < 40


def test_sampled_speculation_has_the_targets_distribution():
    random = np.random.default_rng(0)
    logits = random.standard_normal((3, 4)).astype(np.float32)
    target = np.exp(log_probabilities(logits[0]))
    draft = np.array([0.4, 0.3, 0.2, 0.1], np.float32)
    sampler = trunkline.Sampler(seed=4)
    counts = np.zeros(4)
    for _ in range(8000):
        drawn = random.choice(4, size=2, replace=False, p=draft.astype(np.float64) / draft.sum(dtype=np.float64))
        verified = trunkline.verify_drafts(
            drawn.tolist(), [-1, -1], logits, sampler=sampler, probabilities=np.tile(draft, (3, 1))
        )
        counts[drawn[verified.accepted[0]] if verified.accepted else verified.next_token] += 1
    np.testing.assert_allclose(counts / 8000, target, atol=0.025)


class Failing(trunkline.BranchController):
    def __init__(self, steps):
        self.steps = steps

    def decide(self, tree, leaves, logits, decisions):
        self.steps -= 1
        if self.steps < 0:
            raise KeyError("the controller has failed")
        for i, row in enumerate(logits):
            best = row.argsort()[-2:]
            if len(leaves) < 8:
                decisions.fork(i, [trunkline.Continuation(int(token)) for token in best])
            else:
                decisions.go_on(i, int(best[0]))


@pytest.mark.parametrize("steps", range(6))
def test_a_failing_controller_leaks_nothing(steps):
    model = ToyTreeModel()
    generator = generator_of(model, Failing(steps))
    with pytest.raises(KeyError, match="the controller has failed"):
        generator.generate(PROMPT)
    assert no_branch_is_left(generator)
    assert generator.session.tree.leaves() == []
    model.fail_in = steps
    generator.controller = Failing(100)
    with pytest.raises(RuntimeError, match="the model has failed"):
        generator.generate(PROMPT)
    assert no_branch_is_left(generator)
    generator.controller = trunkline.BeamSearch(2, 4)
    assert [len(result.tokens) for result in generator.generate(PROMPT)] == [4, 4]


def test_a_full_pool_ends_the_search_and_leaks_nothing():
    generator = generator_of(ToyTreeModel(), trunkline.Samples(8, 30), max_tokens=48, cache_prompts=False)
    with pytest.raises(trunkline.InvalidArgumentError, match="appends need 8 pages; of the pool's"):
        generator.generate(PROMPT)
    assert no_branch_is_left(generator)
    assert generator.session.tree.leaves() == []
    generator.controller = trunkline.Samples(2, 4)
    assert [len(result.tokens) for result in generator.generate(PROMPT)] == [4, 4]


def test_a_failing_score_leaks_nothing():
    def score(tokens):
        raise KeyError("the score has failed")

    for controller in (
        trunkline.BestOfN(3, 4, score),
        trunkline.TreeOfThoughts(levels=2, thoughts=2, kept=1, thought_tokens=2, value=score),
        trunkline.MonteCarloTreeSearch(3, 2, 2, score, max_new_tokens=6),
    ):
        generator = generator_of(ToyTreeModel(), controller)
        with pytest.raises(KeyError, match="the score has failed"):
            generator.generate(PROMPT)
        assert no_branch_is_left(generator)


class AtRandom(trunkline.BranchController):
    "Forks, prunes, finishes, saves and wakes leaves at random; compares logits with those of whole sequences."

    def __init__(self, seed, steps):
        self.random = np.random.default_rng(seed)
        self.steps = steps

    def run(self, session, root):
        self.session, self.saved, self.count = session, [], 0
        super().run(session, root)
        for leaf in self.saved:
            session.tree.prune(leaf)

    def decide(self, tree, leaves, logits, decisions):
        self.count += 1
        model = self.session.model
        at = self.random.integers(len(leaves))
        np.testing.assert_allclose(logits[at], model.after(tree.sequence(leaves[at])), atol=3e-4)
        if self.count == self.steps:
            decisions.stop()
            return
        if self.saved and self.random.random() < 0.4:
            leaf = self.saved.pop(self.random.integers(len(self.saved)))
            self.session.restore(leaf)
            tree.append(leaf, self.random.integers(30, size=1))
            decisions.also(leaf)
        going_on = len(leaves)
        for i, leaf in enumerate(leaves):
            draw = self.random.random()
            if draw < 0.2 and going_on > 1:
                going_on -= 1
                (decisions.prune if draw < 0.1 else decisions.finish)(i)
            elif draw < 0.3 and going_on > 1:
                going_on -= 1
                self.session.save(leaf)
                self.saved.append(leaf)
            else:
                children = 1 if going_on > 5 else int(self.random.integers(1, 4))
                going_on += children - 1
                tokens = self.random.choice(30, size=children, replace=False)
                decisions.fork(i, [trunkline.Continuation(int(token)) for token in tokens])


def test_random_controllers_keep_sequences_apart():
    scale = float(os.environ.get("TRUNKLINE_TEST_SCALE", "1"))
    steps = 0
    for seed in range(max(1, int(60 * scale))):
        generator = generator_of(ToyTreeModel(), AtRandom(seed, 35), max_tokens=1600)
        generator.generate(PROMPT)
        steps += generator.controller.count
        assert no_branch_is_left(generator)
    assert steps >= 35 * max(1, int(60 * scale))


def test_a_controller_of_ones_own_waits_and_wakes():
    class InTurn(trunkline.BranchController):
        "Two branches, of which one waits while the other goes on."

        def decide(self, tree, leaves, logits, decisions):
            if tree.info(leaves[0]).end == self.prompt_tokens:
                first, self.waiting = tree.fork(leaves[0], 2)
                tree.append(first, [1])
                tree.append(self.waiting, [2])
                decisions.also(first)
                return
            if self.waiting:
                decisions.also(self.waiting)
                self.waiting = None
            for i, leaf in enumerate(leaves):
                if tree.info(leaf).end < self.prompt_tokens + 4:
                    decisions.go_on(i, 3)
                else:
                    decisions.finish(i)

    found = generator_of(ToyTreeModel(), InTurn()).generate(PROMPT)
    assert sorted(result.tokens for result in found) == [[1, 3, 3, 3], [2, 3, 3, 3]]


def test_refusals():
    with pytest.raises(trunkline.InvalidArgumentError, match="beams is 0"):
        trunkline.BeamSearch(0, 4)
    with pytest.raises(trunkline.InvalidArgumentError, match="early_stopping is True"):
        trunkline.BeamSearch(2, 4, early_stopping=True)
    with pytest.raises(trunkline.InvalidArgumentError, match="top_p is 2"):
        trunkline.TokenSampler(top_p=2)
    with pytest.raises(trunkline.InvalidArgumentError, match="logits has shape"):
        trunkline.verify_drafts([1], [-1], np.zeros((1, 4), np.float32))
    with pytest.raises(trunkline.ArgumentTypeError, match="controller is 3"):
        trunkline.TreeGenerator(ToyTreeModel(), None, 3)
    generator = generator_of(ToyTreeModel(), trunkline.BeamSearch(2, 4))
    with pytest.raises(trunkline.InvalidArgumentError, match="prompt is text, and there is no tokenizer"):
        generator.generate("text")
    with pytest.raises(trunkline.InvalidArgumentError, match="tokens is empty"):
        generator.generate([])

    class Wrong(trunkline.BranchController):
        def decide(self, tree, leaves, logits, decisions):
            decisions.go_on(7, 1)

    with pytest.raises(trunkline.InvalidArgumentError, match="is about leaf 7; the step had leaves 0 to 0"):
        generator_of(ToyTreeModel(), Wrong()).generate(PROMPT)


def test_all_controllers_run_in_a_pool_that_just_fits():
    controllers = [trunkline.BeamSearch(3, 6), trunkline.Samples(3, 6)]
    for controller, page_size in itertools.product(controllers, (1, 4)):
        generator = trunkline.TreeGenerator(
            ToyTreeModel(), None, controller, max_tokens=28, page_size=page_size, cache_prompts=True
        )
        for prompt in (PROMPT, [9, 9], PROMPT):
            assert len(generator.generate(prompt)) == 3
