"""Steps of random batches for the fuzzer of objects, in all forms that they may be given, and what they give."""

from __future__ import annotations

import numpy as np
import oracle
import trunkline

try:  # here, as an import that is interrupted leaves Python's own locks taken
    import torch
    from trunkline.integrations.flashinfer import BatchDecodeWithPagedKVCacheWrapper
except ImportError:
    torch = None

Q_HEADS, KV_HEADS, HEAD_DIM, PAGE, PAGES = 4, 2, 64, 8, 64
SHAPE = (Q_HEADS, KV_HEADS, HEAD_DIM, PAGE)
HAS_TORCH = torch is not None

_random = np.random.default_rng(0)
K, V = _random.standard_normal((2, PAGES, PAGE, KV_HEADS, HEAD_DIM)).astype(np.float32)


class Case:
    """A step: rows of page ids that share beginnings, lengths, q, and what plain attention gives."""

    k, v = K, V

    def __init__(self, rows, lengths, q):
        self.rows, self.lengths, self.q = rows, np.array(lengths, np.int32), q
        self.expected = oracle.attention(q, K, V, rows, lengths)[0]
        width = max(map(len, rows))
        self.table = np.array([[*pages, *[-1] * (width - len(pages))] for pages in rows], np.int32)
        self.indptr = np.cumsum([0, *map(len, rows)]).astype(np.int32)
        self.indices = np.array([page for pages in rows for page in pages], np.int32)
        self.last = ((self.lengths - 1) % PAGE + 1).astype(np.int32)

    def plan(self, attention, choose):
        pages = choose.choice([None, PAGES])
        how = choose.randrange(4)
        if how == 0:
            attention.plan_csr(self.indptr, self.indices, self.last, num_pages=pages)
        elif how == 1:
            attention.plan(self.table.tolist(), self.lengths.tolist(), num_pages=pages, check_ids=True)
        else:
            attention.plan(self.table.astype(choose.choice([np.int32, np.int64])), self.lengths, num_pages=pages)

    def run(self, attention, choose):
        out = np.full_like(self.q, np.nan) if choose.random() < 0.5 else None
        kv = (K, V) if choose.random() < 0.5 else PACKED
        return attention.run(self.q, kv, out=out)

    def simple(self, choose):
        lists = choose.random() < 0.2
        table, lengths = (self.table.tolist(), self.lengths.tolist()) if lists else (self.table, self.lengths)
        return trunkline.decode_attention(self.q, K, V, table, lengths)

    def by_wrapper(self, own):
        if "wrapper" not in own:
            own["wrapper"] = BatchDecodeWithPagedKVCacheWrapper(torch.empty(1 << 22, dtype=torch.uint8))
        tables = [torch.from_numpy(array) for array in (self.indptr, self.indices, self.last)]
        own["wrapper"].plan(*tables, *SHAPE, q_data_type=torch.float32)
        return own["wrapper"].run(torch.from_numpy(self.q), (torch.from_numpy(K), torch.from_numpy(V))).numpy()


PACKED = np.stack([K, V], axis=1)


