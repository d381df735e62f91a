"""Forked children: decode_attention always works, what needs the parent's threads is refused by name, nothing hangs."""

import multiprocessing
import threading
import time

import forked
import numpy as np
import oracle
import pytest
import trunkline

random = np.random.default_rng(0)
Q = random.standard_normal((4, 8, 64)).astype(np.float32)
K, V = random.standard_normal((2, 16, 16, 2, 64)).astype(np.float32)
TABLE = np.array([[3, 8, 1], [3, 8, 4], [3, 8, 5], [5, 2, 7]], np.int32)
LENGTHS = np.array([40, 37, 48, 33], np.int32)
EXPECTED = oracle.attention(Q, K, V, TABLE.tolist(), LENGTHS)[0]


def right(out):
    return bool(np.abs(out - EXPECTED).max() < 1e-4)


def attend(*_):
    return right(trunkline.decode_attention(Q, K, V, TABLE, LENGTHS))


def planned(**options):
    attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", **options)
    attention.plan(TABLE, LENGTHS)
    return attention


def live_batch():
    live = trunkline.LiveBatch(page_size=16, num_pages=16)
    for pages, length in zip(TABLE.tolist(), LENGTHS.tolist()):
        live.join(length, pages)
    return live


def uses_of_what_the_parent_made():
    """Name, use in the child."""
    attention, workers, live = planned(), trunkline.Workers(2), live_batch()
    own = planned(workers=workers)
    ahead = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", async_planning=True)
    ahead.plan_live(live)
    for one in (attention, own, ahead):
        assert right(one.run(Q, (K, V)))
    empty = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32")
    return {
        "run": lambda: attention.run(Q, (K, V)),
        "run without a plan": lambda: empty.run(Q, (K, V)),
        "plan": lambda: attention.plan(TABLE, LENGTHS),
        "set_workspace": lambda: attention.set_workspace(np.empty(1 << 16, np.uint8)),
        "run on workers of its own": lambda: own.run(Q, (K, V)),
        "a new object on the parent's workers": lambda: planned(workers=workers),
        "Profile.measure_cpu": lambda: trunkline.Profile.measure_cpu(workers),
        "submit": lambda: ahead.submit(live),
        "ready": lambda: ahead.ready(),
        "plan_live": lambda: ahead.plan_live(live),
    }


USES = uses_of_what_the_parent_made()


@pytest.mark.parametrize("name", USES)
def test_what_needs_threads_of_the_parent_is_refused_by_name(name):
    told = forked.in_child(USES[name])
    assert isinstance(told, str) and told.startswith("ClosedError: the "), told
    assert "was made before this process was forked" in told and "expected: one made here" in told


def test_what_has_no_threads_goes_on():
    profile, live = trunkline.Profile.generic_cpu(2), live_batch()
    forest = trunkline.Forest.from_tree([-1, 0, 0], [32, 16, 5], [1, 2])
    owner = planned()
    plan = owner.current.copy()

    def use():
        attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", profile=profile)
        attention.plan_live(live)
        live.advance(LENGTHS)
        attention.plan_live(live)
        return right(attention.run(Q, (K, V))), forest.total_tokens, plan.statistics.kv_tokens_total

    assert forked.in_child(use) == (True, forest.total_tokens, int(LENGTHS.sum()))


def test_closing_what_the_parent_made():
    attention, workers = planned(), trunkline.Workers(2)

    def use():
        attention.close()
        workers.close()
        return attend()

    assert forked.in_child(use) is True
    assert right(attention.run(Q, (K, V)))


def test_children_and_theirs():
    assert attend()
    assert forked.in_child(lambda: (attend(), forked.in_child(attend))) == (True, True)
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert all(pool.map_async(attend, range(9)).get(60))
    assert attend()


def test_a_child_that_ends_as_programs_do():
    kept = (
        planned(),
        trunkline.Workers(3),
        trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", async_planning=True),
    )
    child = multiprocessing.get_context("fork").Process(target=attend)
    child.start()
    child.join(30)
    code = child.exitcode
    child.kill()
    assert code == 0 and kept


def decode_attention_of_many():
    q, lengths, table = np.tile(Q[:1], (64, 1, 1)), np.full(64, 40, np.int32), np.tile(TABLE[:1], (64, 1))
    return lambda: trunkline.decode_attention(q, K, V, table, lengths)


def object_of_its_own():
    attention = planned(workers=trunkline.Workers(2))

    def use():
        attention.plan(TABLE, LENGTHS)
        attention.run(Q, (K, V))

    return use


def handles():
    return lambda: trunkline.Forest.from_tree([-1], [5], [0]).close()


@pytest.mark.parametrize("make", [decode_attention_of_many, object_of_its_own, handles])
def test_forks_while_other_threads_are_inside(make):
    stop = threading.Event()

    def work():
        use = make()
        while not stop.is_set():
            use()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.1)
        for _ in range(20):
            assert forked.in_child(attend, 10) is True
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_an_object_that_another_thread_is_using():
    attention, live, stop = planned(), live_batch(), threading.Event()

    def work():
        while not stop.is_set():
            attention.plan(TABLE, LENGTHS)
            attention.run(Q, (K, V))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            told = forked.in_child(lambda: attention.plan(TABLE, LENGTHS))
            assert "made before this process was forked" in str(told), told
            assert forked.in_child(lambda: planned().plan_live(live)) == "membership"
    finally:
        stop.set()
        thread.join()
