"""The library calls that DecodeAttention makes for plans on a GPU, recorded by a stand-in for the library."""

import pytest
import trunkline
from test_device_planning import Computing
from test_device_tables import OnAGpu
from trunkline import DevicePlanning, DeviceTables, _abi, _device_planner
from trunkline._executors import CudaExecutor
from trunkline._library import c

EXECUTOR, PLANNER = 5, 77
WORKSPACE_BYTES, MEMORY_BYTES = 5001, 1000
MEMORY = 4096 + 5120  # behind the workspace, at a multiple of 256
LENGTHS, TABLE = OnAGpu((2,)), OnAGpu((2, 2))
PLANNING = DevicePlanning(4)


class Notes:
    """The calls of functions on a GPU, all of which succeed."""

    def __init__(self, monkeypatch):
        self.calls = []
        self.given = {}
        self.report = {}
        for name in _abi.FUNCTIONS:
            if name.startswith("trunkline_cuda_"):
                monkeypatch.setattr(c, name, self._function(name.removeprefix("trunkline_cuda_")))

    def _function(self, name):
        def called(*arguments):
            out = getattr(arguments[-1], "_obj", None) if arguments else None
            if name == "create":
                out.value = EXECUTOR
            elif name == "planner_create":
                out.value = PLANNER
                self.options = arguments[2]._obj
            elif name == "planner_memory_bytes":
                out.value = MEMORY_BYTES
            elif name == "planner_workspace_bytes":
                out.value = WORKSPACE_BYTES
            elif name == "planner_report":
                out.planned, out.first_bad_length, out.bad_query_start = 3, -1, 9
            elif name != "supports":
                if name == "plan":
                    self.batch = _abi.CudaBatch.from_address(arguments[2])
                    self.pages = _abi.PageTable.from_address(self.batch.pages)
                    arguments = arguments[:2] + arguments[3:]
                if name == "resolve":
                    arguments = arguments[:1] + arguments[2:]
                self.calls.append((name, *arguments))
            return 0

        return called

    def taken(self):
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def notes(monkeypatch):
    # torch would look for a GPU.
    monkeypatch.setattr(CudaExecutor, "stream", lambda _, given: given or 0)
    monkeypatch.setattr(_device_planner, "_is_capturing", lambda: False)
    return Notes(monkeypatch)


def made(page_size=16, planning=PLANNING, **keywords):
    return trunkline.DecodeAttention(
        8,
        2,
        128,
        page_size,
        device="cuda:0",
        profile=trunkline.Profile.named("h100-sxm"),
        workspace=keywords.pop("workspace", OnAGpu((20000,), "|u1")),
        device_planning=planning,
        **keywords,
    )


PLAN = [("plan", EXECUTOR, PLANNER, 4096, WORKSPACE_BYTES, 0), ("resolve", EXECUTOR, 4096, 0)]
BIND = [("planner_bind", PLANNER, MEMORY, MEMORY_BYTES, 0)]


def test_the_planner_is_bound_once(notes):
    attention = made()
    assert attention.workspace_bytes() == 5120 + MEMORY_BYTES and notes.taken() == []
    assert (notes.options.rows, notes.options.capacity_queries, attention.max_queries) == (4, 4, 4)
    attention.plan(TABLE, LENGTHS, num_pages=9)
    assert notes.taken() == BIND + PLAN
    assert (notes.batch.num_pages, notes.batch.query_start, notes.pages.rows, notes.pages.page_size) == (9, None, 2, 16)
    attention.plan(TABLE, LENGTHS, query_start_loc=OnAGpu((3,)), stream=6)
    assert [call[-1] for call in notes.taken()] == [6, 6] and notes.batch.query_start == 4096
    assert notes.batch.queries == 0
    attention.plan(TABLE, LENGTHS, query_start_loc=OnAGpu((3,)), num_queries=3)
    assert notes.batch.queries == 3 and notes.taken()
    attention.resolve()
    assert notes.taken() == PLAN[1:]


