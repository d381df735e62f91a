"""The engine layer's decode steps on the CPU, compared with plain attention: all forms of tables, both layouts, null
pages, counters, the gain switch, steps beside prefill, shadow mode, snapshots. Arrays are numpy's, and torch's where it
is installed."""

import importlib.util
import logging

import numpy as np
import oracle
import pytest
import trunkline
from trunkline.integrations import engine

HEADS, KV_HEADS, DIM, PAGES = 4, 2, 64, 128
LOGGER = logging.getLogger("engine.tests")
ROWS = 6
LIBRARIES = ["numpy"] + (["torch"] if importlib.util.find_spec("torch") else [])


class Library:
    """Makes an engine's arrays from numpy's."""

    def __init__(self, name):
        if name == "numpy":
            self.arrays, self.of = engine.NumpyArrays(), lambda array: array
        else:
            import torch

            self.arrays, self.of = engine.TorchArrays("cpu"), torch.from_numpy


class Step:
    """Five requests, of which three share three pages and two of these a fourth, and a row of padding."""

    def __init__(self, page_size, seed=0):
        random = np.random.default_rng(seed)
        pages = (1 + random.permutation(PAGES - 1)).tolist()
        trunk = [pages.pop() for _ in range(3)]
        branch = [*trunk, pages.pop()]
        self.page_size = page_size
        self.rows = [
            [*trunk, pages.pop()],
            [pages.pop()],
            [*branch, pages.pop()],
            [*branch, pages.pop(), pages.pop()],
            [pages.pop(), pages.pop()],
            [],
        ]
        self.kv_lens = np.array(
            [len(row) * page_size - (page_size > 1 and len(row) > 0) for row in self.rows], np.int32
        )
        self.k, self.v = random.standard_normal((2, PAGES, page_size, KV_HEADS, DIM), np.float32)
        self.query = random.standard_normal((ROWS, HEADS, DIM), np.float32)
        self.expected, _ = oracle.attention(self.query, self.k, self.v, self.rows, self.kv_lens)

    def table(self, dtype=np.int32):
        found = np.full((ROWS, 8), 2**30, dtype)
        for row, pages in enumerate(self.rows):
            found[row, : len(pages)] = pages
        return found

    def tables(self, form, lists, of):
        """In one of three forms; lists: the type of lengths and indices."""
        lengths = of(self.kv_lens.astype(lists))
        if form == "dense":
            return engine.DenseTables(of(self.table()), lengths)
        if form == "csr":
            counts = [len(row) for row in self.rows]
            indices = np.array([page for row in self.rows for page in row] + [0] * 9, np.int32)
            last = np.where(self.kv_lens > 0, (self.kv_lens - 1) % self.page_size + 1, 1)
            return engine.CsrTables(of(np.cumsum([0, *counts]).astype(lists)), of(indices), of(last.astype(lists)))
        pool = np.full((9, 8), 2**30, np.int32)
        places = np.array([7, 2, 5, 1, 3, 0])
        pool[places] = self.table()
        return engine.TokenTables(of(pool), of(places.astype(lists)), lengths)

    def cache(self, layout, of):
        k, v = (self.k, self.v) if layout == "NHD" else (x.transpose(0, 2, 1, 3).copy() for x in (self.k, self.v))
        return of(k), of(v)


def toy(*, layout="NHD", null_page=0, shadow=False, rule=None, **changes):
    settings = engine.Settings("on", shadow, 0, rule is not None)
    return engine.Engine("Toy", LOGGER, settings, layout, null_page, gain_rule=rule or engine.GainRule(), **changes)


def decode_steps(described, page_size, arrays=None, max_kv_len=None, **changes):
    facts = engine.LayerFacts(HEADS, KV_HEADS, DIM, page_size, "float32", device="cpu", **changes)
    return engine.DecodeSteps(
        described,
        facts,
        ["l0", "l1"],
        arrays or engine.NumpyArrays(),
        max_rows=16,
        max_tokens=64,
        num_pages=PAGES,
        max_kv_len=max_kv_len,
    )


def run(steps, step, layout="NHD", of=lambda array: array, rows=ROWS):
    output = np.full((rows + 2, HEADS, DIM), np.nan, np.float32)  # two rows more than the step has
    query = np.concatenate([step.query[:rows], np.full((2, HEADS, DIM), np.nan, np.float32)])
    steps.run(of(query), step.cache(layout, of), of(output), None, rows)
    assert np.isnan(output[rows:]).all()
    return output[:rows]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("lists", [np.int32, np.int64])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("form", ["dense", "csr", "token"])
