"""Bad input: ordinary Python exceptions that name argument, found and expected; nothing written, nothing crashes."""

import gc
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import trunkline
from trunkline._capacities import with_capacities

Q = np.ones((2, 8, 64), np.float32)
CACHE = np.ones((4, 16, 2, 64), np.float32)
TABLE = np.array([[0, 1], [0, 2]], np.int32)
LENGTHS = np.array([20, 25], np.int32)


def made(**keywords):
    return trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", **keywords)


def planned(**keywords):
    attention = made(**keywords)
    attention.plan(TABLE, LENGTHS)
    return attention


def sliced(array):
    """The same values with a stride of 2 in the last dimension."""
    return np.repeat(array, 2, axis=-1)[..., ::2]


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


MAKING = [
    (dict(num_qo_heads=7), NotImplementedError, "heads are 7/2; query heads must be a multiple of KV heads"),
    (dict(head_dim=80), NotImplementedError, "head_dim_v are 80; supported: 64, 128, 256"),
    (dict(num_qo_heads=8.0), TypeError, "num_qo_heads is 8.0; expected: an int"),
    (dict(dtype="int8"), ValueError, "dtype is 'int8'; expected: float16, bfloat16 or float32"),
    (dict(dtype=np.float64), ValueError, "expected: float16, bfloat16 or float32"),
    (dict(device="tpu"), ValueError, 'device is "tpu"; expected: "cpu", "cuda"'),
    (dict(kv_layout="DNH"), ValueError, "kv_layout is 'DNH'; expected: 'NHD', 'HND'"),
    (dict(lse_base="e"), ValueError, "lse_base is 'e'; expected: 'natural', 'two'"),
    (dict(policy="best"), ValueError, "policy is 'best'; expected: 'auto', 'flat'"),
    (dict(use_cuda_graph=True), ValueError, "use_cuda_graph is True on the CPU"),
    (dict(workspace=read_only(Q)), ValueError, "workspace has gaps or is read-only"),
    (dict(workspace=3), TypeError, "workspace is of type int; expected: a tensor"),
]


@pytest.mark.parametrize(("wrong", "kind", "text"), MAKING, ids=[text for *_, text in MAKING])
def test_making(wrong, kind, text):
    right = dict(num_qo_heads=8, num_kv_heads=2, head_dim=64, page_size=16, dtype="float32")
    with pytest.raises(kind) as raised:
        made_of = trunkline.DecodeAttention(**(right | wrong))
        made_of.plan(TABLE, LENGTHS)
    assert text in str(raised.value) and isinstance(raised.value, trunkline.Error)


PLANNING = [
    (dict(kv_lens=LENGTHS.astype(np.float32)), TypeError, "kv_lens has dtype float32; expected: int32 or int64"),
    (dict(kv_lens=[20.0, 25.0]), TypeError, "kv_lens has dtype float64; expected: int32 or int64"),
    (dict(kv_lens=[20]), ValueError, "kv_lens has shape [1]; expected: [batch] = [2]"),
    (dict(kv_lens=[[20, 25]]), ValueError, "kv_lens has shape [1, 2]; expected: 1 dimension"),
    (dict(kv_lens=[20, -1]), ValueError, "kv_lens[1] is -1"),
    (dict(kv_lens=[20, 2**40]), ValueError, f"kv_lens[1] is {2**40}; expected: a value of 32 bits"),
    (dict(kv_lens=[20, 33]), ValueError, "kv_lens[1] is 33"),
    (dict(kv_lens="two"), TypeError, "kv_lens is of type str; expected: a tensor"),
    (dict(kv_lens=None), TypeError, "kv_lens is of type NoneType"),
    (dict(page_table=TABLE[0]), ValueError, "page_table has shape [2]; expected: 2 dimension"),
    (dict(page_table=TABLE.astype(np.uint8)), TypeError, "page_table has dtype uint8; expected: int32 or int64"),
    (dict(page_table=-TABLE), ValueError, "is -1"),
    (dict(num_pages=2, check_ids=True), ValueError, "is 2"),
    (dict(num_queries=2), ValueError, "num_queries is 2; expected without device_planning: none"),
    (dict(query_start_loc=[0, 1]), ValueError, "query_start_loc has shape [2]; expected: [batch + 1] = [3]"),
    (dict(query_start_loc=[0, 2, 1]), ValueError, "query_start"),
    (dict(query_parents=[-1]), ValueError, "query_parents has shape [1]; expected: [query tokens] = [2]"),
    (dict(query_start_loc=[0, 2, 3], query_parents=[-1, 1, -1]), ValueError, "query_parents"),
    (dict(slots=[0]), ValueError, "slots has shape [1]; expected: [batch] = [2]"),
    (dict(slots=[3, 3]), ValueError, "slots"),
    (dict(forest=trunkline.Forest.from_tree([-1], [20], [0])), (ValueError, RuntimeError), ""),
    (dict(wrong=1), TypeError, "wrong"),
]


