"""A signal's handler that raises at any moment, as Ctrl-C's does, leaves objects usable."""

import random
import signal
import threading
import time

import numpy as np
import pytest
import trunkline

ROWS, TOKENS, PAGE = 4, 200, 16
numbers = np.random.default_rng(0)
Q = numbers.standard_normal((ROWS, 8, 64)).astype(np.float32)
K = numbers.standard_normal((64, PAGE, 2, 64)).astype(np.float32)
TABLE = numbers.integers(0, 64, (ROWS, -(-TOKENS // PAGE))).astype(np.int32)
LENGTHS = np.full(ROWS, TOKENS, np.int32)
WORKERS = trunkline.Workers(1)


class Interrupt(Exception):
    pass


def interrupt(*_):
    raise Interrupt


@pytest.fixture(autouse=True)
def handler():
    former = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


def made():
    # One thread, so that it is not the machine's other work that decides how long a test takes.
    attention = trunkline.DecodeAttention(8, 2, 64, PAGE, dtype="float32", workers=WORKERS)
    attention.plan(TABLE, LENGTHS)
    return attention


def run(attention):
    return attention.run(Q, (K, K))


def plan(attention):
    attention.plan(TABLE, LENGTHS, num_pages=64)


def plan_and_run(attention):
    plan(attention)
    return run(attention)


def simple(_):
    return trunkline.decode_attention(Q, K, K, TABLE, LENGTHS)


def live_steps():
    live = trunkline.LiveBatch(page_size=PAGE, num_pages=64)
    for pages, length in zip(TABLE.tolist(), LENGTHS.tolist()):
        live.join(length, pages)

    def use(attention):
        live.advance(LENGTHS)
        attention.plan_live(live)
        return run(attention)

    return use


def workspaces(attention):
    attention.set_workspace(np.empty(1 << 20, np.uint8))
    plan(attention)
    return run(attention)


def interrupted(use, attention, rounds, random):
    """How many interrupts landed, and what an uninterrupted use raised after one."""
    expected = simple(attention)
    landed, faults = 0, []
    for _ in range(rounds):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-5, 4e-4))
            while True:
                use(attention)
        except Interrupt:
            landed += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            for again in (use, simple):
                out = again(attention)
                if out is not None and np.abs(out - expected).max() > 1e-5:
                    faults.append("wrong")
        except trunkline.Error as error:
            faults.append(f"{type(error).__name__}: {error}")
            attention = made()
    return landed, faults


USES = {"run": run, "plan": plan, "plan and run": plan_and_run, "decode_attention": simple, "live": live_steps()}
USES["set_workspace"] = workspaces


@pytest.mark.parametrize("name", USES)
def test_objects_stay_usable(name):
    attention = made()
    plan(attention)
    landed, faults = interrupted(USES[name], attention, 1500, random.Random(1))
    assert not faults, f"{len(faults)} of {landed} interrupts: {sorted(set(faults))}"
    assert landed > 1400


def test_a_close_that_is_interrupted():
    choose, closed = random.Random(1), 0
    for _ in range(300):
        attention = made()
        try:
            signal.setitimer(signal.ITIMER_REAL, choose.uniform(1e-6, 6e-5))
            attention.close()
            time.sleep(1e-3)
        except Interrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            plan_and_run(attention)
        except trunkline.ClosedError as error:
            assert str(error) == "the DecodeAttention is closed"
            closed += 1
        attention.close()
    assert closed


class Interrupted:
    """A tensor in whose Python code an interrupt lands."""

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        raise Interrupt


def test_an_interrupt_of_a_tensors_own_code_is_raised():
    attention = made()
    with pytest.raises(Interrupt):
        attention.run(Q, (K, Interrupted()))
    assert (run(attention) == simple(attention)).all()


def on_workers():
    workers = trunkline.Workers(1)
    attention = trunkline.DecodeAttention(8, 2, 64, PAGE, dtype="float32", workers=workers)
    attention.plan(TABLE, LENGTHS)
    return workers, attention


def test_a_thread_that_waits_for_workers_can_be_interrupted():
    workers, attention = on_workers()
    inside, go_on = threading.Event(), threading.Event()

    def hold():
        inside.set()
        go_on.wait(60)

    other = threading.Thread(target=workers._queue.call, args=(hold,))
    other.start()
    try:
        assert inside.wait(60)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupt):
            run(attention)
        assert not go_on.is_set() and other.is_alive()
    finally:
        go_on.set()
        other.join()
    assert (run(attention) == simple(attention)).all()


def test_a_handler_that_wants_what_its_thread_waits_for():
    workers, attention = on_workers()
    other_object = trunkline.DecodeAttention(8, 2, 64, PAGE, dtype="float32", workers=workers)
    other_object.plan(TABLE, LENGTHS)
    inside, go_on, told = threading.Event(), threading.Event(), []

    def hold():
        inside.set()
        go_on.wait(60)

    def handler(*_):
        try:
            run(other_object)
        except trunkline.BusyError as error:
            told.append(str(error))
        go_on.set()

    signal.signal(signal.SIGALRM, handler)
    other = threading.Thread(target=workers._queue.call, args=(hold,))
    other.start()
    assert inside.wait(60)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    out = run(attention)
    other.join()
    assert (out == simple(attention)).all() and "in use by this thread" in told[0]


def test_a_handler_that_wants_the_workers_of_the_call_that_it_interrupts():
    workers, attention = on_workers()
    with pytest.raises(trunkline.BusyError, match="in use by this thread"):
        workers._queue.call(run, attention)
    assert (run(attention) == simple(attention)).all()
