"""Wrong arguments of every entry: a trunkline.Error that names argument, found and expected, never Python's own."""

import re

import numpy as np
import pytest
import trunkline

Q = np.ones((2, 8, 64), np.float32)
CACHE = np.ones((4, 16, 2, 64), np.float32)
TABLE = np.array([[0, 1], [0, 2]], np.int32)
LENGTHS = np.array([20, 25], np.int32)
LSE = np.zeros((2, 8), np.float32)


def made(**keywords):
    return trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", **keywords)


def plan(table=TABLE, lengths=LENGTHS, **keywords):
    attention = made()
    attention.plan(table, lengths, **keywords)
    return attention


def options(**keywords):
    return made(options=trunkline.PlanOptions(**keywords))


def live(**keywords):
    return trunkline.LiveBatch(**(dict(page_size=16, num_pages=16) | keywords))


def joined():
    batch = live()
    return batch, batch.join(20, [1, 2])


def explain(**keywords):
    right = dict(page_table=TABLE, kv_lens=LENGTHS, num_qo_heads=8, num_kv_heads=2, head_dim=64, page_size=16)
    return trunkline.explain(**(right | keywords))


def attend(**keywords):
    return trunkline.decode_attention(Q, CACHE, CACHE, TABLE, LENGTHS, **keywords)


def merge(**keywords):
    right = dict(v_a=Q, s_a=LSE, v_b=Q, s_b=LSE)
    return trunkline.merge_state(**(right | keywords))


KINDS = {
    "workers is 3; expected: a Workers": lambda: made(workers=3),
    "profile is 'h200-sxm'; expected: a Profile": lambda: made(profile="h200-sxm"),
    "options is 'trunk'; expected: a PlanOptions": lambda: made(options="trunk"),
    "options is of type dict; expected: a PlanOptions": lambda: made(options={}),
    "device_planning is 4; expected: a DevicePlanning": lambda: made(device_planning=4),
    "edit_share is 'x'; expected: a number": lambda: made(edit_share="x"),
    "use_cuda_graph is 'no'; expected: True or False": lambda: made(use_cuda_graph="no"),
    "max_queries is 2.0; expected: an int": lambda: made(max_queries=2.0),
    "options.capacity_items is 1.5; expected: an int": lambda: options(capacity_items=1.5),
    "options.tile_m is 'x'; expected: an int": lambda: options(tile_m="x"),
    "forest is 5; expected: a Forest": lambda: plan(forest=5),
    "device_tables is 5; expected: a DeviceTables": lambda: plan(device_tables=5),
    "num_pages is 2.5; expected: an int": lambda: plan(num_pages=2.5),
    "num_pages is '16'; expected: an int": lambda: plan(num_pages="16"),
    "num_pages is True; expected: an int": lambda: plan(num_pages=True),
    "null_page is 1.5; expected: an int": lambda: plan(null_page=1.5),
    "check_ids is 'all'; expected: True or False": lambda: plan(check_ids="all"),
    "page_table is a list that makes no array": lambda: plan([[1, 2], [3]]),
    "kv_lens[1] is None; expected: an int": lambda: plan(lengths=[1, None]),
    'kv_lens has dtype "<U21"; expected: numbers': lambda: plan(lengths=[1, "5"]),
    'kv_lens has dtype "object"; expected: numbers': lambda: plan(lengths=LENGTHS.astype(object)),
    'kv_lens has dtype "datetime64[s]"; expected: numbers': lambda: plan(lengths=LENGTHS.astype("M8[s]")),
    "live is 5; expected: a LiveBatch": lambda: made().plan_live(5),
    "step is 5; expected: a PreparedStep": lambda: made().plan_prepared(5),
    "stream is 'x'; expected: an address as an int, or None": lambda: plan().run(Q, (CACHE, CACHE), stream="x"),
    "stream is -1; expected: an address as an int, or None": lambda: plan().run(Q, (CACHE, CACHE), stream=-1),
    "num_queries is True; expected: an int": lambda: plan().run(Q, (CACHE, CACHE), num_queries=True),
    "lse is missing, and cannot be made like a list": lambda: plan().run(
        Q.tolist(), (CACHE, CACHE), return_lse=True, out=Q.copy()
    ),
    "forest is None; expected: a Forest": lambda: plan().current.validate(None),
    "title is None; expected: a str": lambda: explain(title=None),
    "profile is of type dict; expected: a Profile": lambda: explain(profile={}),
    "page_size is '16'; expected: an int": lambda: live(page_size="16"),
    "kv_len is 5.5; expected: an int": lambda: live().join(5.5, [1]),
    "request is 7; expected: what join() or fork() gave": lambda: live().leave(7),
    "request.generation is None; expected: an int": lambda: live().leave((0, None)),
    "page is None; expected: an int": lambda: (lambda batch, one: batch.replace_page(one, 0, None))(*joined()),
    "row is 'last'; expected: an int": lambda: live().request_at("last"),
    "new_pages is 7; expected: a dict": lambda: joined()[0].advance([21], 7),
    "new_pages[0] is 9; expected: page ids": lambda: joined()[0].advance([21], {0: 9}),
    "threads is 2.5; expected: an int": lambda: trunkline.Workers(2.5),
    "threads is 2.0; expected: an int": lambda: trunkline.Profile.generic_cpu(2.0),
    "workers is 2; expected: a Workers": lambda: trunkline.Profile.measure_cpu(2),
    "text is None; expected: a str": lambda: trunkline.Profile.parse(None),
    "name is b'h200-sxm'; expected: a str": lambda: trunkline.Profile.named(b"h200-sxm"),
    "path is 5; expected: a path": lambda: trunkline.Profile.load(5),
    "device is None; expected: an int": lambda: trunkline.cuda_info(None),
    "num_qo_heads is '8'; expected: an int": lambda: trunkline.supports("8", 2, 64),
    "v_a is of type list; expected: a tensor": lambda: merge(v_a=[1]),
    "s_b has dtype float64; expected: float32": lambda: merge(s_b=LSE.astype(np.float64)),
}