def test_forms_of_tables(form, layout, lists, library):
    step, made = Step(1 if form == "token" else 16), Library(library)
    described = toy(layout=layout)
    steps = decode_steps(described, step.page_size, made.arrays)
    tables = step.tables(form, lists, made.of)
    for rows in (ROWS, 3, ROWS):
        assert steps.takes(rows, rows)
        steps.plan(tables, rows)
        np.testing.assert_allclose(run(steps, step, layout, made.of, rows), step.expected[:rows], atol=2e-5)
    found = described.groups.statistics()["l0"]
    assert (found["decode_steps"], found["decode_rows"], found["engine_steps"]) == (3, 2 * ROWS + 3, 0)
    # A look every 16 steps, here one by statistics(), stands for all of them.
    assert found["plans_made"] == 3 and found["kv_tokens"] == 3 * int(step.kv_lens.sum())
    if step.page_size > 1:  # a trunk of three tokens is not worth an item of its own
        assert found["shared_steps"] == 3 and found["kv_tokens_read"] < found["kv_tokens"]
    assert found["kv_bytes_saved"] == (found["kv_tokens"] - found["kv_tokens_read"]) * 2 * 2 * KV_HEADS * DIM * 4


@pytest.mark.parametrize("lists", [np.int32, np.int64])
@pytest.mark.parametrize("form", ["dense", "csr", "token"])
def test_arrays_that_are_written_anew_are_read_anew(form, lists):
    """The engine writes the next step's tables into the same memory. On the CPU it may also bring other memory, which a
    GPU refuses of page ids (test_engine_on_gpu.py)."""
    first, second = (Step(1 if form == "token" else 16, seed) for seed in (1, 2))
    steps = decode_steps(toy(), first.page_size)
    live = first.tables(form, lists, lambda array: array)
    steps.plan(live, ROWS)
    np.testing.assert_allclose(run(steps, first), first.expected, atol=2e-5)
    later = second.tables(form, lists, lambda array: array)
    for name, array in vars(later).items():
        getattr(live, name)[...] = array
    steps.plan(live, ROWS)
    np.testing.assert_allclose(run(steps, second), second.expected, atol=2e-5)
    steps.plan(first.tables(form, lists, lambda array: array), ROWS)
    np.testing.assert_allclose(run(steps, first), first.expected, atol=2e-5)


@pytest.mark.parametrize(("null_page", "saved"), [(0, 0), (None, 32)])
def test_a_null_page_is_not_shared(null_page, saved):
    described = toy(null_page=null_page)
    steps = decode_steps(described, 16)
    tables = engine.DenseTables(np.array([[0, 0, 3], [0, 0, 4]], np.int32), np.array([40, 41], np.int32))
    steps.plan(tables, 2)
    found = described.groups.statistics()["l0"]
    # Two pages of both rows are page 0: shared where 0 is a page as any other.
    assert found["kv_tokens"] == 81
    assert steps.attention.statistics.kv_tokens_distinct == 81 - saved


def test_several_query_tokens():
    step = Step(16)
    steps = decode_steps(toy(), 16, longest_query=3)
    counts = [3, 1, 2, 1, 3, 0]
    starts = np.cumsum([0, *counts])  # int64
    query = np.random.default_rng(5).standard_normal((int(starts[-1]), HEADS, DIM), np.float32)
    expected, _ = oracle.attention(query, step.k, step.v, step.rows, step.kv_lens, query_start=starts)
    assert steps.several
    steps.plan(step.tables("dense", np.int32, lambda array: array), ROWS, starts, int(starts[-1]))
    output = np.empty_like(query)
    steps.run(query, (step.k, step.v), output, None, len(query))
    np.testing.assert_allclose(output, expected, atol=2e-5)


def test_rows_behind_the_last_query_token_need_no_prefix_sums():
    step = Step(16)
    steps = decode_steps(toy(), 16)
    steps.plan(step.tables("dense", np.int32, lambda array: array), ROWS, None, 3)
    np.testing.assert_allclose(run(steps, step, rows=3), step.expected[:3], atol=2e-5)


