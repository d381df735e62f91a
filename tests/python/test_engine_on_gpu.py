"""The engine layer's steps on a GPU, without one: a library that only takes notes stands for the C interface, and
memory of the host for the device's. What a planner would read there is compared, at the time of its call."""

import ctypes
import dataclasses
import logging

import numpy as np
import pytest
import trunkline
from test_device_planning_calls import Notes
from trunkline import _abi, _device_planner
from trunkline._executors import CudaExecutor
from trunkline.integrations import engine
from trunkline.integrations.engine import steps as steps_module

ROWS, WIDTH, PAGE_SIZE = 4, 3, 16
LENGTHS = [40, 0, 17, 48]
TABLE = np.array([[5, 6, 7], [0, 0, 0], [5, 8, 0], [5, 6, 9]], np.int32)


class OnDevice:
    """An array that is said to be on a GPU."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.dtype = self.values.shape, self.values.dtype

    @property
    def __cuda_array_interface__(self):
        values = self.values
        place = dict(data=(values.ctypes.data, False), strides=values.strides, version=3)
        return dict(shape=values.shape, typestr=values.dtype.str, **place)

    def __getitem__(self, key):
        return OnDevice(self.values[key])

    def _with(self, other, compute):
        return OnDevice(compute(self.values, getattr(other, "values", other)))

    def __add__(self, other):
        return self._with(other, np.add)

    def __sub__(self, other):
        return self._with(other, np.subtract)

    def __mul__(self, other):
        return self._with(other, np.multiply)

    def __gt__(self, other):
        return self._with(other, np.greater)


class DeviceArrays(engine.NumpyArrays):
    device = "cuda:0"

    def empty(self, shape, dtype):
        return OnDevice(np.zeros(shape, dtype))

    zeros = empty

    def copy(self, into, source):
        into.values[...] = source.values

    def address(self, array):
        return array.values.ctypes.data


class Library(Notes):
    """Remembers what is in the memory that each plan would read."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch)
        self.plans = []
        noting = self._function("plan")

        def plan(*arguments):
            found = noting(*arguments)
            batch, pages, rows = self.batch, self.pages, self.pages.rows

            def ints(address, count):
                return (ctypes.c_int32 * count).from_address(address)[:] if address else None

            self.plans.append(
                dict(
                    form=pages.form,
                    kv_lens=ints(batch.kv_lens, rows),
                    query_start=ints(batch.query_start, rows + 1),
                    query_parents=ints(batch.query_parents, batch.queries),
                    queries=batch.queries,
                    num_pages=batch.num_pages,
                    ids=ints(pages.ids, pages.id_count),
                    indptr=ints(pages.indptr, rows + 1),
                    row_map=ints(pages.row_map, rows),
                )
            )
            return found

        monkeypatch.setattr(_device_planner.c, "trunkline_cuda_plan", plan)


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setattr(CudaExecutor, "stream", lambda _, given: given or 0)
    monkeypatch.setattr(_device_planner, "_is_capturing", lambda: False)
    monkeypatch.setattr(steps_module, "_profile", lambda *_: trunkline.Profile.named("h100-sxm"))
    return Library(monkeypatch)


@pytest.fixture
def prepared(monkeypatch):
    """The number of steps that were checked."""
    found, prepare = [], trunkline.DecodeAttention.prepare_tables
    monkeypatch.setattr(
        trunkline.DecodeAttention,
        "prepare_tables",
        lambda self, *given, **named: found.append(1) or prepare(self, *given, **named),
    )
    return found


def made(page_size=PAGE_SIZE, invariant=False, **changes):
    facts = engine.LayerFacts(8, 2, 128, page_size, "bfloat16", **changes)
    settings, logger = engine.Settings("on", False, 0), logging.getLogger("engine.tests")
    described = engine.Engine("Toy", logger, settings, null_page=0, invariant=invariant)
    return engine.DecodeSteps(
        described, facts, ["l0"], DeviceArrays(), max_rows=8, max_tokens=32, num_pages=99, max_kv_len=40960
    )


def tables(form, lists):
    lengths = OnDevice(np.array(LENGTHS, lists))
    if form == "dense":
        return engine.DenseTables(OnDevice(TABLE.copy()), lengths)
    if form == "csr":
        indices = np.array([5, 6, 7, 5, 8, 5, 6, 9, 0, 0], np.int32)
        indptr, last = np.array([0, 3, 3, 5, 8], lists), np.array([8, 9, 1, 16], lists)
        return engine.CsrTables(OnDevice(indptr), OnDevice(indices), OnDevice(last))
    return engine.TokenTables(OnDevice(TABLE.copy()), OnDevice(np.array([3, 1, 2, 0], lists)), lengths)


@pytest.mark.parametrize("lists", [np.int32, np.int64])
@pytest.mark.parametrize("form", ["dense", "csr", "token"])
def test_steps_are_checked_once_and_read_anew(library, prepared, form, lists):
    steps = made(1 if form == "token" else PAGE_SIZE)
    step = tables(form, lists)
    for rows in (ROWS, 3, ROWS):
        steps.plan(step, rows)
    # The engine writes the next step into the same memory.
    if form == "csr":
        step.last_page_len.values[2] = 7
    else:
        step.kv_lens.values[2] = 23
    steps.plan(step, 3)
    assert len(prepared) == 2
    assert [plan["kv_lens"] for plan in library.plans] == [LENGTHS, LENGTHS[:3], LENGTHS, [40, 0, 23]]
    first = library.plans[0]
    assert (first["num_pages"], first["query_start"], first["queries"]) == (99, None, 0)
    assert first["form"] == {"dense": _abi.DENSE, "csr": _abi.CSR, "token": _abi.TOKEN_LEVEL}[form]
    assert first["indptr"] == ([0, 3, 3, 5, 8] if form == "csr" else None)
    assert first["row_map"] == ([3, 1, 2, 0] if form == "token" else None)
    assert first["ids"] == ([5, 6, 7, 5, 8, 5, 6, 9, 0, 0] if form == "csr" else TABLE.ravel().tolist())