@pytest.mark.parametrize(("wrong", "kind", "text"), PLANNING, ids=[text or "forest" for *_, text in PLANNING])
def test_planning(wrong, kind, text):
    attention = planned()
    with pytest.raises(kind) as raised:
        attention.plan(**(dict(page_table=TABLE, kv_lens=LENGTHS) | wrong))
    assert text in str(raised.value)
    # The plan before is not used by accident.
    if "wrong" not in wrong:
        with pytest.raises(trunkline.WorkspaceError, match=r"there is no plan; call plan\(\) once a step"):
            attention.run(Q, (CACHE, CACHE))
    attention.plan(TABLE, LENGTHS)
    assert (attention.run(Q, (CACHE, CACHE)) == 1).all()


@pytest.mark.parametrize(
    ("indptr", "indices", "last", "text"),
    [
        ([0, 2, 1], [0, 1], [4, 4], "indptr"),
        ([0, 1, 3], [0, 1], [4, 4], "indptr"),
        ([1, 1, 2], [0, 1], [4, 4], "indptr"),
        ([0, 1, 2], [0, 1], [4, 17], "last_page_len[1] is 17"),
        ([0, 1, 2], [0, 1], [4], "last_page_len has shape [1]; expected: [batch] = [2]"),
        ([], [0, 1], [], "indptr is empty"),
        ([0, 1, 2], [[0, 1]], [4, 4], "indices has shape [1, 2]"),
    ],
)
def test_csr(indptr, indices, last, text):
    with pytest.raises(ValueError) as raised:
        made().plan_csr(indptr, indices, last)
    assert text in str(raised.value)


def test_token_level_of_larger_pages():
    with pytest.raises(ValueError, match="page_size is 16; expected: 1"):
        made().plan_token_level(TABLE, [0, 1], LENGTHS)


