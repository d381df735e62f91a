"""Page tables of the batches that bench/python compares on."""

import sys
from pathlib import Path

import trunkline

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "python"))
from shared_batches import batches, pages_of, recorded_times, tree_of  # noqa: E402


def test_pages_are_shared_up_to_where_paths_part():
    # 20 tokens shared: one page of 16, while the second page has a copy for each path.
    batch = pages_of([[-1, 20], [0, 5], [0, 30]], [1, 2, 2], 16, "")
    first, second, third = batch.rows
    assert batch.kv_lens.tolist() == [25, 50, 50] and batch.num_pages == 5
    assert first[0] == second[0] and first[1] != second[1] and second == third


def test_trees():
    nodes, requests = tree_of("1,2,4/10,5,3")
    assert nodes == [[-1, 10], [0, 5], [0, 5], [1, 3], [1, 3], [2, 3], [2, 3]] and requests == [3, 4, 5, 6]


def test_recorded_batch():
    batch = next(iter(batches("reasoning", 1)))
    assert batch.case == "reasoning_sorting128:1" and batch.table.max() == batch.num_pages - 1
    shares = trunkline.explain(batch.table, batch.kv_lens, 32, 8, 128, 16).statistics
    assert (shares.kv_tokens_total, shares.kv_tokens_distinct) == (7320, 1800)


def test_batches_as_recorded():
    # Whole pages for each node, in the order of requests.
    batch = next(iter(batches("reasoning", 1, as_recorded=True)))
    assert not (batch.kv_lens % 16).any() and batch.rows[0] == list(range(len(batch.rows[0])))
    # Lengths of trees are as written.
    trees = {batch.case: batch for batch in batches("unshared", 0, as_recorded=True)}
    assert set(trees["100/333"].kv_lens.tolist()) == {333}


def test_recorded_times():
    times = recorded_times("reasoning_docmerge:1", "32/8", "f16", 16, "flashinfer")
    assert times["flashinfer_fa2"] == 32.43 and all(name.startswith("flashinfer") for name in times)
    assert recorded_times("64/1024", "32/8", "f16", 16, "flashinfer")["flashinfer_fa2"] == 74.08
    assert not recorded_times("64/1024", "32/8", "bf16", 16, "flashinfer")
