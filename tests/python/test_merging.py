"""States of parts of a sequence, merged, against attention over all of it."""

import numpy as np
import pytest
import trunkline
from hypothesis import given
from hypothesis import strategies as st


def softmax_states(logits, values, parts):
    """Per part of the tokens: O [Hq, d] and LSE [Hq]; logits [Hq, tokens], values [tokens, d]."""
    states, lse = [], []
    for part in parts:
        most = logits[:, part].max(axis=1, keepdims=True, initial=-np.inf)
        weights = np.exp(logits[:, part] - np.where(np.isinf(most), 0, most))
        total = weights.sum(axis=1, keepdims=True)
        states.append(weights @ values[part] / np.where(total == 0, 1, total))
        with np.errstate(divide="ignore"):
            lse.append((np.log(total) + np.where(np.isinf(most), 0, most))[:, 0])
    return np.array(states), np.array(lse)


@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float16]), base=st.sampled_from(["natural", "two"]))
def test_merged_parts_are_the_whole(data, dtype, base):
    random = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    states, lse, begin, right = [], [], [0], []
    for _ in range(data.draw(st.integers(1, 4))):
        tokens = data.draw(st.integers(0, 30))
        cuts = sorted(random.integers(0, tokens + 1, data.draw(st.integers(0, 3))).tolist())
        parts = [range(a, b) for a, b in zip([0, *cuts], [*cuts, tokens])]
        logits, values = random.standard_normal((5, tokens)) * 3, random.standard_normal((tokens, 64))
        some = softmax_states(logits, values, [list(part) for part in parts])
        states += list(some[0])
        lse += list(some[1])
        begin.append(len(states))
        whole = softmax_states(logits, values, [list(range(tokens))])
        right.append((whole[0][0], whole[1][0]))
    order = random.permutation(len(states))
    slots = np.argsort(order).astype(np.int32)
    factor = np.log(2) if base == "two" else 1.0
    out, merged = trunkline.merge_states(
        np.array(states)[order].astype(dtype),
        (np.array(lse)[order] / factor).astype(np.float32),
        begin,
        slots,
        lse_base=base,
    )
    tolerance = 1e-5 if dtype == np.float32 else 4e-3
    np.testing.assert_allclose(out, [state for state, _ in right], atol=tolerance)
    np.testing.assert_allclose(merged * factor, [value for _, value in right], atol=1e-4)


def test_two_states():
    a, b = np.zeros((3, 2, 64), np.float32), np.ones((3, 2, 64), np.float32)
    nothing = np.full((3, 2), -np.inf, np.float32)
    out, lse = trunkline.merge_state(a, np.zeros((3, 2), np.float32), b, np.zeros((3, 2), np.float32))
    assert np.allclose(out, 0.5) and np.allclose(lse, np.log(2))
    out, lse = trunkline.merge_state(a, nothing, b, np.zeros((3, 2), np.float32))
    assert (out == 1).all() and (lse == 0).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dict(states=np.zeros((2, 64), np.float32)), "states has shape [2, 64]"),
        (dict(state_lse=np.zeros((3, 1), np.float32)), "state_lse has shape [3, 1]"),
        (dict(begin=[]), "begin is empty"),
        (dict(begin=[0, 3]), "begin[1] reaches state 2; there are 2 states"),
        (dict(begin=[0, 2], slots=[0]), "begin ends with 2, but slots has 1 entries"),
        (dict(begin=[0, 2], slots=[0, 2]), "slots[1] is 2"),
        (dict(out=np.zeros((1, 1, 32), np.float32)), "out has shape [1, 1, 32]"),
        (dict(lse_base="ten"), "lse_base is 'ten'"),
    ],
)
def test_bad_input(change, text):
    right = dict(states=np.zeros((2, 1, 64), np.float32), state_lse=np.zeros((2, 1), np.float32), begin=[0, 2])
    with pytest.raises(ValueError) as raised:
        trunkline.merge_states(**(right | change))
    assert text in str(raised.value)


@pytest.mark.parametrize("name", ["out", "lse", "out of lse"])
def test_outputs_overlap_nothing(name):
    """Row n merges state 3 - n: merged in place, rows were read after they had been written."""
    states = np.arange(4, dtype=np.float32)[:, None, None] * np.ones((4, 2, 64), np.float32)
    state_lse = np.arange(8, dtype=np.float32).reshape(4, 2)
    given = {
        "out": dict(out=states),
        "lse": dict(lse=state_lse),
        "out of lse": dict(out=np.lib.stride_tricks.as_strided(state_lse, (4, 2, 64), (8, 4, 4), writeable=True)),
    }
    before = states.copy(), state_lse.copy()
    with pytest.raises(ValueError, match=r"^(out|lse) (overlaps|has strides)"):
        trunkline.merge_states(states, state_lse, [0, 1, 2, 3, 4], [3, 2, 1, 0], **given[name])
    assert (states == before[0]).all() and (state_lse == before[1]).all()
    out, lse = trunkline.merge_states(states, state_lse, [0, 1, 2, 3, 4], [3, 2, 1, 0])
    assert (out == states[::-1]).all() and (lse == state_lse[::-1]).all()


@pytest.mark.parametrize(
    ("strides", "text"),
    [((0, 256, 4), r"out.strides\[0\] is 0"), ((512, 0, 4), r"out.strides\[1\] is 0"), ((256, 256, 4), "overlap each")],
)
def test_an_output_overlaps_itself(strides, text):
    states, state_lse = np.ones((4, 2, 64), np.float32), np.zeros((4, 2), np.float32)
    out = np.lib.stride_tricks.as_strided(np.zeros((4, 2, 64), np.float32), (4, 2, 64), strides, writeable=True)
    with pytest.raises(ValueError, match=text):
        trunkline.merge_states(states, state_lse, [0, 1, 2, 3, 4], out=out)
    attention = trunkline.DecodeAttention(2, 1, 64, 16, dtype="float32")
    attention.plan([[0]] * 4, [5] * 4)
    cache = np.ones((1, 16, 1, 64), np.float32)
    with pytest.raises(ValueError, match=text):
        attention.run(np.ones((4, 2, 64), np.float32), (cache, cache), out=out)


def test_no_states():
    out, lse = trunkline.merge_states(np.ones((0, 2, 64), np.float32), np.ones((0, 2), np.float32), [0, 0, 0])
    assert out.shape == (2, 2, 64) and (out == 0).all() and np.isneginf(lse).all()
    empty = np.ones((0, 2, 64), np.float32), np.ones((0, 2), np.float32)
    assert trunkline.merge_state(*empty, *empty)[0].shape == (0, 2, 64)
