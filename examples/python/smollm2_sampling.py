"""A real small model: 16 samples of one prompt by SmolLM2-135M, every attention by Trunkline, in fp32.

    python examples/python/smollm2_sampling.py

smollm2_model.py says what it needs beside numpy and trunkline. The log-probabilities of the samples' tokens are
compared with those of plain attention along the same texts; it fails where they differ by 1e-4.
"""

import numpy as np
import trunkline
from kv_cache import KVCache, page_table
from plain_attention import Savings, causal, plain_attention
from smollm2_model import SmolLM2

PAGE_SIZE = 16
SAMPLES = 16
STEPS = 16
TEMPERATURE = 0.7
TOLERANCE = 1e-4
QUESTION = """Here is how a language model serves many users at once. The model reads a prompt, and keeps a key
and a value of each token in a cache. Then it writes an answer token by token, and for each it reads
the whole cache again. When several answers to one prompt are wanted, their caches begin alike: the
prompt is the same for all of them. A program that knows this reads the common part once for all
answers, and only the parts that differ one by one. Reading memory is what takes the time, so this
is faster, and the answers stay the same. Explain to a child, with an example from a school, why
this is faster."""


def log_probabilities(logits):
    most = logits.max(axis=-1, keepdims=True)
    return logits - most - np.log(np.exp(logits - most).sum(axis=-1, keepdims=True))


def sampled(model, prompt, random):
    """Texts [SAMPLES, STEPS], the log-probabilities [SAMPLES, STEPS, vocabulary] that they are drawn from, savings."""
    cache = KVCache(model.layers, 128, PAGE_SIZE, model.kv_heads, model.head_dim)
    attention = trunkline.DecodeAttention(model.q_heads, model.kv_heads, model.head_dim, PAGE_SIZE, dtype="float32")
    savings = Savings(cache.bytes_per_token, model.layers)

    def step(tokens, positions, slots):
        def attend(layer, q, k, v):
            cache.write(layer, slots, k, v)
            return attention.run(q, cache.layers[layer])

        return log_probabilities(model.logits(tokens, positions, attend))

    # The prompt is one request of as many query tokens; the samples share all of its full pages.
    pages = cache.take(-(-len(prompt) // PAGE_SIZE))
    attention.plan([pages], [len(prompt)], query_start_loc=[0, len(prompt)], num_pages=cache.pages)
    after = step(prompt, np.arange(len(prompt)), cache.slots(pages, range(len(prompt))))[-1]
    rows = [pages] + [cache.share(pages) for _ in range(SAMPLES - 1)]
    if len(prompt) % PAGE_SIZE:
        rows = [[*row[:-1], cache.own_copy(row[-1])] for row in rows]

    found, texts = [np.tile(after, (SAMPLES, 1))], []
    for position in range(len(prompt), len(prompt) + STEPS):
        tokens = np.argmax(found[-1] / TEMPERATURE + random.gumbel(size=found[-1].shape), axis=-1)
        texts.append(tokens)
        if len(texts) == STEPS:
            break
        if position % PAGE_SIZE == 0:
            rows = [row + cache.take() for row in rows]
        attention.plan(page_table(rows), [position + 1] * SAMPLES, num_pages=cache.pages)
        savings.add(attention.statistics)
        slots = [cache.slots(row, range(position, position + 1))[0] for row in rows]
        found.append(step(tokens, np.full(SAMPLES, position), slots))
    return np.stack(texts, axis=1), np.stack(found, axis=1), savings


def by_plain_attention(model, prompt, texts):
    """Log-probabilities [SAMPLES, STEPS, vocabulary] along the texts; no cache pages, no plans."""
    kept = []

    def attend_prompt(layer, q, k, v):
        kept.append((k, v))
        return plain_attention(q, k, v, causal(len(k), len(q))).astype(np.float32)

    def attend_texts(layer, q, k, v):
        outputs = []
        for text in range(SAMPLES):
            own = slice(text * (STEPS - 1), (text + 1) * (STEPS - 1))
            keys, values = (np.concatenate([old, new[own]]) for old, new in zip(kept[layer], (k, v)))
            outputs.append(plain_attention(q[own], keys, values, causal(len(keys), STEPS - 1)))
        return np.concatenate(outputs).astype(np.float32)

    first = model.logits(prompt, np.arange(len(prompt)), attend_prompt)[-1]
    positions = np.tile(np.arange(len(prompt), len(prompt) + STEPS - 1), SAMPLES)
    others = model.logits(texts[:, :-1].reshape(-1), positions, attend_texts).reshape(SAMPLES, STEPS - 1, -1)
    firsts = np.broadcast_to(first, (SAMPLES, 1, len(first)))
    return log_probabilities(np.concatenate([firsts, others], axis=1))


def main():
    model = SmolLM2()
    prompt = model.encode_chat(QUESTION)
    texts, found, savings = sampled(model, prompt, np.random.default_rng(5))
    right = by_plain_attention(model, prompt, texts)
    difference = np.abs(found - right)
    worst = float(np.take_along_axis(difference, texts[..., None], axis=2).max())
    for text in texts[:4]:
        print("-", model.tokenizer.decode(text.tolist()).replace("\n", " "))
    print(f"{SAMPLES} samples of {STEPS} tokens, a prompt of {len(prompt)}")
    print(savings)
    print(
        f"log-probabilities differ from plain attention's by {worst:.1e} at most; of any token, {difference.max():.1e}"
    )
    if not worst < TOLERANCE:
        raise SystemExit(f"that is more than {TOLERANCE}")


if __name__ == "__main__":
    main()
