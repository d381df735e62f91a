"""Speculative decoding with token trees: a draft model proposes a tree of tokens, one step verifies all of them.

    python examples/python/speculative_tree.py

Four chats share a system prompt; each brings a tree of 7 query tokens a step. Needs numpy and trunkline; the model is a
toy of random weights. Every attention is compared with plain attention, and the text with greedy decoding.
"""

import numpy as np
import trunkline
from kv_cache import KVCache, page_table
from plain_attention import Check, Savings, causal, plain_attention
from toy_model import ToyModel

PAGE_SIZE = 16
SYSTEM_TOKENS = 320
CHATS = 4
NEW_TOKENS = 24
BRANCHING = (2, 1, 1)  # children of each token of a level: 1 + 2 + 2 + 2 tokens


def draft(model, root):
    """A tree below the token `root`: its tokens, and the index of each one's parent, -1 for the root's."""
    tokens, parents, level = [root], [-1], [0]
    for children in BRANCHING:
        guesses = np.argsort(-model.guess(np.array([tokens[parent] for parent in level])), axis=1)[:, :children]
        begin = len(tokens)
        for parent, found in zip(level, guesses):
            tokens += found.tolist()
            parents += [parent] * children
        level = range(begin, len(tokens))
    return tokens, parents


def accepted(tokens, parents, chosen):
    """The path from the root along which each token is the one that the model chose after its parent."""
    path = [0]
    while True:
        children = [node for node, parent in enumerate(parents) if parent == path[-1]]
        right = [node for node in children if tokens[node] == chosen[path[-1]]]
        if not right:
            return path
        path.append(right[0])


def greedy(model, prompt, count):
    """The right text: one token at a time, with plain attention."""
    cache = KVCache(model.layers, 40, PAGE_SIZE, model.kv_heads, model.head_dim)
    pages, text, fed, tokens = cache.take(40), [], 0, prompt
    while len(text) < count:
        kv_len = fed + len(tokens)

        def attend(q, kv, kv_len=kv_len):
            keys, values = (part[pages].reshape(-1, *part.shape[2:])[:kv_len] for part in kv)
            return plain_attention(q, keys, values, causal(kv_len, len(q))).astype(np.float32)

        logits = model.step(tokens, cache.slots(pages, range(fed, kv_len)), cache, attend)
        fed, tokens = kv_len, logits[-1:].argmax(axis=1)
        text.append(int(tokens[0]))
    return text


def main():
    model = ToyModel()
    cache = KVCache(model.layers, 128, PAGE_SIZE, model.kv_heads, model.head_dim)
    # "auto" would share on some machines and not on others, whose caches hold all that so few short chats have.
    attention = trunkline.DecodeAttention(
        model.q_heads, model.kv_heads, model.head_dim, PAGE_SIZE, dtype="float32", policy="trunk"
    )
    check, savings = Check(), Savings(cache.bytes_per_token, model.layers)
    random = np.random.default_rng(4)
    system = random.integers(model.vocabulary, size=SYSTEM_TOKENS)
    prompts = [random.integers(model.vocabulary, size=random.integers(20, 60)) for _ in range(CHATS)]
    rows, kv_lens = [], [0] * CHATS  # tokens in the cache that stay there

    def step(trees, parents=None):
        """One step of all chats; trees: query tokens of each. Returns the model's choices after each token, by chat."""
        counts, slots = [len(tree) for tree in trees], []
        ends = [kv_len + count for kv_len, count in zip(kv_lens, counts)]
        for pages, kv_len, end in zip(rows, kv_lens, ends):
            pages += cache.take(max(0, -(-end // PAGE_SIZE) - len(pages)))
            slots += cache.slots(pages, range(kv_len, end))
        starts = np.cumsum([0, *counts])
        flat_parents = None if parents is None else np.concatenate(parents)
        attention.plan(
            page_table(rows), ends, query_start_loc=starts, query_parents=flat_parents, num_pages=cache.pages
        )

        def attend(q, kv):
            out = attention.run(q, kv)
            check(out, q, kv, rows, ends, counts, parents)
            return out

        chosen = model.step(np.concatenate(trees), slots, cache, attend).argmax(axis=1)
        return np.split(chosen, starts[1:-1])

    # The system prompt once, then the chats' own prompts on top of its pages.
    rows.append([])
    kv_lens[:] = [0]
    step([system])
    rows += [cache.share(rows[0]) for _ in range(CHATS - 1)]
    kv_lens[:] = [SYSTEM_TOKENS] * CHATS
    texts = [[int(chosen[-1])] for chosen in step(prompts)]
    kv_lens[:] = [SYSTEM_TOKENS + len(prompt) for prompt in prompts]

    single = verified = 0
    while min(map(len, texts)) < NEW_TOKENS:
        trees, parents = zip(*(draft(model, text[-1]) for text in texts))
        chosen = step(trees, parents)
        savings.add(attention.statistics)
        single += sum(
            causal(kv_len + len(tree), len(tree), up).sum() for kv_len, tree, up in zip(kv_lens, trees, parents)
        )
        for chat, text in enumerate(texts):
            path = accepted(trees[chat], parents[chat], chosen[chat])
            text += [int(chosen[chat][node]) for node in path]
            # What was accepted stays, moved to its place behind the past; the rest is written over.
            places = cache.slots(rows[chat], [kv_lens[chat] + node for node in path])
            kept = cache.slots(rows[chat], range(kv_lens[chat], kv_lens[chat] + len(path)))
            cache.copy(np.stack([places, kept], axis=1))
            kv_lens[chat] += len(path)
            verified += len(path)

    for prompt, text in zip(prompts, texts):
        if text[:NEW_TOKENS] != greedy(model, np.concatenate([system, prompt]), NEW_TOKENS):
            raise SystemExit("the text differs from greedy decoding")
    print(f"{CHATS} chats, {verified / savings.steps / CHATS:.1f} tokens a step and chat; text as by greedy decoding")
    print(savings)
    print(f"each draft token as a request of its own: {single * cache.bytes_per_token * model.layers / 1e6:.1f} MB")
    print(f"largest difference from plain attention: {check.worst:.1e}")


if __name__ == "__main__":
    main()