VALUES = {
    "policy is of type list; expected: 'auto'": lambda: attend(policy=[]),
    "lse_base is of type dict; expected: 'natural', 'two'": lambda: attend(lse_base={}),
    "kv_layout is of type list; expected: 'NHD', 'HND'": lambda: attend(kv_layout=[]),
    "kernels is 'fast'; expected: 'auto'": lambda: made(kernels="fast"),
    "edit_share is nan; expected: a number of at least 0": lambda: made(edit_share=float("nan")),
    "edit_share is -0.5; expected: a number of at least 0": lambda: made(edit_share=-0.5),
    "max_queries is -3; expected: at least 0": lambda: made(max_queries=-3),
    "null_page is -1; expected: at least 0": lambda: plan(null_page=-1),
    "null_page is 4; ids must be in [0, 4)": lambda: plan(num_pages=4, null_page=4),
    "null_page is 2147483647; ids must be": lambda: plan(num_pages=4, null_page=2**31 - 1),
    "null_page is 2147483647; expected: at most 2147483646": lambda: plan(null_page=2**31 - 1),
    "k has 4 pages; the batch's num_pages is 10": lambda: plan(null_page=9).run(Q, (CACHE, CACHE)),
    "options.null_page is 16; ids must be in [0, 16)": lambda: live(null_page=16),
    "null_page is -2; expected: at least 0": lambda: live(null_page=-2),
    "queries is 0; expected: at least 1": lambda: live().join(5, [1], queries=0),
    "queries is -1; expected: at least 1": lambda: (lambda batch, one: batch.set_queries(one, -1))(*joined()),
    "generations[1] is -1; expected: at least 0": lambda: plan(generations=[3, -1]),
    "kv_lens[1] is 1180591620717411303424; expected: at most 9223372036854775807": lambda: plan(lengths=[1, 2**70]),
    "kv_lens[0] is 9223372036854775808; expected: at most": lambda: plan(lengths=[2**63] * 2),
    "title has a NUL character at 1; expected: none": lambda: explain(title="a\0b"),
    "title has half a character at 0, '\\ud800'": lambda: explain(title="\ud800"),
    "path has a NUL character at 1; expected: none": lambda: trunkline.Profile.load("a\0b"),
    "v_b has shape [1, 8, 64]; expected: [2, 8, 64], as v_a has": lambda: merge(v_b=Q[:1]),
    'device is "cuda:99999999999"; expected': lambda: trunkline.supports(8, 2, 64, device="cuda:99999999999"),
}

# Values beyond 32 and 64 bits, of which a cast would keep only the part behind the multiple of 2^32 or 2^64.
WRAPPED = {
    "num_qo_heads": lambda: trunkline.supports(2**32 + 8, 2, 64),
    "head_dim": lambda: trunkline.DecodeAttention(8, 2, 2**32 + 64, 16),
    "page_size": lambda: explain(page_size=2**32 + 16),
    "options.capacity_items": lambda: options(capacity_items=2**32 + 100),
    "max_queries": lambda: made(max_queries=2**32 + 1),
    "num_pages": lambda: plan(num_pages=2**64 + 16),
    "null_page": lambda: plan(num_pages=16, null_page=2**64),
    "threads": lambda: trunkline.Workers(2**32 + 2),
    "expected_requests": lambda: live(expected_requests=2**32),
    "kv_len": lambda: live().join(2**32 + 5, [9]),
    "request.slot": lambda: (lambda batch, one: batch.leave((2**32 + one.slot, one.generation)))(*joined()),
    "request.generation": lambda: (lambda batch, one: batch.leave((one.slot, 2**32 + one.generation)))(*joined()),
    "index": lambda: (lambda batch, one: batch.replace_page(one, 2**32, 5))(*joined()),
    "row": lambda: joined()[0].request_at(2**32),
    "device": lambda: trunkline.cuda_info(2**32),
}


@pytest.mark.parametrize("text", KINDS)
def test_of_a_wrong_type(text):
    with pytest.raises(trunkline.ArgumentTypeError, match=re.escape(text)):
        KINDS[text]()