@pytest.mark.parametrize("lists", [np.int32, np.int64])
def test_draft_trees(lists):
    """Steps with trees, with chains and with a query token a row follow each other; their arrays are written anew."""
    step = Step(16)
    steps = decode_steps(toy(), 16, longest_query=3)
    tables = step.tables("dense", np.int32, lambda array: array)
    counts = [3, 1, 3, 2, 1, 0]
    starts = np.cumsum([0, *counts]).astype(lists)
    tokens = int(starts[-1])
    parents = np.array([-1, 0, 0, -1, -1, 0, 1, -1, 0, -1], lists)
    query = np.random.default_rng(5).standard_normal((tokens, HEADS, DIM), np.float32)
    for given in (parents, None, parents):
        expected, _ = oracle.attention(
            query, step.k, step.v, step.rows, step.kv_lens, query_start=starts, parents=given
        )
        steps.plan(tables, ROWS, starts, tokens, query_parents=given)
        output = np.empty_like(query)
        steps.run(query, (step.k, step.v), output, None, tokens)
        np.testing.assert_allclose(output, expected, atol=2e-5)
        steps.plan(tables, ROWS)
        np.testing.assert_allclose(run(steps, step), step.expected, atol=2e-5)
        parents[5:7] = [0, 0]


def test_invariant_steps_have_the_same_bits_in_any_batch():
    step = Step(16)
    steps = decode_steps(toy(invariant=True), 16, max_kv_len=96)
    tables = step.tables("dense", np.int32, lambda array: array)
    assert steps.takes(ROWS, ROWS) and steps.takes(1, ROWS, prefill_tokens=64)
    steps.plan(tables, ROWS)
    together = run(steps, step)
    np.testing.assert_allclose(together, step.expected, atol=2e-5)
    for row in range(ROWS):
        alone = engine.DenseTables(tables.page_table[row : row + 1].copy(), tables.kv_lens[row : row + 1].copy())
        steps.plan(alone, 1)
        output = np.empty((1, HEADS, DIM), np.float32)
        steps.run(step.query[row : row + 1], step.cache("NHD", lambda array: array), output, None, 1)
        assert output.tobytes() == together[row].tobytes()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (dict(max_kv_len=96, longest_query=3), "decode rows of 3 query tokens; expected: 1"),
        (dict(), "max_kv_len is None; expected with engine.invariant: 1 or more"),
        (dict(max_kv_len=0), "max_kv_len is 0"),
    ],
)
def test_invariant_steps_that_are_refused(changes, text):
    with pytest.raises(trunkline.InvalidArgumentError, match=text):
        decode_steps(toy(invariant=True), 16, **changes)


def test_padding_and_captures_are_not_counted():
    step = Step(16)
    described = toy()
    steps = decode_steps(described, 16)
    assert steps.takes(ROWS, ROWS, replayed=True)
    steps.plan(step.tables("dense", np.int32, lambda array: array), ROWS, counted=False)
    assert described.groups.statistics()["l0"]["decode_steps"] == 0


def test_shapes_without_a_kernel_raise_when_made():
    with pytest.raises(trunkline.UnsupportedError, match="supported: 64, 128, 256"):
        facts = engine.LayerFacts(HEADS, KV_HEADS, 80, 16, "float32", device="cpu")
        engine.DecodeSteps(toy(), facts, ["l0"], engine.NumpyArrays(), max_rows=4, max_tokens=4)


def test_bad_lengths_are_errors_and_the_next_step_goes_on():
    step = Step(16)
    steps = decode_steps(toy(rule=engine.GainRule(window=16)), 16)
    tables = step.tables("dense", np.int32, lambda array: array)
    steps.plan(tables, ROWS)
    tables.kv_lens[1] = -7
    with pytest.raises(trunkline.InvalidArgumentError, match=r"kv_lens\[1\] is -7"):
        steps.plan(tables, ROWS)
    tables.kv_lens[1] = step.kv_lens[1]
    assert steps.takes(ROWS, ROWS)
    steps.plan(tables, ROWS)
    np.testing.assert_allclose(run(steps, step), step.expected, atol=2e-5)


# -- The gain switch


def unshared():
    """Two requests of 33 pages."""
    return engine.DenseTables(np.arange(66, dtype=np.int32).reshape(2, 33) + 1, np.array([520, 520], np.int32))


def shared():
    """The same, of which the first 32 are shared."""
    tables = unshared()
    tables.page_table[1, :32] = tables.page_table[0, :32]
    return tables


