"""Objects of many threads on shared workers: each call waits for its turn."""

import threading
import time

import numpy as np
import oracle
import trunkline

THREADS = 8
random = np.random.default_rng(0)
K, V = random.standard_normal((2, 64, 16, 2, 64)).astype(np.float32)
LENGTHS = [200, 37, 130, 5]
TABLES = [random.permutation(64)[: 4 * 13].reshape(4, 13).astype(np.int32) for _ in range(THREADS)]
QS = random.standard_normal((THREADS, 4, 8, 64)).astype(np.float32)
EXPECTED = [oracle.attention(q, K, V, table.tolist(), LENGTHS)[0] for q, table in zip(QS, TABLES)]


def in_threads(work, count=THREADS):
    """The results of work(i), or the exceptions it raises, with all threads running at once."""
    told = [None] * count
    start = threading.Barrier(count)

    def call(i):
        start.wait()
        try:
            told[i] = work(i)
        except Exception as error:
            told[i] = error

    threads = [threading.Thread(target=call, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    return told


def worst(rounds, attend):
    """Largest error of many steps."""

    def work(i):
        return max(float(np.abs(attend(i) - EXPECTED[i]).max()) for _ in range(rounds))

    return work


def test_an_object_each_on_the_default_workers():
    objects = [trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32") for _ in range(THREADS)]

    def attend(i):
        objects[i].plan(TABLES[i], LENGTHS)
        for _ in range(4):
            out = objects[i].run(QS[i], (K, V))
        return out

    told = in_threads(worst(50, attend))
    assert all(isinstance(error, float) and error < 1e-5 for error in told), told


def test_decode_attention_in_all():
    told = in_threads(worst(50, lambda i: trunkline.decode_attention(QS[i], K, V, TABLES[i], LENGTHS)))
    assert all(isinstance(error, float) and error < 1e-5 for error in told), told


def test_turns_come_in_order():
    """None starves: with one worker and threads that do nothing else, all get about as many runs."""
    workers, stop, runs = trunkline.Workers(1), threading.Event(), [0] * 4
    threading.Timer(1.0, stop.set).start()

    def work(i):
        attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", workers=workers)
        attention.plan(np.tile(TABLES[i], (8, 1)), LENGTHS * 8)
        q = np.tile(QS[i], (8, 1, 1))
        while not stop.is_set():
            attention.run(q, (K, V))
            runs[i] += 1

    assert in_threads(work, 4) == [None] * 4
    assert min(runs) > 0.2 * max(runs) > 0, runs


def test_measuring_waits_too():
    workers = trunkline.Workers(1)
    attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", workers=workers)
    attention.plan(TABLES[0], LENGTHS)

    def work(i):
        if i == 0:
            return trunkline.Profile.measure_cpu(workers).info["workers"]
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            error = float(np.abs(attention.run(QS[0], (K, V)) - EXPECTED[0]).max())
        return error

    workers_measured, error = in_threads(work, 2)
    assert workers_measured == 1 and error < 1e-5, (workers_measured, error)


def test_the_gil_is_free_while_a_thread_waits():
    workers = trunkline.Workers(1)
    attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", workers=workers)
    attention.plan(TABLES[0], LENGTHS)
    inside, waited = threading.Event(), threading.Event()

    def work(i):
        if i == 0:
            return workers._queue.call(lambda: (inside.set(), waited.wait(60))[1])
        assert inside.wait(60)
        threading.Timer(0.2, waited.set).start()
        return float(np.abs(attention.run(QS[0], (K, V)) - EXPECTED[0]).max())

    was_told, error = in_threads(work, 2)
    assert was_told is True and error < 1e-5
