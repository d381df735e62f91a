"""A tree search on a paged pool: branches are forked, grown, scored, and all but the best are pruned.

    python examples/python/tree_search.py

A LiveBatch follows the branches by events, and a plan is kept while it is good. Needs numpy and trunkline; the model is
a toy of random weights. Every attention is compared with plain attention.
"""

from dataclasses import dataclass

import numpy as np
import trunkline
from kv_cache import KVCache
from plain_attention import Check, Savings
from toy_model import ToyModel

PAGE_SIZE = 16
PROMPT_TOKENS = 600
DEPTH = 4  # levels of the tree
CHILDREN = 4  # of each branch that is kept
KEPT = 4  # branches that survive a level
THOUGHT_TOKENS = 6  # that each branch grows in a level


@dataclass
class Branch:
    """A row of the batch: the path from the root to a leaf."""

    request: trunkline.Request
    pages: list[int]
    kv_len: int
    logits: np.ndarray  # after its last token
    score: float = 0.0  # log-probability of its tokens


class Search:
    def __init__(self):
        self.model = ToyModel()
        self.cache = KVCache(self.model.layers, 128, PAGE_SIZE, self.model.kv_heads, self.model.head_dim)
        self.attention = trunkline.DecodeAttention(
            self.model.q_heads, self.model.kv_heads, self.model.head_dim, PAGE_SIZE, dtype="float32"
        )
        self.live = trunkline.LiveBatch(page_size=PAGE_SIZE, num_pages=self.cache.pages)
        self.branches: list[Branch] = []  # in the order of the batch's rows
        self.check = Check()
        self.savings = Savings(self.cache.bytes_per_token, self.model.layers)
        self.random = np.random.default_rng(3)

    def begin(self, prompt):
        """The root: the prompt as one request, its tokens as one chunk of queries."""
        pages = self.cache.take(-(-len(prompt) // PAGE_SIZE))
        request = self.live.join(len(prompt), pages, queries=len(prompt))
        self.attention.plan_live(self.live)
        slots = self.cache.slots(pages, range(len(prompt)))
        logits = self.step(prompt, slots, [pages], [len(prompt)], [len(prompt)])
        self.live.set_queries(request, 1)
        self.branches.append(Branch(request, pages, len(prompt), logits[-1]))

    def fork(self):
        """Each branch becomes CHILDREN of them, which share all that it has."""
        for parent in list(self.branches):
            for _ in range(CHILDREN - 1):
                child = self.live.fork(parent.request)
                pages = self.cache.share(parent.pages)
                self.branches.append(Branch(child, pages, parent.kv_len, parent.logits, parent.score))

    def prune(self):
        """The KEPT best stay; pages that no other branch uses go back to the pool."""
        best = sorted(self.branches, key=lambda branch: -branch.score)[:KEPT]
        kept = {branch.request for branch in best}
        for branch in self.branches:
            if branch.request not in kept:
                self.live.leave(branch.request)
                self.cache.release(branch.pages)
        self.branches = [branch for branch in self.branches if branch.request in kept]

    def grow(self):
        """A token more for every branch: sampled, written to its own page, attended to."""
        tokens, slots, new_pages = [], [], {}
        for row, branch in enumerate(self.branches):
            log_probabilities = branch.logits - np.logaddexp.reduce(branch.logits)
            token = int(np.argmax(log_probabilities + self.random.gumbel(size=len(log_probabilities))))
            branch.score += float(log_probabilities[token])
            tokens.append(token)
            slots += self.cache.slots(self.writable(row, branch, new_pages), range(branch.kv_len, branch.kv_len + 1))
            branch.kv_len += 1
        kv_lens = [branch.kv_len for branch in self.branches]
        self.live.advance(kv_lens, new_pages)
        self.attention.plan_live(self.live)
        self.savings.add(self.attention.statistics, sum(kv_lens))
        rows = [branch.pages for branch in self.branches]
        for branch, logits in zip(self.branches, self.step(np.array(tokens), slots, rows, kv_lens)):
            branch.logits = logits

    def step(self, tokens, slots, rows, kv_lens, queries=None):
        def attend(q, kv):
            out = self.attention.run(q, kv)
            self.check(out, q, kv, rows, kv_lens, queries)
            return out

        return self.model.step(tokens, slots, self.cache, attend)

    def writable(self, row, branch, new_pages):
        """The branch's pages, once the one that the next token goes to is its own: new, or a copy of a shared one."""
        index = branch.kv_len // PAGE_SIZE
        if index == len(branch.pages):
            new_pages[row] = self.cache.take()
            branch.pages += new_pages[row]
        elif self.cache.users[branch.pages[index]] > 1:
            branch.pages[index] = self.cache.own_copy(branch.pages[index])
            self.live.replace_page(branch.request, index, branch.pages[index])
        return branch.pages


def main():
    search = Search()
    search.begin(search.random.integers(search.model.vocabulary, size=PROMPT_TOKENS))
    for level in range(DEPTH):
        search.fork()
        for _ in range(THOUGHT_TOKENS):
            search.grow()
        search.prune()
        scores = ", ".join(f"{branch.score:.0f}" for branch in search.branches)
        print(f"level {level + 1}: {search.cache.pages_in_use} pages in use, log-probabilities {scores}")
    counts = search.attention.live_counts
    print(f"{counts['reused']} of {counts['steps']} steps reused their plan")
    print(search.savings)
    print(f"largest difference from plain attention: {search.check.worst:.1e}")


if __name__ == "__main__":
    main()