@pytest.mark.parametrize("text", VALUES)
def test_of_a_wrong_value(text):
    with pytest.raises(trunkline.InvalidArgumentError, match=re.escape(text)):
        VALUES[text]()


@pytest.mark.parametrize("name", WRAPPED)
def test_beyond_the_integers_of_c(name):
    with pytest.raises(trunkline.InvalidArgumentError, match=rf"^{re.escape(name)} is \d+; expected: at most \d+$"):
        WRAPPED[name]()


def test_numpys_scalars_are_numbers():
    two, lengths = np.int64(2), [np.int32(20), np.int64(25)]
    attention = trunkline.DecodeAttention(
        np.int64(8), two, np.uint8(64), np.int32(16), dtype="float32", edit_share=np.float32(0.5), check_pages=np.False_
    )
    attention.plan(TABLE, lengths, num_pages=np.int64(4), null_page=np.int8(3))
    assert (attention.run(Q, (CACHE, CACHE), num_queries=two) == 1).all()
    batch = live(page_size=np.int16(16))
    batch.advance([np.int64(21)] * 0)
    assert batch.info(batch.join(np.int64(20), [1, 2], queries=np.int8(2))).kv_len == 20


def test_a_null_page_inside_the_pool():
    for null_page in (None, 0, 3):
        assert (plan(num_pages=4, null_page=null_page).run(Q, (CACHE, CACHE)) == 1).all()
    assert plan(null_page=0).statistics.kv_tokens_distinct == LENGTHS.sum()  # page 0 is not shared


def test_a_refused_event_leaves_the_plan():
    batch = live(num_pages=4)
    one = batch.join(20, [1, 2])
    attention = made()
    attention.plan_live(batch)
    for event in (lambda: batch.leave(None), lambda: batch.truncate(one, "all"), lambda: batch.set_queries(one, 0)):
        with pytest.raises(trunkline.Error):
            event()
    assert (attention.run(Q[:1], (CACHE, CACHE)) == 1).all()


class OnlyDlpack:
    """An array of a library that has nothing of numpy's. It hands out copies, which nothing but they keep."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **keywords):
        return self._array.copy().__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("num_pages", [None, 4])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_indices_with_dlpack_alone(dtype, num_pages):
    def only(values):
        return OnlyDlpack(np.asarray(values, dtype))

    attention = made()
    step = dict(query_start_loc=only([0, 1, 2]), query_parents=only([-1, -1]), slots=only([4, 2]), num_pages=num_pages)
    attention.plan(only(TABLE), only(LENGTHS), generations=only([0, 1]), **step)
    assert (attention.run(Q, (CACHE, CACHE)) == 1).all()
    attention.plan(OnlyDlpack(np.asarray(TABLE, dtype)[:, ::-1]), only(LENGTHS), num_pages=num_pages)
    assert (attention.run(Q, (CACHE, CACHE)) == 1).all()
    attention.plan_csr(only([0, 2, 4]), only([0, 1, 0, 2]), only([4, 9]), num_pages=num_pages)
    assert (attention.run(Q, (CACHE, CACHE)) == 1).all()
    batch = live()
    batch.join(20, only([1, 2]))
    batch.advance(only([33]), (only([0, 1]), only([3])))
    assert batch.info(batch.request_at(0)).pages == [1, 2, 3]
    assert (trunkline.merge_states(Q, LSE, only([0, 2]))[0] == 1).all()


class JaxLike:
    """An immutable array whose capsules cannot say so, as jax's."""

    def __init__(self, array):
        self._array = array
        self.shape, self.dtype, self.device = array.shape, array.dtype, "cpu"

    def __dlpack__(self, *, stream=None):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __array_namespace__(self):
        return JaxNamespace


class JaxNamespace:
    @staticmethod
    def asarray(array):
        return JaxLike(array)


JaxLike.__module__ = "jaxlib._jax"


class ReadOnlyDlpack(OnlyDlpack):
    def __dlpack__(self, **keywords):
        array = self._array.view()
        array.flags.writeable = False
        return array.__dlpack__(**keywords)


@pytest.mark.parametrize("kind", [JaxLike, ReadOnlyDlpack])
def test_immutable_outputs(kind):
    attention = plan()
    out, lse = np.full_like(Q, 5), np.full_like(LSE, 5)
    for name, outputs in (("out", dict(out=kind(out))), ("lse", dict(out=out, lse=kind(lse)))):
        with pytest.raises(ValueError, match=f"{name} is read-only; expected: a tensor that can be written"):
            attention.run(Q, (CACHE, CACHE), **outputs)
        with pytest.raises(ValueError, match=f"{name} is read-only"):
            trunkline.merge_states(Q, LSE, [0, 1, 2], **outputs)
    assert (out == 5).all() and (lse == 5).all()


def test_outputs_made_for_immutable_arrays():
    out, lse = plan().run(JaxLike(Q), (JaxLike(CACHE), JaxLike(CACHE)), return_lse=True)
    assert isinstance(out, JaxLike) and isinstance(lse, JaxLike) and lse.dtype == np.float32
    assert (out._array == 1).all()