def serve(steps, tables, count, **how):
    """Which of so many steps were ours."""
    found = []
    for _ in range(count):
        found.append(steps.takes(2, 2, **how))
        if found[-1]:
            steps.plan(tables, 2)
    return found


def test_the_switch_goes_off_and_on_without_a_restart(caplog):
    described = toy(rule=engine.GainRule(min_saved=0.1, window=32, probe_every=8))
    steps = decode_steps(described, 16)
    with caplog.at_level(logging.INFO):
        assert all(serve(steps, unshared(), 32)) and not steps.on
        assert serve(steps, unshared(), 24) == ([False] * 7 + [True]) * 3
        assert serve(steps, shared(), 12) == [False] * 7 + [True] * 5 and steps.on
    assert [record.message for record in caplog.records] == [
        "Trunkline, 2 layers from l0: steps go to Toy, as plans saved 0.0 % of KV reads",
        "Trunkline, 2 layers from l0: steps come back, as a probe saved 49.2 % of KV reads",
    ]
    found = described.groups.statistics()["l0"]
    assert (found["engine_steps"], found["switched_steps"], found["decode_steps"]) == (28, 28, 32 + 3 + 5)
    assert all(serve(steps, shared(), 100))


def test_a_replayed_step_is_ours_whatever_the_switch_says():
    """The graph has our kernels, so it must have a plan; and its plans tell of gains, too."""
    steps = decode_steps(toy(rule=engine.GainRule(window=16, probe_every=1000)), 16)
    serve(steps, unshared(), 16)
    assert not steps.on
    assert all(serve(steps, unshared(), 40, replayed=True)) and not steps.on
    assert serve(steps, unshared(), 2) == [False, False]
    assert all(serve(steps, shared(), 16, replayed=True)) and steps.on


def test_settings_disable_the_rule():
    steps = decode_steps(toy(), 16)
    assert all(serve(steps, unshared(), 1200)) and steps.on


# -- Steps beside prefill


def test_steps_beside_prefill():
    described = toy(prefill_rule=engine.PrefillRule(host_us=1e-3, gpu_us=1e9, large_prefill=100, probe_every=3))
    steps = decode_steps(described, 16)
    assert not steps.takes(0, 2, prefill_tokens=50)
    steps.plan(unshared(), 2)
    assert [steps.takes(2, 3, prefill_tokens=50) for _ in range(4)] == [False, False, True, False]
    steps.plan(shared(), 2)
    assert all(steps.takes(2, 3, prefill_tokens=50) for _ in range(2))
    assert [steps.takes(2, 3, prefill_tokens=100) for _ in range(3)] == [False, False, True]  # a probe of every third
    assert (steps.counters.engine_steps, steps.counters.mixed_steps) == (6, 4)


# -- Shadow mode


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", ["dense", "csr", "token"])
def test_shadow_mode_catches_a_planted_fault(form, library):
    step, made = Step(1 if form == "token" else 16), Library(library)
    described = toy(shadow=True)
    steps = decode_steps(described, step.page_size, made.arrays)
    steps.plan(step.tables(form, np.int32, made.of), ROWS)
    theirs = step.expected.astype(np.float32)
    theirs[5] = np.nan  # of padding, which is not compared
    steps.shadow.compare(made.of(run(steps, step, of=made.of)), made.of(theirs.copy()))
    found = described.groups.statistics()["l0"]["shadow"]
    assert (found["compared"], found["beyond"], found["non_finite"]) == (5 * HEADS, 0, 0)
    assert 0 < found["most"] < found["tolerance"]
    # One value of one head, by a little more than the tolerance of the vector's largest value.
    wrong = run(steps, step, of=made.of).copy()
    wrong[3, 1, 7] += 1.1 * found["tolerance"] * np.abs(theirs[3, 1]).max()
    steps.shadow.compare(made.of(wrong), made.of(theirs.copy()))
    wrong[2, 0, 0] = np.nan
    steps.shadow.compare(made.of(wrong), made.of(theirs.copy()))
    found = described.groups.statistics()["l0"]["shadow"]
    assert (found["compared"], found["beyond"], found["most"]) == (15 * HEADS, 3, np.inf)


