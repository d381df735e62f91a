"""FlashInfer's cascade wrapper on torch's CPU tensors, against plain attention. Skipped without torch."""

import inspect

import numpy as np
import pytest
import trunkline
from hypothesis import given
from hypothesis import strategies as st
from oracle import attention as oracle

torch = pytest.importorskip("torch", reason="torch is not installed")
from trunkline.integrations.flashinfer import MultiLevelCascadeAttentionWrapper  # noqa: E402

HEADS, KV_HEADS, DIM, PAGE = 8, 2, 64, 8
# Parameter names from flashinfer/cascade.py.
PLAN = (
    "qo_indptr_arr paged_kv_indptr_arr paged_kv_indices_arr paged_kv_last_page_len num_qo_heads num_kv_heads head_dim "
    "page_size causal pos_encoding_mode use_fp16_qk_reduction sm_scale window_left logits_soft_cap rope_scale "
    "rope_theta q_data_type kv_data_type"
).split()


def test_signatures():
    def names(method):
        return list(inspect.signature(getattr(MultiLevelCascadeAttentionWrapper, method)).parameters)[1:]

    assert names("plan") == PLAN
    assert names("run") == ["q", "paged_kv_cache"]
    buffers = [
        f"{name}_buf_arr" for name in ("qo_indptr", "paged_kv_indptr", "paged_kv_indices", "paged_kv_last_page_len")
    ]
    assert names("__init__") == ["num_levels", "float_workspace_buffer", "kv_layout", "use_cuda_graph", *buffers]


class Cascade:
    """Levels of groups that split, each group with pages of its own. whole: a level ends where a page does, but the
    last."""

    def __init__(self, seed, queries, levels, whole):
        random = np.random.default_rng(seed)
        cuts = [np.array([0, queries])]
        for level in range(1, levels):
            new = random.integers(0, queries + 1, random.integers(0, queries + 1))
            cuts.append(np.arange(queries + 1) if level == levels - 1 else np.unique([*cuts[-1], *new]))
        ids = iter(random.permutation(400))
        self.tokens = [[] for _ in range(queries)]  # of each query token: page, place
        self.given = [], [], [], []
        for level, starts in enumerate(cuts):
            indptr, indices, last = [0], [], []
            for begin, end in zip(starts[:-1], starts[1:]):
                pages = [next(ids) for _ in range(random.integers(0, 4))]
                full = whole and level < levels - 1
                last.append(PAGE if full else int(random.integers(1, PAGE + 1)))
                indices += pages
                indptr.append(len(indices))
                for query in range(begin, end):
                    for i, page in enumerate(pages):
                        places = PAGE if i + 1 < len(pages) else last[-1]
                        self.tokens[query] += [(page, place) for place in range(places)]
            for to, values in zip(self.given, (starts, indptr, indices, last)):
                to.append(torch.tensor(np.asarray(values), dtype=torch.int32))
        self.q = torch.from_numpy(random.standard_normal((queries, HEADS, DIM))).half()
        self.kv = torch.from_numpy(random.standard_normal((400, 2, PAGE, KV_HEADS, DIM))).half()

    def right(self, **keywords):
        """Every token as a page of one."""
        k, v = (self.kv[:, i].reshape(-1, 1, KV_HEADS, DIM) for i in range(2))
        rows = [[page * PAGE + place for page, place in tokens] for tokens in self.tokens]
        return oracle(self.q, k, v, rows, [len(row) for row in rows], **keywords)[0]


def planned(case, **keywords):
    wrapper = MultiLevelCascadeAttentionWrapper(len(case.given[0]), torch.empty(1, dtype=torch.uint8))
    wrapper.plan(*case.given, HEADS, KV_HEADS, DIM, PAGE, **keywords)
    return wrapper


