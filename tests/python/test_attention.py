"""Random steps through all forms of tables, layouts, dtypes and policies, against the fp64 oracle."""

import numpy as np
import pytest
import trunkline
from batches import TOLERANCE, cases, dtype_of
from hypothesis import given
from hypothesis import strategies as st
from oracle import attention as oracle

WORKERS = trunkline.Workers(2)


def made(case, **keywords):
    return trunkline.DecodeAttention(
        case.q_heads, case.kv_heads, case.head_dim, case.page_size, dtype=case.dtype, workers=WORKERS, **keywords
    )


def expected(case, tensors, **keywords):
    return oracle(*tensors, case.rows, case.kv_lens, query_start=case.query_start, parents=case.parents, **keywords)


def compare(case, out, lse, right):
    np.testing.assert_allclose(np.asarray(out, np.float64), right[0], atol=TOLERANCE[case.dtype], rtol=1e-2)
    if lse is not None:
        np.testing.assert_allclose(np.asarray(lse, np.float64), right[1], atol=2e-3, rtol=1e-3)


def queries_of(case):
    return {"query_start_loc": case.query_start, "query_parents": case.parents}


@given(case=cases(), policy=st.sampled_from(list(trunkline.POLICIES)), ids=st.sampled_from([np.int32, np.int64]))
def test_dense_tables(case, policy, ids):
    q, k, v = case.tensors()
    attention = made(case, policy=policy)
    attention.plan(case.table(ids), case.kv_lens, num_pages=case.num_pages, **queries_of(case))
    out, lse = attention.run(q, (k, v), return_lse=True)
    assert out.dtype == q.dtype and lse.dtype == np.float32
    compare(case, out, lse, expected(case, (q, k, v)))


@given(case=cases(), scale=st.sampled_from([None, 0.0, 0.3]))
def test_csr_tables_hnd_and_base_two(case, scale):
    q, k, v = case.tensors()
    attention = made(case, kv_layout="HND", lse_base="two")
    attention.plan_csr(*case.csr(), **queries_of(case))
    heads_first = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (k, v)]
    out, lse = attention.run(q, heads_first, return_lse=True, scale=scale)
    compare(case, out, lse, expected(case, (q, k, v), scale=scale, base_two=True))


@given(case=cases(page_sizes=(1,)))
def test_token_level_tables(case):
    q, k, v = case.tensors()
    attention = made(case)
    pool = np.full((len(case.rows) + 3, 100), -5, np.int32)
    places = np.arange(len(case.rows), dtype=np.int32)[::-1] + 2
    for place, pages in zip(places, case.rows):
        pool[place, : len(pages)] = pages
    attention.plan_token_level(pool, places, case.kv_lens, **queries_of(case))
    compare(case, attention.run(q, (k, v)), None, expected(case, (q, k, v)))


@given(case=cases())
def test_simple_level_equals_serving_level(case):
    q, k, v = case.tensors()
    out, lse = trunkline.decode_attention(q, k, v, case.table(), case.kv_lens, return_lse=True, **queries_of(case))
    compare(case, out, lse, expected(case, (q, k, v)))


@given(case=cases(dtypes=("float32",)))
def test_packed_cache_strides_and_given_outputs(case):
    q, k, v = case.tensors()
    packed = np.stack([k, v], axis=1)
    wide = np.zeros((q.shape[0], q.shape[1] + 2, q.shape[2] + 8), q.dtype)
    wide[:, 1:-1, :-8] = q
    out = np.full((q.shape[0], q.shape[1], 2 * q.shape[2]), 7, np.float32)
    lse = np.zeros((q.shape[1], q.shape[0]), np.float32)
    attention = made(case)
    attention.plan(case.table(), case.kv_lens, **queries_of(case))
    given_out = out[:, :, : q.shape[2]]
    returned = attention.run(wide[:, 1:-1, :-8], packed, out=given_out, lse=lse.T)
    assert returned is given_out
    compare(case, given_out, lse.T, expected(case, (q, k, v)))
    assert (out[:, :, q.shape[2] :] == 7).all()


@given(case=cases(dtypes=("float32",)), more=st.integers(0, 3))
def test_cache_packed_by_head_and_rows_of_others(case, more):
    q, k, v = case.tensors()
    packed = np.concatenate([k, v], axis=-1)
    rows = len(q) + more
    longer = np.concatenate([q, np.full((more, *q.shape[1:]), np.nan, q.dtype)])
    out, lse = np.full(longer.shape, 7, np.float32), np.full(longer.shape[:2], 7, np.float32)
    attention = made(case)
    attention.plan(case.table(), case.kv_lens, **queries_of(case))
    attention.run(longer, packed, out=out, lse=lse, num_queries=len(q))
    compare(case, out[: len(q)], lse[: len(q)], expected(case, (q, k, v)))
    assert rows == len(out) and (out[len(q) :] == 7).all() and (lse[len(q) :] == 7).all()