def cases(seed, count):
    """Cases of one to eight rows. A row begins with the first pages of an earlier row; private pages follow."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        rows, lengths = [], []
        for _ in range(random.integers(1, 9)):
            shared = []
            if rows and random.random() < 0.7:
                of = rows[random.integers(len(rows))]
                shared = of[: random.integers(len(of) + 1)]
            pages = [*shared, *random.integers(0, PAGES, random.integers(1, 6)).tolist()]
            rows.append(pages)
            lengths.append(len(pages) * PAGE - int(random.integers(PAGE)))
        made.append(Case(rows, lengths, random.standard_normal((len(rows), Q_HEADS, HEAD_DIM)).astype(np.float32)))
    return made


def error_of(out, case):
    """Largest, NaN for shapes that differ and for values that were not written."""
    out = np.asarray(out)
    return float(np.abs(out - case.expected).max()) if out.shape == case.expected.shape else float("nan")


def is_of_a_plan(out, q, cases):
    """Whether it is attention of q over the tables of one of these."""
    plans = [case for case in cases if len(case.rows) == len(q)]
    return any(np.abs(out - oracle.attention(q, K, V, case.rows, case.lengths)[0]).max() < 1e-4 for case in plans)


class LiveSteps:
    """A live batch beside lists of what it is to hold."""

    def __init__(self, seed, ahead):
        self.random = np.random.default_rng(seed)
        self.live = trunkline.LiveBatch(page_size=PAGE, num_pages=PAGES)
        self.ahead = ahead
        self.out = None

    def rows(self):
        """Pages and lengths that the library holds: an interrupt may come before or after an event, so the test keeps
        no list."""
        found = [self.live.info(self.live.request_at(row)) for row in range(len(self.live))]
        return [info.pages for info in found], [info.kv_len for info in found]

    def step(self, attention):
        """Some events, a plan and a run. The case that was run; its outputs are in `out`."""
        for _ in range(self.random.integers(0, 3)):
            self.event()
        if len(self.live) == 0:
            self.join()
        rows, lengths = self.rows()
        if self.ahead and self.random.random() < 0.5:
            attention.submit(self.live)
            attention.ready()
        attention.plan_live(self.live)
        q = self.random.standard_normal((len(rows), Q_HEADS, HEAD_DIM)).astype(np.float32)
        self.out = attention.run(q, (K, V))
        return Case(rows, lengths, q)

    def join(self):
        length = int(self.random.integers(1, 40))
        self.live.join(length, self.random.integers(0, PAGES, -(-length // PAGE)).tolist())

    def event(self):
        count, kind = len(self.live), self.random.integers(5)
        if kind == 0 and count < 8:
            self.join()
        elif count == 0:
            return
        elif kind == 1 and count < 8:
            self.live.fork(self.live.request_at(int(self.random.integers(count))))
        elif kind == 2:
            self.live.leave(self.live.request_at(int(self.random.integers(count))))
        elif kind == 3:
            self.live.reorder(self.random.permutation(count).astype(np.int32))
        else:
            self.advance()

    def advance(self):
        """A token for each row, and a page of its own where that begins one."""
        rows, lengths = self.rows()
        if max(lengths) > 6 * PAGE:
            self.live.leave(self.live.request_at(int(np.argmax(lengths))))
            return
        new = {
            row: [int(self.random.integers(PAGES))]
            for row, (pages, length) in enumerate(zip(rows, lengths))
            if length + 1 > len(pages) * PAGE
        }
        self.live.advance(np.array(lengths, np.int32) + 1, new)


def forest_is_right(choose):
    parents, lengths = [-1], [choose.randint(1, 50)]
    for node in range(1, choose.randint(2, 12)):
        parents.append(choose.randrange(node))
        lengths.append(choose.randint(1, 50))
    leaves = [node for node in range(len(parents)) if node not in parents]
    with_closing = trunkline.Forest.from_tree(parents, lengths, leaves)
    right = with_closing.distinct_tokens == sum(lengths) and with_closing.rows == len(leaves)
    with_closing.close()
    return right


def error_of_merge(choose):
    random = np.random.default_rng(choose.randrange(2**30))
    states = random.standard_normal((6, 2, 64)).astype(np.float32)
    lse = random.standard_normal((6, 2)).astype(np.float32)
    begin = [0, *sorted(choose.randint(0, 6) for _ in range(2)), 6]
    out, _ = trunkline.merge_states(states, lse, begin)
    worst = 0.0
    for row, (first, last) in enumerate(zip(begin, begin[1:])):
        weights = np.exp(lse[first:last].astype(np.float64))
        expected = (weights[..., None] * states[first:last]).sum(0) / np.maximum(weights.sum(0), 1e-30)[..., None]
        worst = max(worst, float(np.abs(out[row] - expected).max()))
    return worst