def test_a_prepared_step(notes):
    attention = made()
    step = attention.prepare(TABLE, LENGTHS, num_pages=9)
    assert notes.taken() == []
    for _ in range(2):
        attention.plan_prepared(step, stream=6)
    calls = [(call[0], call[-1]) for call in notes.taken()]
    assert calls == [(call[0], 6) for call in BIND + PLAN + PLAN]
    assert (notes.batch.num_pages, notes.pages.rows) == (9, 2)
    with pytest.raises(ValueError, match="step was prepared by another DecodeAttention"):
        made().plan_prepared(step)
    with pytest.raises(TypeError, match="kv_lens is of type list"):
        attention.prepare(TABLE, [20, 30])
    with pytest.raises(ValueError, match=r"stream is 6; expected in prepare\(\): none, as plan_prepared\(\) takes one"):
        attention.prepare(TABLE, LENGTHS, stream=6)
    attention.close()
    with pytest.raises(trunkline.ClosedError):
        attention.plan_prepared(step)


def test_prepared_steps_of_other_tables(notes):
    attention = made()
    csr = attention.prepare_tables(DeviceTables(LENGTHS, indptr=OnAGpu((3,)), indices=OnAGpu((4,))))
    attention.plan_prepared(csr)
    assert (notes.pages.form, notes.pages.rows, notes.pages.id_count) == (_abi.CSR, 2, 4)
    attention = made(page_size=1)
    tokens = DeviceTables(LENGTHS, req_to_token=OnAGpu((9, 50)), req_pool_indices=OnAGpu((2,)))
    starts = OnAGpu((3,))
    attention.plan_prepared(attention.prepare_tables(tokens, query_start_loc=starts, num_queries=4, num_pages=7))
    assert (notes.pages.form, notes.pages.width, notes.pages.row_map) == (_abi.TOKEN_LEVEL, 50, 4096)
    assert (notes.batch.num_pages, notes.batch.query_start, notes.batch.queries) == (7, 4096, 4)
    with pytest.raises(TypeError, match="tables is of type"):
        attention.prepare_tables(TABLE)
    on_host = trunkline.DecodeAttention(8, 2, 128, 1)
    with pytest.raises(ValueError, match=r"prepare\(\) needs device_planning"):
        on_host.prepare_tables(tokens)


def test_a_prepared_step_takes_the_options_of_plan(notes):
    attention = made()
    starts, parents = OnAGpu((3,)), OnAGpu((4,))
    attention.plan_prepared(attention.prepare(TABLE, LENGTHS, query_start_loc=starts, query_parents=parents))
    assert (notes.batch.query_start, notes.batch.query_parents) == (4096, 4096) and notes.taken()
    with pytest.raises(ValueError, match="slots is given; expected with device_planning: none"):
        attention.prepare(TABLE, LENGTHS, slots=[0, 1])


def test_another_workspace_is_bound_anew(notes):
    attention = made()
    attention.plan(TABLE, LENGTHS)
    notes.taken()
    other = OnAGpu((20000,), "|u1")
    other.__cuda_array_interface__["data"] = (8192, False)
    attention.set_workspace(other)
    assert notes.taken() == [("release", EXECUTOR, 4096)]
    attention.plan(TABLE, LENGTHS)
    assert notes.taken()[0] == ("planner_bind", PLANNER, 8192 + 5120, MEMORY_BYTES, 0)


def test_a_workspace_that_is_too_small(notes):
    attention = made(workspace=OnAGpu((6119,), "|u1"))
    with pytest.raises(trunkline.WorkspaceError, match="has 6119 aligned bytes and cannot grow.* takes 6120"):
        attention.plan(TABLE, LENGTHS)
    assert notes.taken() == []


def test_other_tables(notes):
    attention = made()
    attention.plan_csr(Computing([0, 3, 4]), OnAGpu((4,)), Computing([5, 9]))
    assert notes.taken() == BIND + PLAN
    assert (notes.pages.form, notes.pages.rows, notes.pages.id_count) == (_abi.CSR, 2, 4)
    attention = made(page_size=1)
    attention.plan_token_level(OnAGpu((9, 50)), OnAGpu((2,)), LENGTHS)
    assert (notes.pages.form, notes.pages.width, notes.pages.row_map) == (_abi.TOKEN_LEVEL, 50, 4096)


