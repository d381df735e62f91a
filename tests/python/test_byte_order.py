"""Arrays whose bytes are in another order than the machine's are refused by name, wherever memory comes in."""

import sys

import numpy as np
import pytest
import trunkline
from trunkline import _tensors

FOREIGN = ">" if sys.byteorder == "little" else "<"
TABLE = np.array([[3, 8, 1], [3, 8, 4], [5, 2, 7]], np.int32)
LENGTHS = np.array([40, 37, 48], np.int32)
K = np.random.default_rng(4).standard_normal((16, 16, 2, 64)).astype(np.float32)
Q = K[:3, :4].reshape(3, 8, 64).copy()
STATES, STATE_LSE = np.ones((2, 1, 64), np.float32), np.ones((2, 1), np.float32)


def foreign(array, kind=None):
    """The same numbers in the other order."""
    array = np.asarray(array)
    return array.astype(array.dtype.newbyteorder(FOREIGN) if kind is None else FOREIGN + kind)


def attention():
    return trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32")


def planned():
    made = attention()
    made.plan(TABLE, LENGTHS)
    return made


CALLS = {
    "page_table": lambda: attention().plan(foreign(TABLE), LENGTHS),
    "page_table of int64": lambda: attention().plan(foreign(TABLE, "i8"), LENGTHS, num_pages=16),
    "page_table in one call": lambda: trunkline.decode_attention(Q, K, K, foreign(TABLE), LENGTHS),
    "page_table explained": lambda: trunkline.explain(foreign(TABLE), LENGTHS, 8, 2, 64, 16),
    "kv_lens": lambda: attention().plan(TABLE, foreign(LENGTHS)),
    "query_start_loc": lambda: attention().plan(TABLE, LENGTHS, query_start_loc=foreign([0, 1, 2, 3])),
    "query_parents": lambda: attention().plan(
        TABLE, LENGTHS, query_start_loc=[0, 1, 2, 3], query_parents=foreign([-1, -1, -1])
    ),
    "slots": lambda: attention().plan(TABLE, LENGTHS, slots=foreign([0, 1, 2])),
    "indptr": lambda: attention().plan_csr(foreign([0, 3, 6, 9]), TABLE.ravel(), [8, 5, 16]),
    "indices": lambda: attention().plan_csr([0, 3, 6, 9], foreign(TABLE.ravel(), "i4"), [8, 5, 16]),
    "last_page_len": lambda: attention().plan_csr([0, 3, 6, 9], TABLE.ravel(), foreign([8, 5, 16], "i4")),
    "pages": lambda: trunkline.LiveBatch(page_size=16, num_pages=16).join(40, pages=foreign([7, 8, 9], "i4")),
    "q": lambda: planned().run(foreign(Q), (K, K)),
    "q of f2": lambda: planned().run(foreign(Q, "f2"), (K, K), out=Q.copy()),
    "k": lambda: planned().run(Q, (foreign(K), K)),
    "v": lambda: planned().run(Q, (K, foreign(K))),
    "kv": lambda: planned().run(Q, foreign(np.stack([K, K], 1))),
    "out": lambda: planned().run(Q, (K, K), out=foreign(Q)),
    "lse": lambda: planned().run(Q, (K, K), lse=foreign(np.zeros((3, 8)), "f4")),
    "k_cache": lambda: trunkline.decode_attention(Q, foreign(K), K, TABLE, LENGTHS),
    "workspace": lambda: trunkline.DecodeAttention(8, 2, 64, 16, workspace=foreign(np.zeros(1 << 16), "f4")),
    "states": lambda: trunkline.merge_states(foreign(STATES), STATE_LSE, [0, 2]),
    "state_lse": lambda: trunkline.merge_states(STATES, foreign(STATE_LSE), [0, 2]),
    "begin": lambda: trunkline.merge_states(STATES, STATE_LSE, foreign([0, 2], "i4")),
    "out of a merge": lambda: trunkline.merge_states(STATES, STATE_LSE, [0, 2], out=foreign(STATES[:1])),
}


@pytest.mark.parametrize("name", CALLS)
def test_refused_by_name(name):
    argument = name.split()[0]
    expected = rf"^{argument} has dtype \"{FOREIGN}\w\d\", whose bytes are \w+-endian; expected: {sys.byteorder}-endian"
    with pytest.raises(TypeError, match=expected) as raised:
        CALLS[name]()
    assert isinstance(raised.value, trunkline.ArgumentTypeError)


@pytest.mark.parametrize("interface", ["__array_interface__", "__cuda_array_interface__"])
def test_every_interface(interface):
    """Nothing is read from the address, so none need be there."""
    described = {"data": (4096, False), "shape": (4,), "strides": None, "version": 3}
    array = type("Array", (), {interface: {**described, "typestr": f"{FOREIGN}f4"}})()
    with pytest.raises(TypeError, match=r"^q has dtype"):
        _tensors.view(array, "q")
    native = type("Array", (), {interface: {**described, "typestr": np.dtype(np.float32).str}})()
    assert _tensors.view(native, "q").dtype_name == "float32"


def test_a_dtype_by_name():
    with pytest.raises(ValueError, match=r"dtype is dtype\('.f4'\); expected: float16, bfloat16 or float32"):
        trunkline.DecodeAttention(8, 2, 64, 16, dtype=np.dtype(FOREIGN + "f4"))