@given(
    seed=st.integers(0, 2**16),
    queries=st.integers(1, 7),
    levels=st.integers(1, 4),
    whole=st.booleans(),
    scale=st.sampled_from([None, 0.0, 0.3]),
)
def test_cascades(seed, queries, levels, whole, scale):
    case = Cascade(seed, queries, levels, whole)
    wrapper = planned(case, sm_scale=scale, causal=levels > 1)
    if whole:
        assert wrapper._planned == 1
    np.testing.assert_allclose(wrapper.run(case.q, case.kv).float(), case.right(scale=scale), atol=4e-3)
    k, v = case.kv.unbind(1)
    np.testing.assert_allclose(wrapper.forward(case.q, (k, v)).float(), case.right(scale=scale), atol=4e-3)


def test_shared_levels_are_read_once():
    case = Cascade(3, 6, 2, True)
    case.given[2][0] = torch.arange(20, dtype=torch.int32)
    case.given[1][0] = torch.tensor([0, 20], dtype=torch.int32)
    wrapper = planned(case)
    statistics = wrapper._wrappers[0].explain().statistics
    assert statistics.kv_tokens_total - statistics.kv_tokens_distinct == 5 * 20 * PAGE


def test_another_plan():
    """From one run to one a level and back, with one wrapper."""
    wrapper = MultiLevelCascadeAttentionWrapper(2, torch.empty(1, dtype=torch.uint8))
    with pytest.raises(trunkline.WorkspaceError, match="there is no plan"):
        wrapper.run(None, None)
    for seed, whole in ((1, True), (2, False), (3, True), (4, False)):
        case = Cascade(seed, 5, 2, whole)
        wrapper.begin_forward(*case.given, HEADS, KV_HEADS, DIM, PAGE)
        np.testing.assert_allclose(wrapper.run(case.q, case.kv).float(), case.right(), atol=4e-3)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (dict(pos_encoding_mode="ROPE_LLAMA"), NotImplementedError, "pos_encoding_mode is 'ROPE_LLAMA'"),
        (dict(window_left=5), NotImplementedError, "window_left is 5"),
        (dict(kv_data_type="bfloat16"), NotImplementedError, "kv_data_type is 'bfloat16'"),
        (dict(qo_indptr_arr=[]), ValueError, "qo_indptr_arr has 0 entries; expected: 2, one a level"),
        (dict(qo_indptr_arr=[[0, 2], [0, 1, 3]]), ValueError, r"qo_indptr_arr\[1\] ends with 3; expected: 2"),
        (dict(qo_indptr_arr=[[0, 2], [0, 2, 1, 2]]), ValueError, r"qo_indptr_arr\[1\] is \[0, 2, 1, 2\]"),
        (dict(qo_indptr_arr=[[0, 2], [0, 2]], causal=True), NotImplementedError, "causal is True"),
        (dict(paged_kv_indptr_arr=[[0, 1], [0, 1]]), ValueError, r"paged_kv_indptr_arr\[1\] has shape \[2\]"),
        (dict(paged_kv_indptr_arr=[[0, 2], [0, 1, 2]]), ValueError, r"paged_kv_indptr_arr\[0\] ends with 2"),
        (dict(paged_kv_last_page_len=[[0], [1, 1]]), ValueError, r"paged_kv_last_page_len\[0\]\[0\] is 0"),
        (dict(paged_kv_indices_arr=[[0.0], [1, 2]]), TypeError, r"paged_kv_indices_arr\[0\] has dtype float64"),
    ],
)
def test_refused(change, error, text):
    right = dict(
        qo_indptr_arr=[[0, 2], [0, 1, 2]],
        paged_kv_indptr_arr=[[0, 1], [0, 1, 2]],
        paged_kv_indices_arr=[[0], [1, 2]],
        paged_kv_last_page_len=[[PAGE], [1, 3]],
        num_qo_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=DIM,
        page_size=PAGE,
    )
    wrapper = MultiLevelCascadeAttentionWrapper(2, torch.empty(1, dtype=torch.uint8))
    wrapper.plan(**right)
    with pytest.raises(error, match=text) as raised:
        wrapper.plan(**(right | change))
    assert isinstance(raised.value, trunkline.Error)


def test_graphs_are_refused():
    with pytest.raises(NotImplementedError, match="use_cuda_graph is True; supported: False"):
        MultiLevelCascadeAttentionWrapper(2, torch.empty(1), use_cuda_graph=True)