@pytest.mark.parametrize(
    ("word", "tolerance"),
    [("auto", 2.0**-14), ("fp8", 4 * 2.0**-4), ("fp8_e4m3", 4 * 2.0**-4), ("fp8_e5m2", 4 * 2.0**-3)],
)
def test_the_tolerance_is_that_of_the_caches_type(word, tolerance):
    steps = decode_steps(toy(shadow=True), 16, kv_cache_dtype=word)
    assert steps.shadow_report()["tolerance"] == tolerance


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_shadow_mode_where_the_engine_overflows(library):
    """Ours must not be finite there, either."""
    step, made = Step(16), Library(library)
    steps = decode_steps(toy(shadow=True), 16, made.arrays)
    steps.plan(step.tables("dense", np.int32, made.of), ROWS)
    theirs, ours = step.expected.astype(np.float32), step.expected.astype(np.float32)
    theirs[0, 0, 3] = theirs[1, 1, 5] = ours[1, 1, 6] = np.inf
    steps.shadow.compare(made.of(ours), made.of(theirs))
    found = steps.shadow_report()
    assert (found["beyond"], found["non_finite"]) == (1, 2)


def test_shadow_mode_compares_prefill_and_drafts():
    step = Step(16)
    steps = decode_steps(toy(shadow=True), 16, longest_query=2)
    assert steps.takes(2, 3, prefill_tokens=20)  # whatever sharing saves
    steps.plan(step.tables("dense", np.int32, lambda array: array), 2, np.array([0, 2, 4, 24], np.int32), 4)
    steps.shadow.whole(24)
    results = np.ones((30, HEADS, DIM), np.float32)
    steps.shadow.compare(results, results)
    assert steps.shadow_report()["compared"] == 24 * HEADS


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("lists", [np.int32, np.int64])
@pytest.mark.parametrize("form", ["dense", "csr", "token"])
def test_shadow_mode_leaves_out_padding_with_query_tokens(form, lists, library):
    """Rows 1 and 5 have no length: padding, with two query tokens and with one. Another two fill the graph up."""
    step, made = Step(1 if form == "token" else 16), Library(library)
    step.rows[1], step.kv_lens[1] = [], 0
    counts = [1, 2, 2, 2, 0, 1]
    starts = made.of(np.cumsum([0, *counts, 99]).astype(lists))
    steps = decode_steps(toy(shadow=True), step.page_size, made.arrays, longest_query=2)
    steps.plan(step.tables(form, np.int32, made.of), ROWS, starts, 10)
    found, expected = np.ones((2, 12, HEADS, DIM), np.float32)
    padding = [1, 2, 7, 8, 9]
    found[padding] = 2
    steps.shadow.compare(made.of(found), made.of(expected.copy()))
    assert (steps.shadow_report()["compared"], steps.shadow_report()["beyond"]) == (5 * HEADS, 0)
    found[[0, 6]] = 2  # the first and the last that are live
    steps.shadow.compare(made.of(found), made.of(expected))
    assert (steps.shadow_report()["compared"], steps.shadow_report()["beyond"]) == (10 * HEADS, 2 * HEADS)


def test_shadow_mode_is_told_of_prefill_after_the_plan():
    steps = decode_steps(toy(shadow=True), 16)
    for _ in range(2):
        with pytest.raises(trunkline.InvalidArgumentError, match=r"whole\(24\) is called before the step's plan\(\)"):
            steps.shadow.whole(24)
        steps.plan(unshared(), 2)
        steps.shadow.whole(24)


