"""Steps whose num_pages is not given: the largest id in use is looked up, in about the time of planning."""

import time

import numpy as np
import pytest
import trunkline


@pytest.mark.parametrize("ids", [np.int32, np.int64])
def test_the_largest_id_in_use(ids):
    attention = trunkline.DecodeAttention(2, 1, 64, 1, dtype="float32")
    pool = np.full((4, 50), 10**6, ids)  # past the lengths
    pool[1, :3], pool[2, :2] = [4, 9, 1], [4, 2]
    attention.plan_token_level(pool, [2, 1], [2, 3])
    q, cache = np.ones((2, 2, 64), np.float32), np.ones((10, 1, 1, 64), np.float32)
    assert (attention.run(q, (cache, cache)) == 1).all()
    with pytest.raises(ValueError, match="k has 9 pages; the batch's num_pages is 10"):
        attention.run(q, (cache[:9], cache[:9]))
    for bad in (-1, 2**31 - 1):
        pool[2, 1] = bad
        with pytest.raises(ValueError, match=f"row 0 entry 1 is {bad}"):
            attention.plan_token_level(pool, [2, 1], [2, 3])


def test_a_wide_pool_costs_what_is_used_of_it():
    """256 requests of 1,000 tokens in rows of 131,072: all of the rows was copied before it was looked at."""
    rows, width, length = 256, 131072, 1000
    attention = trunkline.DecodeAttention(8, 2, 64, 1, dtype="float16")
    pool = np.zeros((rows + 8, width), np.int32)
    for row in range(rows):
        pool[row, :length] = np.arange(length) + (0 if row % 2 else length * (row + 1))
    step = pool, np.arange(rows, dtype=np.int32), np.full(rows, length, np.int32)

    def seconds(**keywords):
        begin = time.perf_counter()
        attention.plan_token_level(*step, **keywords)
        return time.perf_counter() - begin

    # The least of many, in turns, so that what else runs here counts for little.
    times = [(seconds(num_pages=10**6), seconds()) for _ in range(60)]
    given, looked_up = (min(each) for each in zip(*times))
    assert looked_up < 2 * given, f"{looked_up * 1e6:.0f} us without num_pages, {given * 1e6:.0f} us with it"