def test_the_first_plan_is_not_captured(notes, monkeypatch):
    attention = made()
    monkeypatch.setattr(_device_planner, "_is_capturing", lambda: True)
    with pytest.raises(trunkline.WorkspaceError, match=r"call plan\(\) once before the capture"):
        attention.plan(TABLE, LENGTHS)
    assert notes.taken() == []
    monkeypatch.setattr(_device_planner, "_is_capturing", lambda: False)
    attention.plan(TABLE, LENGTHS)
    monkeypatch.setattr(_device_planner, "_is_capturing", lambda: True)
    attention.plan(TABLE, LENGTHS)
    assert notes.taken() == BIND + PLAN + PLAN


def test_graphs_of_runs_alone_keep_their_table(notes):
    attention = made(use_cuda_graph=True)
    elsewhere = OnAGpu((2, 2))
    elsewhere.__cuda_array_interface__["data"] = (8192, False)
    attention.plan(TABLE, LENGTHS)
    attention.plan(TABLE, OnAGpu((2,)))
    with pytest.raises(ValueError, match="the page table is elsewhere than with the first plan"):
        attention.plan(elsewhere, LENGTHS)
    made().plan(elsewhere, LENGTHS)


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (dict(kv_lens=[20, 30]), TypeError, "kv_lens is of type list"),
        (
            dict(query_parents=OnAGpu((2,))),
            ValueError,
            "query_parents is given; expected without query_start_loc: none",
        ),
        (
            dict(query_start_loc=OnAGpu((3,)), query_parents=OnAGpu((3,))),
            ValueError,
            r"query_parents has shape \[3\]; expected: \[4\]",
        ),
        (
            dict(query_start_loc=OnAGpu((3,)), query_parents=[-1, -1, 0]),
            TypeError,
            "query_parents is of type list",
        ),
        (dict(device_tables=DeviceTables(LENGTHS, page_table=TABLE)), ValueError, "device_tables is given"),
        (
            dict(page_table=OnAGpu((5, 2)), kv_lens=OnAGpu((5,))),
            ValueError,
            "the step has 5 requests; expected: at most device_planning.max_rows = 4",
        ),
        (dict(num_queries=2), ValueError, "num_queries is 2; expected without query_start_loc: none"),
        (
            dict(query_start_loc=OnAGpu((3,)), num_queries=5),
            ValueError,
            "num_queries is 5; expected: 1 to device_planning.max_queries = 4",
        ),
    ],
)
def test_refusals_reach_no_device(notes, wrong, kind, text):
    attention = made()
    attention.plan(TABLE, LENGTHS)
    notes.taken()
    with pytest.raises(kind, match=text):
        attention.plan(**(dict(page_table=TABLE, kv_lens=LENGTHS) | wrong))
    assert notes.taken() == []
    with pytest.raises(trunkline.WorkspaceError, match="there is no plan"):
        attention.resolve()


def test_what_is_of_plans_of_the_host(notes):
    attention = made()
    attention.plan(TABLE, LENGTHS)
    live = trunkline.LiveBatch(page_size=16, num_pages=4)
    for use in (
        lambda: attention.statistics,
        lambda: attention.current,
        attention.explain,
        lambda: attention.plan_live(live),
        lambda: attention.submit(live),
    ):
        with pytest.raises(NotImplementedError, match="with device_planning; supported: plan"):
            use()
    assert attention.ready() and attention.live_counts == {}


@pytest.mark.parametrize("keywords", [dict(policy="flat"), dict(options=trunkline.PlanOptions(capacity_items=9))])
def test_options_of_other_plans(notes, keywords):
    with pytest.raises(ValueError, match="expected with device_planning: none, policy='trunk', or policy='invariant'"):
        made(**keywords)
    for policy in ("trunk", "invariant"):
        assert made(policy=policy).workspace_bytes() > 0
    with pytest.raises(TypeError, match="device_planning is 3; expected: a DevicePlanning"):
        made(planning=3)


def test_report_and_end(notes):
    attention = made()
    report = attention.plan_report()
    assert (report.planned, report.reused, report.first_bad_length, report.bad_query_start) == (3, 0, -1, 9)
    attention.close()
    assert [name for name, *_ in notes.taken()] == ["planner_destroy", "destroy"]
    for use in (attention.plan_report, attention.workspace_bytes, lambda: attention.statistics):
        with pytest.raises(trunkline.ClosedError, match="the DecodeAttention is closed"):
            use()