# -- Snapshots of tables that the scheduler writes


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("longest", [None, 6 * 16])
@pytest.mark.parametrize("page_size", [1, 16])
def test_a_snapshot_outlives_the_schedulers_writes(page_size, longest, library):
    step, made = Step(page_size), Library(library)
    steps = decode_steps(toy(), page_size, made.arrays)
    slots = step.table().repeat(page_size, 1) * page_size + np.tile(np.arange(page_size), 8)
    slots[step.table().repeat(page_size, 1) == 2**30] = 2**30
    places = np.array([7, 2, 5, 1, 3, 0])
    pool = np.zeros((9, 8 * page_size), np.int32)
    pool[places] = slots
    live = engine.TokenTables(made.of(pool), made.of(places), made.of(step.kv_lens.astype(np.int64)))
    snapshot = engine.TableSnapshot(made.arrays, 16, 8 * page_size, page_size)
    tables = snapshot.take(live, ROWS, longest)
    assert tables is snapshot.take(live, ROWS, longest)
    pool[...] = 0
    step_of = tables.page_table[:ROWS], tables.kv_lens[:ROWS]
    assert np.asarray(step_of[0])[3, : len(step.rows[3])].tolist() == step.rows[3]
    assert np.asarray(step_of[1]).tolist() == step.kv_lens.tolist()
    steps.plan(tables, ROWS)
    np.testing.assert_allclose(run(steps, step, of=made.of), step.expected, atol=2e-5)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_snapshot_of_page_ids_lies_where_the_engine_has_its_own(library):
    """An engine's tables for graphs are taken as they are, and those that it makes anew are copied there."""
    step, made = Step(16), Library(library)
    steps = decode_steps(toy(), 16, made.arrays)
    own = engine.DenseTables(made.of(np.zeros((16, 8), np.int32)), made.of(np.zeros(16, np.int32)))
    snapshot = engine.TableSnapshot(made.arrays, 16, 8 * 16, 16, own)
    assert snapshot.max_rows == 16 and snapshot.take(own, ROWS) is own
    ids, lengths = step.table().astype(np.int32), step.kv_lens.astype(np.int64)
    tables = snapshot.take(engine.DenseTables(made.of(ids), made.of(lengths)), ROWS)
    ids[...] = 2**30
    lengths[...] = 0
    assert tables is own
    steps.plan(tables, ROWS)
    np.testing.assert_allclose(run(steps, step, of=made.of), step.expected, atol=2e-5)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("lists", [np.int32, np.int64])
@pytest.mark.parametrize("longest", [None, 6 * 16])
@pytest.mark.parametrize("page_size", [1, 16])
def test_a_snapshot_makes_page_ids_from_csr_tables_of_tokens(page_size, longest, lists, library):
    step, made = Step(page_size), Library(library)
    steps = decode_steps(toy(), page_size, made.arrays)
    slots = [
        page * page_size + offset
        for pages, length in zip(step.rows, step.kv_lens)
        for page, offset in [(pages[t // page_size], t % page_size) for t in range(length)]
    ]
    indptr = np.cumsum([0, *step.kv_lens]).astype(lists)
    csr = engine.CsrTables(made.of(indptr), made.of(np.array(slots, np.int32)), None)
    tables = engine.TableSnapshot(made.arrays, 16, 8 * page_size, page_size).take(csr, ROWS, longest)
    assert np.asarray(tables.kv_lens[:ROWS]).tolist() == step.kv_lens.tolist()
    assert np.asarray(tables.page_table)[3, : len(step.rows[3])].tolist() == step.rows[3]
    steps.plan(tables, ROWS)
    np.testing.assert_allclose(run(steps, step, of=made.of), step.expected, atol=2e-5)


def test_csr_tables_of_tokens_on_a_view_of_the_cache():
    """Pages of 16 in the cache are pages of one token in the tables."""
    step = Step(16)
    steps = decode_steps(toy(), 1)
    slots = [pages[t // 16] * 16 + t % 16 for pages, length in zip(step.rows, step.kv_lens) for t in range(length)]
    tables = engine.CsrTables(np.cumsum([0, *step.kv_lens]), np.array(slots), np.ones(ROWS, np.int32))
    steps.plan(tables, ROWS)
    output = np.empty_like(step.query)
    flat = [cache.reshape(PAGES * 16, 1, KV_HEADS, DIM) for cache in (step.k, step.v)]
    with pytest.raises(trunkline.InvalidArgumentError):
        steps.run(step.query, (step.k, step.v), output, None, ROWS)
    steps.run(step.query, flat, output, None, ROWS)
    np.testing.assert_allclose(output, step.expected, atol=2e-5)


def test_packed_caches():
    """One tensor [pages, 2, ..], or with K and V of a token side by side; [.., 2, d] is flattened."""
    step = Step(16)
    steps = decode_steps(toy(), 16)
    steps.plan(step.tables("dense", np.int32, lambda array: array), ROWS)
    by_head = np.stack([step.k, step.v], axis=3)  # [pages, P, Hkv, 2, d]
    pair = np.stack([step.k, step.v])
    for cache in (np.stack([step.k, step.v], axis=1), by_head.reshape(*by_head.shape[:3], 2 * DIM), pair):
        output = np.empty_like(step.query)
        steps.run(step.query, tuple(cache) if cache is pair else cache, output, None, ROWS)
        np.testing.assert_allclose(output, step.expected, atol=2e-5)
