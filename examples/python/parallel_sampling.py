"""Parallel sampling: 16 answers to one prompt, decoded as one batch whose requests share the prompt's pages.

    python examples/python/parallel_sampling.py

Needs numpy and trunkline; the model is a toy of random weights. Every attention is compared with plain attention.
"""

import numpy as np
import trunkline
from kv_cache import KVCache, page_table
from plain_attention import Check, Savings
from toy_model import ToyModel

PAGE_SIZE = 16
PROMPT_TOKENS = 1000  # 62 pages and a half: the last one is copied for each sample that writes to it
SAMPLES = 16
STEPS = 16


def prefill(model, cache, attention, prompt, check):
    """The prompt's pages, and the logits after it: one request with as many query tokens as the prompt has."""
    pages = cache.take(-(-len(prompt) // PAGE_SIZE))
    attention.plan([pages], [len(prompt)], query_start_loc=[0, len(prompt)], num_pages=cache.pages)

    def attend(q, kv):
        out = attention.run(q, kv)
        check(out, q, kv, [pages], [len(prompt)], [len(prompt)])
        return out

    slots = cache.slots(pages, range(len(prompt)))
    return pages, model.step(prompt, slots, cache, attend)[-1]


def sample(logits, random):
    """One token a row, at temperature 0.8, by the Gumbel trick."""
    return np.argmax(logits / 0.8 + random.gumbel(size=logits.shape), axis=-1)


def main():
    model = ToyModel()
    cache = KVCache(model.layers, 256, PAGE_SIZE, model.kv_heads, model.head_dim)
    attention = trunkline.DecodeAttention(model.q_heads, model.kv_heads, model.head_dim, PAGE_SIZE, dtype="float32")
    random = np.random.default_rng(1)
    check, savings = Check(), Savings(cache.bytes_per_token, model.layers)

    prompt = random.integers(model.vocabulary, size=PROMPT_TOKENS)
    pages, logits = prefill(model, cache, attention, prompt, check)

    # All samples share the full pages; each gets a copy of the last, half-full one, into which it will write.
    rows = [pages] + [cache.share(pages) for _ in range(SAMPLES - 1)]
    if PROMPT_TOKENS % PAGE_SIZE:
        rows = [[*row[:-1], cache.own_copy(row[-1])] for row in rows]
    tokens = sample(np.tile(logits, (SAMPLES, 1)), random)
    texts = [[token] for token in tokens]

    for step in range(STEPS):
        kv_len = PROMPT_TOKENS + step + 1  # with the token whose keys and values this step writes
        if (kv_len - 1) % PAGE_SIZE == 0:
            rows = [row + cache.take() for row in rows]
        kv_lens = np.full(SAMPLES, kv_len, np.int32)
        attention.plan(page_table(rows), kv_lens, num_pages=cache.pages)  # once a step
        savings.add(attention.statistics)

        def attend(q, kv, rows=rows, kv_lens=kv_lens):
            out = attention.run(q, kv)  # once a layer
            check(out, q, kv, rows, kv_lens)
            return out

        slots = [cache.slots(row, range(kv_len - 1, kv_len))[0] for row in rows]
        tokens = sample(model.step(tokens, slots, cache, attend), random)
        for text, token in zip(texts, tokens):
            text.append(token)

    different = len({tuple(text) for text in texts})
    print(f"{SAMPLES} samples of a prompt of {PROMPT_TOKENS} tokens, {different} different; {cache.pages_in_use} pages")
    print(savings)
    print(f"largest difference from plain attention: {check.worst:.1e}")


if __name__ == "__main__":
    main()