RUNNING = [
    (dict(q=Q[:1]), ValueError, "q has shape [1, 8, 64]; expected: [query tokens, q_heads, head_dim] = [2, 8, 64]"),
    (dict(q=Q[0]), ValueError, "q has 2 dimensions; expected: [query tokens, q_heads, head_dim]"),
    (dict(q=Q.astype(np.float16)), ValueError, "q has dtype f16; expected: f32"),
    (dict(q=Q.astype(np.float64)), TypeError, "q has a dtype of DLPack code 2 and 64 bits; expected: float16"),
    (dict(q=sliced(Q)), ValueError, "q.strides[2] is 2; expected: 1, without gaps in the head size"),
    (dict(q=None), TypeError, "out is missing, and cannot be made like a NoneType"),
    (dict(q=[1.0]), TypeError, "out is missing, and cannot be made like a list"),
    (dict(q=[1.0], out=Q.copy()), TypeError, "q is of type list; expected: a tensor"),
    (dict(kv=(CACHE, CACHE[:, :8])), ValueError, "v has shape [4, 8, 2, 64]; expected: [pages, page_size,"),
    (dict(kv=(CACHE[:2], CACHE)), ValueError, "k has 2 pages; the batch's num_pages is 3"),
    (dict(kv=(CACHE, sliced(CACHE))), ValueError, "v.strides[3] is 2; expected: 1"),
    (dict(kv=(CACHE.astype(np.float16),) * 2), ValueError, "k has dtype f16; expected: f32"),
    (dict(kv=(CACHE,)), ValueError, "kv has 1 tensors; expected: a pair (k, v), or one packed"),
    (dict(kv=CACHE), ValueError, "kv is one tensor, but not [pages, 2, page_size, kv_heads, head_dim]"),
    (dict(kv=CACHE[..., :65]), ValueError, "[pages, page_size, kv_heads, 2 head_dim]"),
    (dict(q=np.float32(1), kv=CACHE, out=Q), ValueError, "kv is one tensor"),
    (dict(num_queries=3), ValueError, "num_queries is 3; expected: 0 to q's 2 rows"),
    (dict(num_queries=1), ValueError, "q has shape [1, 8, 64]; expected"),
    (dict(num_queries=-1), ValueError, "num_queries is -1; expected: 0 to"),
    (dict(num_queries=2**70), ValueError, f"num_queries is {2**70}; expected: 0 to q's 2 rows"),
    (dict(num_queries="all"), TypeError, "num_queries is 'all'; expected: an int"),
    (dict(num_queries=1.5), TypeError, "num_queries is 1.5; expected: an int"),
    (dict(kv=(CACHE, None)), TypeError, "v"),
    (dict(kv=(None, CACHE)), TypeError, "k is of type NoneType; expected: a tensor"),
    (dict(out=Q[:1].copy()), ValueError, "out has shape [1, 8, 64]; expected"),
    (dict(out=read_only(Q)), ValueError, "out is read-only; expected: a tensor that can be written"),
    (dict(out=Q.astype(np.int32)), ValueError, "out"),
    (dict(out=sliced(Q)), ValueError, "out.strides[2] is 2"),
    (dict(lse=np.zeros((8, 2), np.float32)), ValueError, "lse has shape [8, 2]; expected: [query tokens, q_heads]"),
    (dict(lse=np.zeros((2, 8), np.float16)), ValueError, "lse has dtype f16; expected: f32"),
    (dict(scale="much"), TypeError, "scale is 'much'; expected: a number, or None"),
    (dict(scale=float("nan")), ValueError, "scale is nan"),
    (
        dict(k_scale=np.ones(3, np.float32)),
        ValueError,
        "k_scale.heads has shape [3]; expected: [kv_heads] or [1] = [2]",
    ),
    (dict(k_scale=0), ValueError, "k_scale is 0; expected: a number > 0, or a tensor of them"),
    (dict(k_scale=-1.0), ValueError, "k_scale.value is -1; it must be finite and > 0"),
    (dict(v_scale="1"), TypeError, "v_scale is of type str; expected: a tensor"),
    (dict(window_left=-2), ValueError, "window_left is -2; expected: an int >= 0 below 2^31, or -1"),
    (dict(window_left=2**32 + 5), ValueError, "window_left is 4294967301; expected: an int >= 0 below 2^31"),
    (dict(window_left=1.0), TypeError, "window_left is 1.0; expected: an int"),
    (dict(soft_cap=float("nan")), ValueError, "soft_cap is nan"),
    (dict(soft_cap="30"), TypeError, "soft_cap is '30'; expected: a number, or None"),
    (dict(sinks=np.zeros(2, np.float32)), ValueError, "sinks has shape [2]; expected: [q_heads]"),
]


@pytest.mark.parametrize(("wrong", "kind", "text"), RUNNING, ids=[text for *_, text in RUNNING])
def test_running(wrong, kind, text):
    attention = planned()
    out = np.full_like(Q, 5)
    with pytest.raises(kind) as raised:
        attention.run(**(dict(q=Q, kv=(CACHE, CACHE), out=None if "q" in wrong else out) | wrong))
    assert isinstance(raised.value, trunkline.Error) and text in str(raised.value)
    assert (out == 5).all()


def test_scales_windows_caps_and_sinks_of_no_effect():
    nothing = dict(q_scale=1, k_scale=1.0, v_scale=None, window_left=-1, soft_cap=0, sinks=None)
    assert (planned().run(Q, (CACHE, CACHE), **nothing) == 1).all()
    assert (trunkline.decode_attention(Q, CACHE, CACHE, TABLE, LENGTHS, **nothing) == 1).all()


def test_token_level_rows_and_lengths_outside_the_pool():
    attention = trunkline.DecodeAttention(8, 2, 64, 1, dtype="float32")
    pool = np.zeros((2, 10), np.int32)
    for rows, lengths, text in (
        ([0, 2], [3, 3], "is 2"),
        ([0, -1], [3, 3], "is -1"),
        ([0, 1], [3, 11], "kv_lens[1] is 11"),
    ):
        with pytest.raises(ValueError) as raised:
            attention.plan_token_level(pool, rows, lengths)
        assert text in str(raised.value)