def test_read_only_inputs_and_outputs_of_another_dtype():
    q, k = np.ones((1, 2, 64), np.float16), np.ones((2, 16, 1, 64), np.float16)
    for array in (q, k):
        array.flags.writeable = False
    attention = trunkline.DecodeAttention(2, 1, 64, 16)
    attention.plan([[1]], [5])
    out = np.zeros((1, 2, 64), np.float32)
    attention.run(q, (k, k), out=out)
    assert (out == 1).all()


def test_empty_requests_and_empty_steps():
    attention = trunkline.DecodeAttention(2, 1, 64, 16, dtype="float32")
    cache = np.ones((2, 16, 1, 64), np.float32)
    attention.plan(np.zeros((2, 1), np.int32), [0, 3])
    out, lse = attention.run(np.ones((2, 2, 64), np.float32), (cache, cache), return_lse=True)
    assert (out[0] == 0).all() and np.isneginf(lse[0]).all() and (out[1] == 1).all()
    attention.plan(np.zeros((0, 1), np.int32), [])
    assert attention.run(np.ones((0, 2, 64), np.float32), (cache, cache)).shape == (0, 2, 64)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_strides_that_nobody_steps_by(dtype):
    """Those of empty arrays and of dimensions of one element, by DLPack and by the array interface."""

    def strided(array, strides):
        return np.lib.stride_tricks.as_strided(array, array.shape, strides)

    size = dtype_of(dtype).itemsize
    attention = trunkline.DecodeAttention(2, 1, 64, 16, dtype=dtype)
    cache = np.ones((1, 16, 1, 64), dtype_of(dtype))
    odd_cache = strided(cache, (-3, 64 * size, size + 1, size))
    one = np.ones((1, 2, 64), dtype_of(dtype))
    attention.plan([[0]], [5])
    assert (attention.run(strided(one, (-1, 64 * size, size)), (odd_cache, odd_cache)) == 1).all()
    none = np.ones((2, 4, 128), dtype_of(dtype))[:0, ::-2, ::2]
    lse = np.ones((4, 6), np.float32)[::-2, :0].T
    attention.plan(np.zeros((3, 2), np.int32)[:0, ::-1], np.zeros(4, np.int32)[4:], num_pages=1)
    assert attention.run(none, (cache, cache), out=none.copy(), lse=lse).shape == (0, 2, 64)


def test_search_tree_is_shared_where_page_ids_do_not_show_it():
    # Two copies of the same page: the tree vouches that both hold the same.
    attention = trunkline.DecodeAttention(2, 1, 64, 16, dtype="float32", policy="node")
    tree = trunkline.Forest.from_tree([-1, 0, 0], [16, 4, 6], [1, 2])
    attention.plan([[0, 1], [2, 3]], [20, 22], forest=tree)
    random = np.random.default_rng(1)
    k, v = random.standard_normal((2, 4, 16, 1, 64)).astype(np.float32)
    k[2], v[2] = k[0], v[0]
    q = random.standard_normal((2, 2, 64)).astype(np.float32)
    right, _ = oracle(q, k, v, [[0, 1], [2, 3]], [20, 22])
    np.testing.assert_allclose(attention.run(q, (k, v)), right, atol=2e-5)
    assert attention.statistics.kv_tokens_read == 26


def test_workspace_of_the_caller():
    attention = trunkline.DecodeAttention(2, 1, 64, 16, dtype="float32", workspace=np.empty(100, np.uint8))
    with pytest.raises(trunkline.WorkspaceError, match="workspace has .* bytes and cannot grow, as it is the caller's"):
        attention.plan([[0]], [5])
    attention.set_workspace(np.empty(1 << 20, np.float32))
    attention.plan([[0]], [5])
    assert 0 < attention.workspace_bytes() <= 4 << 20
    cache = np.ones((1, 16, 1, 64), np.float32)
    assert (attention.run(np.ones((1, 2, 64), np.float32), (cache, cache)) == 1).all()


def test_statistics_and_plans():
    attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype=np.float32, policy="trunk")
    attention.plan([[3, 8, 1], [3, 8, 4]], [40, 37])
    kept = attention.current.copy()
    assert (
        kept.info["policy"] == "trunk"
        and kept.info["q_dtype"] == kept.info["kv_dtype"] == "float32"
        and kept.info["queries"] == 2
    )
    assert kept.statistics.kv_tokens_read == 45 and kept.json()["policy"] == "trunk"
    former = attention.current
    attention.plan([[3, 8, 1], [3, 8, 4]], [41, 38])
    with pytest.raises(trunkline.ClosedError):
        _ = former.statistics
    assert kept.statistics.kv_tokens_read == 45
    kept.close()
    with pytest.raises(trunkline.ClosedError, match="the plan is closed"):
        _ = kept.info


def test_bfloat16_of_numpy_is_read_in_place():
    bfloat16 = dtype_of("bfloat16")
    cache = np.ones((1, 4, 1, 64), bfloat16)
    out = trunkline.decode_attention(np.ones((1, 1, 64), bfloat16), cache, cache, [[0]], [3])
    assert out.dtype == bfloat16 and (out == 1).all()
