"""A batch edited by events: random ones against a model in Python, with plans of every step run against the oracle."""

import numpy as np
import pytest
import trunkline
from hypothesis import given
from hypothesis import strategies as st
from oracle import attention as oracle

PAGE, PAGES = 4, 400
WORKERS = trunkline.Workers(2)


class Model:
    """A model of the events' effects: each request's pages and length."""

    def __init__(self, order):
        self.free = order
        self.requests = []

    def page(self):
        return self.free.pop()

    def grow(self):
        """A token for everyone: lengths and the new pages of each row."""
        added = {}
        for row, request in enumerate(self.requests):
            if request["length"] % PAGE == 0:
                added[row] = [self.page()]
                request["pages"] = request["pages"] + added[row]
            request["length"] += 1
        return [request["length"] for request in self.requests], added


def random_event(live, model, choose):
    kind = choose(["join", "join", "fork", "fork", "leave", "advance", "advance", "advance", "reorder", "truncate"])
    requests = model.requests
    if kind == "join" or not requests:
        length = choose(range(1, 20))
        pages = [model.page() for _ in range(-(-length // PAGE))]
        if requests and choose([True, False]):  # a prompt that begins like another's
            parent = choose(requests)
            shared = min(parent["length"], length) // PAGE
            pages[:shared] = parent["pages"][:shared]
        requests.append({"id": live.join(length, pages), "pages": pages, "length": length})
    elif kind == "fork":
        parent = choose(requests)
        child = {**parent, "id": live.fork(parent["id"]), "pages": list(parent["pages"])}
        if child["length"] % PAGE:  # copied before it is written
            child["pages"][-1] = model.page()
            live.replace_page(child["id"], len(child["pages"]) - 1, child["pages"][-1])
        requests.append(child)
    elif kind == "leave":
        leaver = requests.pop(choose(range(len(requests))))
        live.leave(leaver["id"])
        with pytest.raises(trunkline.StaleError):
            live.info(leaver["id"])
    elif kind == "advance":
        lengths, added = model.grow()
        live.advance(lengths, added or None)
    elif kind == "reorder":
        order = sorted(range(len(requests)), key=lambda row: (row * 7) % 5)
        live.reorder(order)
        model.requests = [requests[row] for row in order]
    else:
        request = choose(requests)
        least = max(live.info(request["id"]).shared_tokens, 1)
        length = choose(range(least, request["length"] + 1)) if least <= request["length"] else least
        live.truncate(request["id"], length)
        request["length"] = length
        request["pages"] = request["pages"][: -(-length // PAGE)]


@given(data=st.data(), asynchronous=st.booleans())
def test_random_events(data, asynchronous):
    random = np.random.default_rng(data.draw(st.integers(0, 2**16)))

    def choose(values):
        return values[int(random.integers(len(values)))]

    live = trunkline.LiveBatch(page_size=PAGE, num_pages=PAGES)
    model = Model(random.permutation(PAGES).tolist())
    attention = trunkline.DecodeAttention(
        4, 2, 64, PAGE, dtype="float32", workers=WORKERS, async_planning=asynchronous, edit_share=choose([0.0, 0.5])
    )
    k, v = random.standard_normal((2, PAGES, PAGE, 2, 64)).astype(np.float32)
    for _ in range(12):
        random_event(live, model, choose)
        if asynchronous and choose([True, False]):
            attention.submit(live)
        source = attention.plan_live(live)
        assert source in ("reused", "membership", "truncated", "growth", "edited", "flat")
        rows = [request["pages"] for request in model.requests]
        lengths = [request["length"] for request in model.requests]
        assert len(live) == len(rows)
        for row, request in enumerate(model.requests):
            info = live.info(request["id"])
            assert (info.row, info.kv_len, info.pages) == (row, request["length"], request["pages"])
            assert live.request_at(row) == request["id"]
        q = random.standard_normal((len(rows), 4, 64)).astype(np.float32)
        right, _ = oracle(q, k, v, rows, lengths)
        np.testing.assert_allclose(attention.run(q, (k, v)), right, atol=2e-5)
    assert attention.live_counts["steps"] == 12


def test_plans_are_kept_while_requests_only_grow():
    live = trunkline.LiveBatch(page_size=16, num_pages=100)
    a = live.join(17, [1, 2])
    live.join(17, [1, 3])
    attention = trunkline.DecodeAttention(4, 2, 64, 16, dtype="float32")
    sources = [attention.plan_live(live)]
    for step in range(5):
        live.advance([18 + step] * 2)
        sources.append(attention.plan_live(live))
    live.leave(a)
    sources.append(attention.plan_live(live))
    assert sources == ["membership"] + ["reused"] * 5 + ["membership"]
    assert attention.live_counts["reused"] == 5


def test_several_query_tokens_and_draft_trees():
    live = trunkline.LiveBatch(page_size=16, num_pages=100)
    a = live.join(20, [1, 2], queries=3, query_parents=[-1, 0, 0])
    live.join(9, np.array([5], np.int64))
    attention = trunkline.DecodeAttention(2, 1, 64, 16, dtype="float32")
    random = np.random.default_rng(3)
    k, v = random.standard_normal((2, 100, 16, 1, 64)).astype(np.float32)
    attention.plan_live(live)
    q = random.standard_normal((4, 2, 64)).astype(np.float32)
    right, _ = oracle(q, k, v, [[1, 2], [5]], [20, 9], query_start=[0, 3, 4], parents=[-1, 0, 0, -1])
    np.testing.assert_allclose(attention.run(q, (k, v)), right, atol=2e-5)
    live.set_queries(a, 1)
    attention.plan_live(live)
    right, _ = oracle(q[:2], k, v, [[1, 2], [5]], [20, 9])
    np.testing.assert_allclose(attention.run(q[:2], (k, v)), right, atol=2e-5)


def test_an_event_without_a_new_plan_is_refused_not_misread():
    live = trunkline.LiveBatch(page_size=16, num_pages=100)
    live.join(5, [1])
    attention = trunkline.DecodeAttention(2, 1, 64, 16, dtype="float32")
    attention.plan_live(live)
    cache = np.ones((100, 16, 1, 64), np.float32)
    q = np.ones((1, 2, 64), np.float32)
    assert (attention.run(q, (cache, cache)) == 1).all()
    live.advance([6])  # its tables may have moved
    with pytest.raises(trunkline.WorkspaceError, match=r"plan_live\(\) after each event"):
        attention.run(q, (cache, cache))
    attention.plan_live(live)
    assert (attention.run(q, (cache, cache)) == 1).all()
    live.close()
    with pytest.raises(trunkline.WorkspaceError):
        attention.run(q, (cache, cache))


@pytest.mark.parametrize(
    ("event", "kind", "text"),
    [
        (lambda live, a: live.join(17, [1]), ValueError, "pages"),
        (lambda live, a: live.join(5, [100]), ValueError, "100"),
        (lambda live, a: live.join(5, [1.0]), TypeError, "pages has dtype float64"),
        (lambda live, a: live.join(5, [3], queries=2, query_parents=[-1]), ValueError, "query_parents has shape [1]"),
        (lambda live, a: live.advance([16, 16]), ValueError, "2"),
        (lambda live, a: live.advance([3]), ValueError, "kv_lens[0] is 3"),
        (lambda live, a: live.advance([17]), ValueError, "page"),
        (lambda live, a: live.advance([17], {0: [2], 5: [3]}), ValueError, "new_pages has row 5; expected: 0 to 0"),
        (lambda live, a: live.advance([17], ([0, 3], [2])), ValueError, "new_pages has 2 starts and 1 ids"),
        (lambda live, a: live.leave((5, 0)), ValueError, "slot"),
        (lambda live, a: live.leave(3), TypeError, "request is 3; expected: what join() or fork() gave"),
        (lambda live, a: live.truncate(a, 9), ValueError, "9"),
        (lambda live, a: live.replace_page(a, 1, 5), ValueError, "index"),
        (lambda live, a: live.reorder([0, 0]), ValueError, "2"),
        (lambda live, a: live.request_at(1), ValueError, "row"),
    ],
)
def test_refused_events_change_nothing(event, kind, text):
    live = trunkline.LiveBatch(page_size=16, num_pages=100)
    a = live.join(8, [1])
    with pytest.raises(kind) as raised:
        event(live, a)
    assert text in str(raised.value)
    assert len(live) == 1 and live.info(a) == (0, 8, live.info(a).shared_tokens, [1])
