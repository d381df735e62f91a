"""FlashInfer's wrappers and merges on torch's CPU tensors, against plain attention. Skipped without torch."""

import inspect

import numpy as np
import pytest
import trunkline
from oracle import attention as oracle

torch = pytest.importorskip("torch", reason="torch is not installed")
from trunkline.integrations import flashinfer  # noqa: E402

HEADS, KV_HEADS, DIM, PAGE, PAGES = 8, 2, 128, 16, 32
random = np.random.default_rng(5)
K, V = (torch.from_numpy(random.standard_normal((PAGES, PAGE, KV_HEADS, DIM))).half() for _ in range(2))
Q = torch.from_numpy(random.standard_normal((3, HEADS, DIM))).half()
LENGTHS = [40, 37, 48]
TABLES = [[0, 1, 2], [0, 1, 3], [0, 4, 5]], [[10, 11, 12], [13, 14, 15], [16, 17, 18]]


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def planned(wrapper, tables, **keywords):
    indices = ints(*(page for row in tables for page in row))
    wrapper.plan(ints(0, 3, 6, 9), indices, ints(8, 5, 16), HEADS, KV_HEADS, DIM, PAGE, **keywords)


def right(out, tables, **keywords):
    """Within what fp16 weights and outputs allow."""
    expected = oracle(Q, K, V, tables, LENGTHS, base_two=True, **keywords)
    if isinstance(out, tuple):
        np.testing.assert_allclose(out[1], expected[1], atol=2e-3)
        out = out[0]
    np.testing.assert_allclose(out.float(), expected[0], atol=3e-3)


def test_wrappers_share_a_float_workspace():
    buffer = torch.empty(32 << 20, dtype=torch.uint8)
    a, b = (flashinfer.BatchDecodeWithPagedKVCacheWrapper(buffer) for _ in range(2))
    planned(a, TABLES[0])
    planned(b, TABLES[1])
    buffer.zero_()
    for wrapper, tables in ((a, TABLES[0]), (b, TABLES[1]), (a, TABLES[0])):
        right(wrapper.run(Q, (K, V), return_lse=True), tables)


def test_a_float_workspace_of_any_size():
    """FlashInfer's plans take their partials from it; FlashInfer's own tests have 32 MiB, for plans of up to 85 MB."""
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(torch.empty(1, dtype=torch.int8))
    planned(wrapper, TABLES[0])
    right(wrapper.run(Q, (K, V)), TABLES[0])
    wrapper.reset_workspace_buffer(torch.empty(2, dtype=torch.int8), torch.empty(2, dtype=torch.int8))
    right(wrapper.run(Q, (K, V)), TABLES[0])
    with pytest.raises(TypeError, match="float_workspace_buffer is of type int; expected: a tensor"):
        flashinfer.BatchDecodeWithPagedKVCacheWrapper(1)


@pytest.mark.parametrize("scale", [0.0, None, 0.2])
def test_scales(scale):
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(torch.empty(1 << 24, dtype=torch.uint8))
    planned(wrapper, TABLES[0], sm_scale=scale)
    right(wrapper.run(Q, (K, V), return_lse=True), TABLES[0], scale=scale)
    for name in ("q_scale", "k_scale"):
        right(wrapper.run(Q, (K, V), return_lse=True, **{name: 0.0}), TABLES[0], scale=0.0)
        factor = (DIM**-0.5 if scale is None else scale) * 0.5
        right(wrapper.run(Q, (K, V), return_lse=True, **{name: 0.5}), TABLES[0], scale=factor)