@pytest.mark.parametrize(("word", "kv_dtype"), [("auto", _abi.BF16), ("fp8", _abi.F8E4M3), ("fp8_e5m2", _abi.F8E5M2)])
def test_the_profile_is_of_kernels_for_the_caches_type(monkeypatch, word, kv_dtype):
    shapes = []
    monkeypatch.setattr(trunkline.Profile, "_made", lambda function, *given: shapes.append(given[1]._obj))
    facts = engine.LayerFacts(8, 2, 128, PAGE_SIZE, "bfloat16", kv_cache_dtype=word)
    steps_module._profile(facts, "cuda:1")
    assert [(shape.q_dtype, shape.kv_dtype) for shape in shapes] == [(_abi.BF16, kv_dtype)]


def test_the_null_page_is_the_planners(library):
    made()
    assert (library.options.has_null_page, library.options.null_page, library.options.rows) == (1, 0, 8)


def test_invariant_plans_have_room_for_each_chunk_of_each_request(library):
    made(invariant=True)
    options = library.options
    assert (options.policy, options.invariant_chunk) == (_abi.POLICY_INVARIANT, 2048)
    assert options.capacity_items == options.capacity_partials == 8 * 20


def test_lists_that_moved_are_checked_anew(library, prepared):
    steps, step = made(), tables("dense", np.int32)
    steps.plan(step, ROWS)
    moved = engine.DenseTables(step.page_table, OnDevice(np.array([1, 2, 3, 4], np.int32)))
    steps.plan(moved, ROWS)
    assert len(prepared) == 2 and library.plans[1]["kv_lens"] == [1, 2, 3, 4]


MOVED = "the page table is elsewhere than with the first plan"  # where captured graphs read it


@pytest.mark.parametrize(
    ("form", "name"),
    [("dense", "page_table"), ("csr", "indptr"), ("csr", "indices"), ("token", "req_to_token")]
    + [("token", "req_pool_indices")],
)
def test_tables_that_moved_are_refused(library, form, name):
    steps, step = made(1 if form == "token" else PAGE_SIZE), tables(form, np.int32)
    steps.plan(step, ROWS)
    moved = OnDevice(getattr(step, name).values.copy())
    with pytest.raises(trunkline.InvalidArgumentError, match=MOVED):
        steps.plan(dataclasses.replace(step, **{name: moved}), ROWS)
    steps.plan(step, ROWS)


@pytest.mark.parametrize(("form", "name"), [("csr", "indptr"), ("token", "req_pool_indices")])
def test_lists_of_64_bits_may_move(library, form, name):
    steps, step = made(1 if form == "token" else PAGE_SIZE), tables(form, np.int64)
    steps.plan(step, ROWS)
    steps.plan(dataclasses.replace(step, **{name: OnDevice(getattr(step, name).values.copy())}), ROWS)
    assert len(library.plans) == 2


@pytest.mark.parametrize("lists", [np.int32, np.int64])
def test_several_query_tokens(library, prepared, lists):
    steps, step = made(longest_query=3), tables("dense", np.int32)
    starts = OnDevice(np.array([0, 3, 3, 5, 8, 99], lists))
    assert library.options.capacity_queries == 24
    steps.plan(step, ROWS, starts, 8)
    starts.values[1:5] = [1, 1, 4, 6]
    steps.plan(step, ROWS, starts, 8)
    steps.plan(step, ROWS, starts, 6)
    found = [(plan["query_start"], plan["queries"]) for plan in library.plans]
    assert found == [([0, 3, 3, 5, 8], 8), ([0, 1, 1, 4, 6], 8), ([0, 1, 1, 4, 6], 6)]
    assert len(prepared) == 2
    moved = OnDevice(starts.values.copy())
    moved.values[1:5] = [2, 2, 4, 5]
    steps.plan(step, ROWS, moved, 6)
    assert library.plans[-1]["query_start"] == [0, 2, 2, 4, 5] and len(prepared) == 3


@pytest.mark.parametrize("lists", [np.int32, np.int64])
def test_steps_with_and_without_several_query_tokens_stay_prepared(library, prepared, lists):
    steps, step = made(longest_query=3), tables("dense", np.int32)
    starts, parents = OnDevice(np.array([0, 1, 1, 3, 4], lists)), OnDevice(np.array([-1, -1, 0, -1], lists))
    checked = []
    for _ in range(4):
        steps.plan(step, ROWS)
        steps.plan(step, ROWS, starts, 4)
        steps.plan(step, ROWS, starts, 4, query_parents=parents)
        checked.append(len(prepared))
    assert checked == [3, 5, 5, 5]  # all are checked again after the first step that brings a list
    found = [(plan["query_start"], plan["query_parents"]) for plan in library.plans[-3:]]
    assert found == [(None, None), ([0, 1, 1, 3, 4], None), ([0, 1, 1, 3, 4], [-1, -1, 0, -1])]


def test_counters_are_of_the_devices_report(library):
    steps, step = made(), tables("dense", np.int32)
    steps.plan(step, ROWS)
    steps.look()
    assert (steps.counters.decode_steps, steps.counters.plans_made) == (1, 3)  # as the library's note has it
