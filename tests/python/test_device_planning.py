"""Plans made on a GPU, as far as they can be checked where there is none: options, and what is refused."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import trunkline
from test_device_tables import OnAGpu
from trunkline import DevicePlanning, _abi
from trunkline._device_planner import csr_tables, refuse_host_options
from trunkline._device_planning import DevicePlanReport
from trunkline._device_tables import DeviceBatch
from trunkline._step_options import StepOptions

SHAPE = SimpleNamespace(q_heads=32, kv_heads=8)
OPTIONS = trunkline.PlanOptions()


def filled(planning, shape=SHAPE, plan_options=OPTIONS):
    options = planning._struct(3, 132, shape, plan_options)
    return {name: getattr(options, name) for name, _ in options._fields_}


def test_capacities_by_default():
    assert filled(DevicePlanning(256)) == dict(
        struct_size=56,
        device=3,
        rows=256,
        capacity_queries=256,
        capacity_items=2 * 256 + 8 * 132,
        capacity_spans=32 * 256 + 8 * (2 * 256 + 8 * 132) + 65536,
        capacity_partials=4 * 256 + 4 * 17 * 32,
        growth=64,
        has_null_page=0,
        null_page=0,
        policy=_abi.POLICY_TRUNK,
        invariant_chunk=0,
    )
    assert filled(DevicePlanning(256, max_queries=700))["capacity_queries"] == 700
    one_head = filled(DevicePlanning(256), SimpleNamespace(q_heads=4, kv_heads=1))
    assert one_head["capacity_partials"] == 4 * 256 + 4 * 132 * 32, "four full tiles of 32 queries for each worker"


def test_what_is_given_is_taken():
    given = DevicePlanning(4, 9, capacity_items=5, capacity_spans=6, capacity_partials=7, null_page=0, growth=0)
    assert filled(given, plan_options=trunkline.PlanOptions("invariant", invariant_chunk=256)) == dict(
        struct_size=56,
        device=3,
        rows=4,
        capacity_queries=9,
        capacity_items=5,
        capacity_spans=6,
        capacity_partials=7,
        growth=-1,  # none; 0 is the default there
        has_null_page=1,
        null_page=0,
        policy=_abi.POLICY_INVARIANT,
        invariant_chunk=256,
    )


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (dict(max_rows=0), ValueError, "device_planning.max_rows is 0; expected: at least 1"),
        (dict(max_rows=2.0), TypeError, "device_planning.max_rows is 2.0; expected: an int"),
        (dict(max_rows=True), TypeError, "device_planning.max_rows is True; expected: an int"),
        (dict(max_rows=2**32 + 4), ValueError, "device_planning.max_rows is 4294967300; expected: at most 2147483647"),
        (dict(max_queries=-1), ValueError, "device_planning.max_queries is -1; expected: at least 0"),
        (dict(capacity_items=-5), ValueError, "device_planning.capacity_items is -5"),
        (dict(growth=-1), ValueError, "device_planning.growth is -1; expected: at least 0"),
        (dict(growth=None), TypeError, "device_planning.growth is None; expected: an int"),
        (dict(null_page=-3), ValueError, "device_planning.null_page is -3"),
    ],
)
def test_bad_options(wrong, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        DevicePlanning(**(dict(max_rows=2) | wrong))._struct(0, 132, SHAPE, OPTIONS)


def test_a_chunk_beyond_32_bits_is_refused_by_name():
    options = trunkline.PlanOptions("invariant", invariant_chunk=2**31)
    with pytest.raises(ValueError, match=r"options\.invariant_chunk is 2147483648; expected: at most 2147483647"):
        DevicePlanning(2)._struct(0, 132, SHAPE, options)


def test_limits_of_huge_batches_stay_in_32_bits():
    found = DevicePlanning(2**30)._struct(0, 132, SHAPE, OPTIONS)
    assert (found.capacity_items, found.capacity_spans, found.capacity_partials) == (2**31 - 1,) * 3


def test_the_report_has_what_the_library_writes():
    names = [name for name, _ in _abi.CudaPlanReport._fields_]
    assert names == ["struct_size", *DevicePlanReport.__dataclass_fields__, "reserved"]


def test_on_the_cpu():
    with pytest.raises(ValueError, match="device_planning is given on the CPU; expected: device=.cuda."):
        trunkline.DecodeAttention(8, 2, 64, 16, device_planning=DevicePlanning(2))
    with pytest.raises(ValueError, match=r"plan_report\(\) needs device_planning"):
        trunkline.DecodeAttention(8, 2, 64, 16).plan_report()


@pytest.mark.skipif(bool(trunkline.cuda_status()), reason="there is a GPU")
def test_without_a_gpu():
    with pytest.raises(NotImplementedError) as raised:
        trunkline.DecodeAttention(32, 8, 128, 16, device="cuda", device_planning=DevicePlanning(2))
    assert str(raised.value) == trunkline.cuda_status().reason


@pytest.mark.parametrize(
    ("step", "kind", "text"),
    [
        (dict(forest=object()), ValueError, "forest is given; expected with device_planning: none"),
        (dict(slots=[0]), ValueError, "slots is given"),
        (dict(generations=[0]), ValueError, "generations is given"),
        (dict(device_tables=object()), ValueError, "device_tables is given"),
        (dict(check_ids=True), ValueError, "check_ids is True; expected with device_planning: False"),
        (dict(null_page=3), ValueError, "null_page is 3; expected: that of device_planning, None"),
    ],
)
def test_arguments_for_plans_of_the_host(step, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        refuse_host_options(StepOptions(**step), DevicePlanning(2))


def test_arguments_that_say_nothing():
    refuse_host_options(StepOptions(check_ids=False, stream=7, num_pages=3), DevicePlanning(2))
    refuse_host_options(StepOptions(null_page=5), DevicePlanning(2, null_page=5))


def batch_of(query_start_loc=None, **tables):
    return DeviceBatch(trunkline.DeviceTables(**tables), 16, 0, query_start_loc=query_start_loc, prefix="")


LENGTHS, TABLE = OnAGpu((2,)), OnAGpu((2, 2))


def test_rows_are_those_of_kv_lens():
    found = batch_of(kv_lens=LENGTHS, page_table=TABLE, query_start_loc=OnAGpu((3,)))
    assert (found.rows, found.pages.rows, found.batch.query_start) == (2, 2, 4096)
    assert batch_of(kv_lens=LENGTHS, page_table=TABLE).batch.query_start is None


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (dict(kv_lens=np.zeros(2, np.int32)), ValueError, "kv_lens is on cpu; expected: cuda:0"),
        (dict(kv_lens=[20, 30]), TypeError, "kv_lens is of type list; expected: a tensor"),
        (dict(kv_lens=None), ValueError, "kv_lens is missing"),
        (dict(kv_lens=OnAGpu(())), ValueError, "kv_lens has shape []; expected: 1 dimension"),
        (dict(kv_lens=OnAGpu((2,), "<i8")), TypeError, "kv_lens has dtype int64; expected: int32"),
        (dict(kv_lens=OnAGpu((3,))), ValueError, "page_table has 2 rows; expected: 3, as the batch has"),
        (dict(page_table=np.zeros((2, 2), np.int32)), ValueError, "page_table is on cpu; expected: cuda:0"),
        (dict(page_table=None), ValueError, "the step has no page table"),
        (dict(query_start_loc=np.zeros(3, np.int32)), ValueError, "query_start_loc is on cpu; expected: cuda:0"),
        (dict(query_start_loc=OnAGpu((2,))), ValueError, "query_start_loc has shape [2]; expected: [3]"),
        (dict(query_start_loc=OnAGpu((3,), "<i8")), TypeError, "query_start_loc has dtype int64; expected: int32"),
    ],
)
def test_bad_tables(wrong, kind, text):
    with pytest.raises(kind) as raised:
        batch_of(**(dict(kv_lens=LENGTHS, page_table=TABLE) | wrong))
    assert str(raised.value).startswith(text)


class Computing(OnAGpu):
    """Integers that are said to be on a GPU, and compute as a library's there."""

    def __init__(self, values, typestr="<i4"):
        self.values = np.asarray(values)
        super().__init__(self.values.shape, typestr)

    def __getitem__(self, key):
        return Computing(self.values[key])

    def __gt__(self, other):
        return Computing(self.values > other)

    def _with(self, other, compute):
        return Computing(compute(self.values, getattr(other, "values", other)))

    def __add__(self, other):
        return self._with(other, np.add)

    def __sub__(self, other):
        return self._with(other, np.subtract)

    def __mul__(self, other):
        return self._with(other, np.multiply)


