"""Tables on a GPU, as far as they can be checked where there is none: what stands for them is never read."""

import numpy as np
import pytest
from trunkline import DeviceTables, _abi
from trunkline._device_tables import DeviceBatch


class OnAGpu:
    def __init__(self, shape, typestr="<i4", strides=None):
        self.__cuda_array_interface__ = dict(
            shape=shape, typestr=typestr, strides=strides, data=(4096, False), version=3
        )


def batch_of(tables):
    return DeviceBatch(tables, 16, 0, rows=2, num_pages=3)


LENGTHS = OnAGpu((2,))


@pytest.mark.parametrize("typestr", ["<i4", "<i8"])
def test_dense(typestr):
    size = int(typestr[2])
    # A slice of a wider table: rows keep their distance.
    tables = DeviceTables(LENGTHS, page_table=OnAGpu((2, 2), typestr, (10 * size, size)))
    found = batch_of(tables)
    assert (found.pages.form, found.pages.width, found.pages.rows, found.pages.id_count) == (_abi.DENSE, 10, 2, 12)
    assert found.pages.id_dtype == (_abi.I32 if size == 4 else _abi.I64)
    assert (found.pages.ids, found.batch.kv_lens, found.batch.num_pages) == (4096, 4096, 3)


def test_csr_and_token_level():
    csr = batch_of(DeviceTables(LENGTHS, indptr=OnAGpu((3,)), indices=OnAGpu((4,))))
    assert (csr.pages.form, csr.pages.indptr, csr.pages.id_count) == (_abi.CSR, 4096, 4)
    tokens = DeviceTables(LENGTHS, req_to_token=OnAGpu((9, 50)), req_pool_indices=OnAGpu((2,)))
    found = batch_of(tokens)
    assert (found.pages.form, found.pages.width, found.pages.row_map) == (_abi.TOKEN_LEVEL, 50, 4096)


TABLE = OnAGpu((2, 2))
WRONG = [
    (DeviceTables(LENGTHS), ValueError, "device_tables has no page table; expected: page_table, or indptr"),
    (DeviceTables(LENGTHS, page_table=np.zeros((2, 2), np.int32)), ValueError, "is on cpu; expected: cuda:0"),
    (DeviceTables(LENGTHS, page_table=OnAGpu((2, 2), "<f4")), TypeError, "dtype float32; expected: int32 or int64"),
    (DeviceTables(LENGTHS, page_table=OnAGpu((4,))), ValueError, "page_table has shape [4]; expected: 2 dimension"),
    (DeviceTables(LENGTHS, page_table=OnAGpu((3, 2))), ValueError, "page_table has 3 rows; expected: 2"),
    (DeviceTables(LENGTHS, page_table=OnAGpu((2, 2), "<i4", (4, 8))), ValueError, "page_table has strides [1, 2]"),
    (DeviceTables(OnAGpu((1,)), page_table=TABLE), ValueError, "kv_lens has shape [1]; expected: [2]"),
    (DeviceTables(OnAGpu((2,), "<i8"), page_table=TABLE), TypeError, "kv_lens has dtype int64; expected: int32"),
    (DeviceTables(OnAGpu((2,), "<i4", (8,)), page_table=TABLE), ValueError, "kv_lens has strides [2]; expected: [1]"),
    (DeviceTables(None, page_table=TABLE), ValueError, "device_tables.kv_lens is missing"),
    (DeviceTables(LENGTHS, indices=OnAGpu((4,))), ValueError, "device_tables.indptr is missing"),
    (
        DeviceTables(LENGTHS, indices=OnAGpu((4,)), indptr=OnAGpu((2,))),
        ValueError,
        "indptr has shape [2]; expected: [3]",
    ),
    (DeviceTables(LENGTHS, req_to_token=TABLE), ValueError, "device_tables.req_pool_indices is missing"),
]


@pytest.mark.parametrize(("tables", "kind", "text"), WRONG, ids=[text for *_, text in WRONG])
def test_bad_tables(tables, kind, text):
    with pytest.raises(kind) as raised:
        batch_of(tables)
    assert text in str(raised.value)
