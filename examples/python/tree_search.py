"""A tree search: branches are forked, grown, scored, and all but the best are pruned.

    python examples/python/tree_search.py

TreeGenerator keeps one copy of what branches share, and reads it once. Needs numpy and trunkline; the model is a toy of
random weights. The logits of the branches that are kept are compared with those of whole sequences by plain attention.
"""

import numpy as np
import trunkline
from plain_attention import Savings, causal, plain_attention
from toy_model import ToyModel

PROMPT_TOKENS = 600
DEPTH = 4  # levels of the tree
CHILDREN = 4  # of each branch that is kept
KEPT = 4  # branches that survive a level
THOUGHT_TOKENS = 6  # that each branch grows in a level


class LevelSearch(trunkline.BranchController):
    """Sampled tokens. A branch's score is their log-probability."""

    def __init__(self, model):
        self.model = model
        self.savings = Savings(2 * 4 * model.kv_heads * model.head_dim, model.layers)
        self.random = np.random.default_rng(3)
        self.worst = 0.0  # difference of logits

    def run(self, session, root):
        self.attention = session.attention
        super().run(session, root)

    def decide(self, tree, leaves, logits, decisions):
        level, grown = divmod(tree.info(leaves[0]).end - self.prompt_tokens, THOUGHT_TOKENS)
        log_probabilities = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
        if len(leaves) > 1:  # a decode step, and not the prompt
            self.savings.add(self.attention.statistics, sum(tree.info(leaf).kv_len for leaf in leaves))
        going_on = list(range(len(leaves)))
        if grown == 0 and level > 0:
            going_on.sort(key=lambda leaf: -tree.info(leaves[leaf]).score)
            for leaf in going_on[KEPT:]:
                decisions.prune(leaf)
            going_on = going_on[:KEPT]
            self.report(level, tree, [leaves[leaf] for leaf in going_on], logits[going_on])
        for leaf in going_on:
            if level == DEPTH:
                decisions.finish(leaf)
                continue
            children = []
            for _ in range(1 if grown else CHILDREN):
                token = int(np.argmax(log_probabilities[leaf] + self.random.gumbel(size=logits.shape[1])))
                score = tree.info(leaves[leaf]).score + log_probabilities[leaf, token]
                children.append(trunkline.Continuation(token, score))
            decisions.fork(leaf, children)

    def report(self, level, tree, leaves, logits):
        scores = ", ".join(f"{tree.info(leaf).score:.0f}" for leaf in leaves)
        print(f"level {level}: {tree.pages_in_use} pages in use, log-probabilities {scores}")
        for leaf, row in zip(leaves, logits):
            self.worst = max(self.worst, np.abs(row - whole(self.model, tree.sequence(leaf))).max())


def whole(model, sequence):
    """Logits after the last token of a sequence, by plain attention over all of it."""

    def attention(layer, q, k, v):
        return plain_attention(q, k, v, causal(len(sequence), len(sequence))).astype(np.float32)

    return model.forward(np.array(sequence), None, attention, -1)


def main():
    model = ToyModel()
    search = LevelSearch(model)
    generator = trunkline.TreeGenerator(model, None, search, max_tokens=128 * 16)
    prompt = np.random.default_rng(3).integers(model.vocabulary, size=PROMPT_TOKENS)
    results = generator.generate(prompt)
    counts = generator.session.attention.live_counts
    print(f"{len(results)} results of {len(results[0].tokens)} tokens, the best of {results[0].score:.0f}")
    print(f"{counts['reused']} of {counts['steps']} steps reused their plan")
    print(search.savings)
    print(f"largest difference from plain attention: {search.worst:.1e}")


if __name__ == "__main__":
    main()
