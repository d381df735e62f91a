"""Many questions on one document: each question is read in one chunk, then all answers are decoded as one batch.

    python examples/python/document_questions.py

Page tables go in FlashInfer's form (indptr, indices, last_page_len). Needs numpy and trunkline; the model is a toy of
random weights. Every attention is compared with plain attention.
"""

import numpy as np
import trunkline
from kv_cache import KVCache
from plain_attention import Check, Savings
from toy_model import ToyModel

PAGE_SIZE = 16
DOCUMENT_TOKENS = 2000  # whole pages, which is what caches of prefixes share
QUESTIONS = 16
ANSWER_TOKENS = 6


class Decoder:
    """A model, its cache, and one step for any number of query tokens a request."""

    def __init__(self):
        self.model = ToyModel()
        self.cache = KVCache(self.model.layers, 256, PAGE_SIZE, self.model.kv_heads, self.model.head_dim)
        self.attention = trunkline.DecodeAttention(
            self.model.q_heads, self.model.kv_heads, self.model.head_dim, PAGE_SIZE, dtype="float32"
        )
        self.check = Check()

    def step(self, new_tokens, rows, kv_lens):
        """new_tokens: of each request; rows: its pages, kv_lens: its tokens in the cache, both brought up to date here.
        Returns the logits after the last token of each request."""
        counts = [len(tokens) for tokens in new_tokens]
        slots = []
        for row, (pages, count) in enumerate(zip(rows, counts)):
            before, kv_lens[row] = kv_lens[row], kv_lens[row] + count
            pages += self.cache.take(-(-kv_lens[row] // PAGE_SIZE) - len(pages))
            slots += self.cache.slots(pages, range(before, kv_lens[row]))

        indptr = np.cumsum([0, *map(len, rows)])
        indices = np.concatenate(rows)
        last_page_len = (np.array(kv_lens) - 1) % PAGE_SIZE + 1
        query_start = np.cumsum([0, *counts])
        self.attention.plan_csr(indptr, indices, last_page_len, query_start_loc=query_start, num_pages=self.cache.pages)

        def attend(q, kv):
            out = self.attention.run(q, kv)
            self.check(out, q, kv, rows, kv_lens, counts)
            return out

        return self.model.step(np.concatenate(new_tokens), slots, self.cache, attend)[query_start[1:] - 1]


def main():
    decoder = Decoder()
    cache = decoder.cache
    random = np.random.default_rng(2)
    document = random.integers(decoder.model.vocabulary, size=DOCUMENT_TOKENS)
    questions = [random.integers(decoder.model.vocabulary, size=random.integers(5, 40)) for _ in range(QUESTIONS)]

    # The document once, in chunks of 500 tokens.
    document_pages, document_len = [[]], [0]
    for begin in range(0, DOCUMENT_TOKENS, 500):
        decoder.step([document[begin : begin + 500]], document_pages, document_len)

    # All questions at once, each of its own length: their queries meet the document together.
    rows = [cache.share(document_pages[0]) for _ in questions]
    kv_lens = [DOCUMENT_TOKENS] * QUESTIONS
    logits = decoder.step(questions, rows, kv_lens)
    policy = decoder.attention.current.info["policy"]

    answering = Savings(cache.bytes_per_token, decoder.model.layers)
    answers = [[] for _ in questions]
    for _ in range(ANSWER_TOKENS):
        tokens = logits.argmax(axis=1)
        for answer, token in zip(answers, tokens):
            answer.append(int(token))
        logits = decoder.step(tokens[:, None], rows, kv_lens)
        answering.add(decoder.attention.statistics)

    asked = sum(map(len, questions))
    print(f"{QUESTIONS} questions, {asked} tokens, on a document of {DOCUMENT_TOKENS}; {cache.pages_in_use} pages")
    # With so many query tokens a request, multiplications are the limit and not reads: there is nothing to share for.
    print(f"questions: `auto` takes the policy {policy}")
    print(f"answers: {answering}")
    print(f"largest difference from plain attention: {decoder.check.worst:.1e}")


if __name__ == "__main__":
    main()
