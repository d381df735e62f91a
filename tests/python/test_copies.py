"""Objects with handles are neither copied nor pickled, and say so; plain data is both."""

import copy
import pickle

import numpy as np
import pytest
import trunkline

Q = np.ones((2, 8, 64), np.float32)
CACHE = np.ones((4, 16, 2, 64), np.float32)


def planned():
    attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32")
    attention.plan([[0, 1], [0, 2]], [20, 25])
    return attention


ATTENTION = planned()
WITH_HANDLES = {
    "DecodeAttention": ATTENTION,
    "Plan": ATTENTION.current,
    "Plan of its own": ATTENTION.current.copy(),
    "Forest": trunkline.Forest.from_tree([-1], [5], [0]),
    "LiveBatch": trunkline.LiveBatch(page_size=16, num_pages=4),
    "Profile": trunkline.Profile.generic_cpu(2),
    "SequenceTree": trunkline.SequenceTree(page_size=16, num_pages=4),
    "Sampler": trunkline.Sampler(),
    "Workers": trunkline.Workers(1),
}
WAYS = [copy.copy, copy.deepcopy, *(lambda one, p=p: pickle.dumps(one, p) for p in range(pickle.HIGHEST_PROTOCOL + 1))]


@pytest.mark.parametrize("name", WITH_HANDLES)
def test_refused(name):
    held = WITH_HANDLES[name]
    for way in WAYS:
        with pytest.raises(trunkline.ArgumentTypeError, match=f"^a {type(held).__name__} is copied or pickled"):
            way(held)


def test_those_that_were_not_copied_go_on():
    for way in WAYS:
        with pytest.raises(trunkline.Error):
            way(ATTENTION)
    assert (ATTENTION.run(Q, (CACHE, CACHE)) == 1).all()


def test_every_public_class_with_a_handle_is_here():
    found = {name for name, kind in vars(trunkline).items() if isinstance(kind, type) and hasattr(kind, "_copy_hint")}
    assert found == {type(held).__name__ for held in WITH_HANDLES.values()} | {"PreparedStep"}


def test_plain_data():
    step = trunkline.explain([[0, 1], [0, 2]], [20, 25], 8, 2, 64, 16)
    for plain in (
        trunkline.PlanOptions(policy="trunk"),
        trunkline.DevicePlanning(4),
        ATTENTION.statistics,
        trunkline.Request(1, 2),
        trunkline.UnsupportedError("a reason"),
    ):
        for way in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
            assert str(way(plain)) == str(plain) and type(way(plain)) is type(plain)
    assert pickle.loads(pickle.dumps(step)).html == step.html