def memory():
    return int(open("/proc/self/statm").read().split()[1]) * 4096


def test_invariant_plans_in_graphs_need_capacities():
    shape = SimpleNamespace(q_heads=32, kv_heads=8)
    options = trunkline.PlanOptions(policy="invariant", capacity_items=5, capacity_spans=6)
    with pytest.raises(ValueError, match="options.capacity_items, capacity_spans and capacity_partials"):
        with_capacities(options, 64, 132, shape)
    given = trunkline.PlanOptions(policy="invariant", capacity_items=5, capacity_spans=6, capacity_partials=7)
    assert with_capacities(given, 64, 132, shape).capacity_partials == 7
    assert with_capacities(trunkline.PlanOptions(), 64, 132, shape).capacity_partials == 4 * 64 + 4 * 17 * 32


def test_nothing_is_left_behind_by_runs_plans_and_refusals():
    attention = planned()
    out, wrong = np.empty_like(Q), Q[:1]
    gc.collect()  # tests before this one may have left cycles that hold the arrays, which a later collection frees
    references = sys.getrefcount(Q), sys.getrefcount(CACHE), sys.getrefcount(None)

    def some():
        for _ in range(3000):
            attention.run(Q, (CACHE, CACHE), out=out)
            for refused in (wrong, [1.0], None):
                try:
                    attention.run(refused, (CACHE, CACHE), out=out)
                except trunkline.Error:
                    continue
                raise AssertionError(refused)
            attention.plan(TABLE, LENGTHS)

    some()
    before = memory()
    some()
    assert memory() - before < 2 << 20
    gc.collect()
    after = sys.getrefcount(Q), sys.getrefcount(CACHE), sys.getrefcount(None)
    assert after[:2] == references[:2] and abs(after[2] - references[2]) < 100


def test_outputs_that_overlap_inputs():
    q = Q.copy()
    with pytest.raises(ValueError, match="overlap"):
        planned().run(q, (CACHE, CACHE), out=q)


def test_run_without_plan_and_after_close():
    attention = made()
    with pytest.raises(trunkline.WorkspaceError, match="there is no plan"):
        attention.run(Q, (CACHE, CACHE))
    attention.plan(TABLE, LENGTHS)
    plan = attention.current
    with attention:
        pass
    for use in (
        lambda: attention.run(Q, (CACHE, CACHE)),
        lambda: attention.plan(TABLE, LENGTHS),
        lambda: plan.info,
        lambda: plan.statistics,
    ):
        with pytest.raises(trunkline.ClosedError):
            use()
    attention.close()  # twice is no error


def test_closed_objects():
    live = trunkline.LiveBatch(page_size=16, num_pages=10)
    profile = trunkline.Profile.generic_cpu(2)
    workers = trunkline.Workers(1)
    forest = trunkline.Forest.from_tree([-1], [5], [0])
    for held in (live, profile, workers, forest):
        held.close()
    for use in (
        lambda: live.join(5, [1]),
        lambda: len(live),
        lambda: profile.info,
        lambda: made(profile=profile),
        lambda: made(workers=workers),
        lambda: forest.nodes,
        lambda: made().plan(TABLE, LENGTHS, forest=forest),
        lambda: made().plan_live(live),
    ):
        with pytest.raises(trunkline.ClosedError):
            use()


def test_workers_may_be_closed_before_those_who_use_them():
    workers = trunkline.Workers(2)
    attention = planned(workers=workers)
    workers.close()
    assert (attention.run(Q, (CACHE, CACHE)) == 1).all()


def test_use_from_two_threads():
    attention = made()
    lengths = np.full(64, 2000, np.int32)
    table = np.zeros((64, 125), np.int32)
    attention.plan(table, lengths)
    q = np.ones((64, 8, 64), np.float32)
    results = []

    def work():
        for _ in range(20):
            try:
                results.append((attention.run(q, (CACHE, CACHE)) == 1).all())
            except trunkline.BusyError as error:
                results.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    busy = [result for result in results if isinstance(result, str)]
    assert busy and all("in use by another thread" in text for text in busy)
    assert all(result for result in results if not isinstance(result, str))