def test_lengths_of_csr_tables():
    indices = OnAGpu((5,))
    tables = csr_tables(Computing([0, 3, 3, 4, 5]), indices, Computing([5, 9, 16, 1]), 16, 0)
    assert tables.kv_lens.values.tolist() == [
        37,
        0,
        16,
        1,
    ]  # without pages: empty, whatever last is
    assert tables.indices is indices


@pytest.mark.parametrize(
    ("indptr", "last", "kind", "text"),
    [
        (np.array([0, 1], np.int32), OnAGpu((1,)), ValueError, "indptr is on cpu; expected: cuda:0"),
        (OnAGpu((3,)), np.array([1, 1], np.int32), ValueError, "last_page_len is on cpu; expected: cuda:0"),
        (OnAGpu((3,), "<i8"), OnAGpu((2,)), TypeError, "indptr has dtype int64; expected: int32"),
        (OnAGpu((3,)), OnAGpu((3,)), ValueError, "last_page_len has shape [3]; expected: [batch] = [2]"),
        (OnAGpu((0,)), OnAGpu((0,)), ValueError, "indptr is empty; expected: [batch + 1], from 0"),
    ],
)
def test_bad_csr_tables(indptr, last, kind, text):
    with pytest.raises(kind) as raised:
        csr_tables(indptr, OnAGpu((5,)), last, 16, 0)
    assert str(raised.value) == text