# Parameter names from flashinfer/cascade.py and flashinfer/triton/cascade.py.
SIGNATURES = {
    "merge_state": ["v_a", "s_a", "v_b", "s_b"],
    "merge_state_in_place": ["v", "s", "v_other", "s_other", "mask"],
    "merge_states": ["v", "s"],
    "variable_length_merge_states": ["v", "s", "indptr"],
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    assert list(inspect.signature(getattr(flashinfer, name)).parameters) == SIGNATURES[name]


def states(*shape):
    torch.manual_seed(3)
    return torch.randn(*shape, 64), torch.randn(*shape) * 20


def merged(v, s):
    """In fp64, over dimension 1."""
    s = s.double() * np.log(2)
    weights = torch.softmax(s, 1)
    return (v.double() * weights[..., None]).sum(1), torch.logsumexp(s, 1) / np.log(2)


def same(found, expected, atol=1e-5):
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a.double(), b, atol=atol)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_merge_states(count):
    v, s = states(7, count, 3)
    same(flashinfer.merge_states(v, s), merged(v, s))
    same(flashinfer.merge_states(v.half(), s), merged(v.half(), s), 2e-3)
    halves = flashinfer.merge_states(v[:, ::2], s[:, ::2])
    same(halves, merged(v[:, ::2], s[:, ::2]))


def test_merge_no_states():
    out, lse = flashinfer.merge_states(torch.ones(4, 0, 2, 64), torch.ones(4, 0, 2))
    assert (out == 0).all() and torch.isneginf(lse).all() and out.shape == (4, 2, 64)


def test_merge_state():
    v, s = states(7, 2, 3)
    parts = v[:, 0], s[:, 0], v[:, 1], s[:, 1]
    same(flashinfer.merge_state(*parts), merged(v, s))
    nothing = torch.full_like(s[:, 0], -torch.inf)
    same(flashinfer.merge_state(v[:, 0], nothing, v[:, 1], s[:, 1]), (v[:, 1], s[:, 1]))
    assert torch.isneginf(flashinfer.merge_state(v[:, 0], nothing, v[:, 1], nothing)[1]).all()


@pytest.mark.parametrize("mask", [None, [1, 0, 1, 1, 0, 0, 1], [0] * 7])
@pytest.mark.parametrize("kind", [torch.bool, torch.uint8])
def test_merge_state_in_place(mask, kind):
    v, s = states(7, 2, 3)
    expected = merged(v, s)
    if mask is not None:
        chosen = torch.tensor(mask).bool()
        expected = (
            torch.where(chosen[:, None, None], expected[0], v[:, 0].double()),
            torch.where(chosen[:, None], expected[1], s[:, 0].double()),
        )
    into = v[:, 0].clone(), s[:, 0].clone()
    given = None if mask is None else torch.tensor(mask).to(kind)
    assert flashinfer.merge_state_in_place(*into, v[:, 1], s[:, 1], given) is None
    same(into, expected)
    flashinfer.merge_state_in_place(v[:, 0], s[:, 0], v[:, 1], s[:, 1], given)  # slices of what is read, too
    same((v[:, 0], s[:, 0]), expected)


def test_variable_lengths():
    v, s = states(9, 3)
    out, lse = flashinfer.variable_length_merge_states(v, s, ints(0, 2, 2, 3, 9))
    for row, (begin, end) in enumerate(((0, 2), (2, 2), (2, 3), (3, 9))):
        if begin == end:
            assert (out[row] == 0).all() and torch.isneginf(lse[row]).all()
        else:
            same((out[row : row + 1], lse[row : row + 1]), merged(v[None, begin:end], s[None, begin:end]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda v, s: flashinfer.merge_state(v, s[:2], v, s), r"s_a has shape \[2, 2\]; expected: \[3, 2\]"),
        (lambda v, s: flashinfer.merge_state(v, s, v[:2], s), r"v_b has shape \[2, 2, 64\]"),
        (
            lambda v, s: flashinfer.merge_state_in_place(v, s, v, s, ints(1, 0)),
            r"mask has shape \[2\]; expected: \[3\]",
        ),
        (lambda v, s: flashinfer.merge_state_in_place(v, s.double(), v, s), "s has dtype torch.float64"),
        (lambda v, s: flashinfer.merge_states(v, s), r"expected: \[T, states, Hq, d\]"),
        (lambda v, s: flashinfer.variable_length_merge_states(v, s, ints(0, 4)), "reaches state 3"),
    ],
)
def test_bad_states(call, text):
    with pytest.raises((ValueError, TypeError), match=text) as raised:
        call(torch.ones(3, 2, 64), torch.zeros(3, 2))
    assert isinstance(raised.value, trunkline.Error)