def test_simple_level_in_many_threads_takes_turns():
    results = []

    def work():
        for _ in range(20):
            results.append((trunkline.decode_attention(Q, CACHE, CACHE, TABLE, LENGTHS) == 1).all())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80 and all(results)


SIMPLE = [
    (dict(q=Q[0]), ValueError, "q has shape [8, 64]; expected: [query tokens, q_heads, head_dim]"),
    (dict(q=Q.astype(np.int32)), TypeError, "q has dtype int32; expected: float16, bfloat16 or float32"),
    (dict(k_cache=CACHE[0]), ValueError, "k_cache has shape [16, 2, 64]"),
    (dict(k_cache=3), TypeError, "k_cache is of type int"),
    (dict(page_table=[[0, 1], [0, 9]]), ValueError, "is 9"),
    (dict(page_table=[[0, 1], [0, -9]]), ValueError, "is -9"),
    (dict(kv_lens=[1]), ValueError, "kv_lens has shape [1]; expected: [batch] = [2]"),
    (dict(v_cache=CACHE.astype(np.float16)), ValueError, "v has dtype f16; expected: f32"),
]


@pytest.mark.parametrize(("wrong", "kind", "text"), SIMPLE, ids=[text for *_, text in SIMPLE])
def test_simple_level(wrong, kind, text):
    right = dict(q=Q, k_cache=CACHE, v_cache=CACHE, page_table=TABLE, kv_lens=LENGTHS)
    with pytest.raises(kind) as raised:
        trunkline.decode_attention(**(right | wrong))
    assert text in str(raised.value)
    assert (trunkline.decode_attention(**right) == 1).all()


class OnAGpu:
    """Stands for a GPU's tensor where there is none: its memory is never touched."""

    def __init__(self, shape, typestr="<f4", index=0):
        self.__cuda_array_interface__ = dict(shape=shape, typestr=typestr, data=(4096, False), version=3)


def test_tensors_of_different_devices():
    attention = planned()
    for name, wrong in (("q", dict(q=OnAGpu(Q.shape))), ("k", dict(kv=(OnAGpu(CACHE.shape), CACHE)))):
        with pytest.raises(ValueError, match=f"{name} is on cuda:0; expected: cpu"):
            attention.run(**(dict(q=Q, kv=(CACHE, CACHE), out=Q.copy()) | wrong))
    for name, wrong in (("out", dict(out=OnAGpu(Q.shape))), ("lse", dict(lse=OnAGpu((2, 8))))):
        with pytest.raises(ValueError, match=f"{name} is on cuda:0; expected: cpu"):
            attention.run(**(dict(q=Q, kv=(CACHE, CACHE)) | wrong))
    with pytest.raises(ValueError, match="kv_lens is on cuda:0; expected: cpu, as planning reads it on the host"):
        attention.plan(TABLE, OnAGpu((2,), "<i4"))
    with pytest.raises(ValueError, match="workspace is on cuda:0; expected: cpu"):
        made(workspace=OnAGpu((1000,), "|u1"))


def test_cuda_without_a_number_is_torchs_current_device(monkeypatch):
    from types import SimpleNamespace

    for initialized, index in ((False, 0), (True, 3)):
        cuda = SimpleNamespace(is_initialized=lambda said=initialized: said, current_device=lambda: 3)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
        assert trunkline._tensors.device_of("cuda") == (trunkline._abi.CUDA, index)
        assert trunkline._tensors.device_of("cuda:1") == (trunkline._abi.CUDA, 1)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert trunkline._tensors.device_of("cuda") == (trunkline._abi.CUDA, 0)


def test_without_a_gpu_the_reason_is_said():
    if trunkline.cuda_status():
        pytest.skip("there is a GPU")
    reason = trunkline.cuda_status().reason
    assert reason
    with pytest.raises(trunkline.UnsupportedError) as raised:
        made(device="cuda")
    assert str(raised.value)
    assert not trunkline.supports(8, 2, 64, dtype="float16", device="cuda")


def test_every_error_is_one_of_pythons_own():
    own = (ValueError, TypeError, RuntimeError, MemoryError, OSError)
    kinds = [kind for kind in vars(trunkline).values() if isinstance(kind, type) and issubclass(kind, trunkline.Error)]
    assert len(kinds) == 12
    assert all(issubclass(kind, own) for kind in kinds if kind is not trunkline.Error)
