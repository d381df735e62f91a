"""Sequence trees and sessions from Python: steps, drafts, failures, and what is refused."""

import numpy as np
import pytest
import trunkline
from tree_model import ToyTreeModel


def session_of(model, pages=200, page_size=4, **options):
    return trunkline.TreeSession(model, page_size=page_size, num_pages=pages, **options)


def test_logits_are_those_of_whole_sequences():
    random = np.random.default_rng(3)
    model = ToyTreeModel()
    for page_size, limit in ((1, 0), (3, 2), (16, 5)):
        session = session_of(model, page_size=page_size, max_queries=limit)
        tree = session.tree
        leaves = [tree.add_root(random.integers(30, size=size)) for size in (1, 9, 20)]
        for _ in range(12):
            logits = session.step(leaves)
            for leaf, row in zip(leaves, logits):
                np.testing.assert_allclose(row, model.after(tree.sequence(leaf)), atol=2e-4)
            grown = []
            for leaf in leaves:
                forked = tree.fork(leaf, 2) if random.random() < 0.3 and len(grown) < 8 else [leaf]
                for child in forked:
                    tree.append(child, [int(random.integers(30))])
                grown += forked
            if len(grown) > 4:
                tree.prune(grown.pop(0))
            leaves = list(random.permutation(len(grown)))
            leaves = [grown[i] for i in leaves]
        for leaf in leaves:
            tree.prune(leaf)
        assert tree.pages_in_use == 0
        session.close()


def test_a_failing_model_leaves_the_tree_usable():
    model = ToyTreeModel()
    session = session_of(model)
    root = session.tree.add_root([1, 2, 3])
    model.fail_in = 0
    with pytest.raises(RuntimeError, match="the model has failed"):
        session.step([root])
    assert session.tree.info(root).kv_len == 0
    np.testing.assert_allclose(session.step([root])[0], model.after([1, 2, 3]), atol=2e-4)


def test_a_full_pool_changes_nothing():
    session = session_of(ToyTreeModel(), pages=2)
    root = session.tree.add_root(range(9))
    with pytest.raises(trunkline.InvalidArgumentError, match="appends need 3 pages; of the pool's 2, 2 are free"):
        session.step([root])
    assert session.tree.pages_in_use == 0
    assert session.tree.info(root) == trunkline.NodeInfo(None, "leaf", 0, 9, 0, 0, 0.0)


def test_drafts():
    model = ToyTreeModel()
    session = session_of(model)
    tree = session.tree
    root = tree.add_root([1, 2, 3])
    tree.draft(root, [4, 5, 6], [-1, -1, 1])
    logits = session.step([root], last=4)
    for row, text in zip(logits, ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 5, 6])):
        np.testing.assert_allclose(row, model.after(text), atol=2e-4)
    session.accept(root, [1, 2])
    tree.append(root, [7])
    assert tree.sequence(root) == [1, 2, 3, 5, 6, 7]
    np.testing.assert_allclose(session.step([root])[0], model.after([1, 2, 3, 5, 6, 7]), atol=2e-4)


def test_data_and_scores_stay():
    tree = trunkline.SequenceTree(page_size=4, num_pages=8)
    root = tree.add_root([1, 2])
    tree.set_score(root, -1.5)
    tree.set_data(root, "why")
    tree.prune(root)
    assert tree.info(root).state == "pruned"
    assert tree.info(root).score == -1.5
    assert tree.data(root) == "why"
    assert tree.sequence(root) == [1, 2]


def test_slots_and_cached_prompts():
    tree = trunkline.SequenceTree(page_size=4, num_pages=8)
    root = tree.add_root(range(6))
    step = tree.step([root])
    assert tree.slots(root).tolist() == step.slot_mapping.tolist()
    tree.cache(root)
    again = tree.add_root(range(6))
    assert tree.info(again).kv_len == 4
    assert tree.slots(again).tolist() == step.slot_mapping[:4].tolist()


def test_copies_are_listed_by_slots():
    tree = trunkline.SequenceTree(page_size=4, num_pages=8)
    root = tree.add_root(range(6))
    tree.step([root])
    children = tree.fork(root, 2)
    for child in children:
        tree.append(child, [9])
    before = tree.slots(children[0])
    copies = tree.step(children).copies
    assert copies[:, 0].tolist() == before[4:6].tolist()
    assert set(copies[:, 1]) <= {*tree.slots(children[0]), *tree.slots(children[1])}


def test_a_saved_leaf_comes_back():
    random = np.random.default_rng(5)
    model = ToyTreeModel()
    session = session_of(model, pages=40)
    tree = session.tree
    root = tree.add_root(random.integers(30, size=21))
    session.step([root])
    left, right = tree.fork(root, 2)
    for leaf in (left, right):
        tree.append(leaf, random.integers(30, size=6))
    session.step([left, right])
    assert tree.pages_in_use == 5 + 2 + 2  # of 21 tokens five full pages are shared
    session.save(right)
    assert tree.info(right).state == "saved"
    assert tree.pages_in_use == 7
    with pytest.raises(trunkline.StaleError, match="which is saved"):
        tree.append(right, [1])
    tree.append(left, random.integers(30, size=30))
    session.step([left])  # writes to the pages that were freed
    session.restore(right)
    assert tree.pages_in_use == 15 + 2
    for leaf in (left, right):
        tree.append(leaf, [3])
    for leaf, logits in zip((left, right), session.step([left, right])):
        np.testing.assert_allclose(logits, model.after(tree.sequence(leaf)), atol=2e-4)
    # Alone, it brings all of its tokens back.
    session.save(right)
    tree.prune(left)
    assert tree.pages_in_use == 0
    session.restore(right)
    tree.append(right, [4])
    np.testing.assert_allclose(session.step([right])[0], model.after(tree.sequence(right)), atol=2e-4)


def test_saving_is_refused():
    session = session_of(ToyTreeModel(), pages=6)
    tree = session.tree
    root = tree.add_root(range(20))
    session.step([root])
    with pytest.raises(trunkline.StaleError, match="which is leaf; a saved one is needed"):
        session.restore(root)
    session.save(root)
    with pytest.raises(trunkline.StaleError):
        session.save(root)
    other = tree.add_root(range(7, 20))
    session.step([other])
    with pytest.raises(trunkline.InvalidArgumentError, match="need 5 pages; of the pool's 6, 2 are free"):
        session.restore(root)
    assert tree.info(root).state == "saved"
    tree.prune(other)
    session.restore(root)
    tree.append(root, [5])
    np.testing.assert_allclose(session.step([root])[0], session.model.after([*range(20), 5]), atol=2e-4)
    session.save(root)
    tree.prune(root)
    again = tree.add_root([1, 2])
    session.step([again])
    session.save(again)  # forgets what was kept of the pruned one
    assert list(session._saved) == [again]
    tree.clear()
    with pytest.raises(trunkline.Error):
        session.restore(again)


def test_refusals():
    tree = trunkline.SequenceTree(page_size=4, num_pages=8)
    root = tree.add_root([1, 2])
    other = trunkline.SequenceTree(page_size=4, num_pages=8)
    with pytest.raises(trunkline.InvalidArgumentError, match="node is node 0 of tree"):
        other.commit(root)
    with pytest.raises(trunkline.ArgumentTypeError, match="node is 3; expected: a TreeNode"):
        tree.prune(3)
    with pytest.raises(trunkline.InvalidArgumentError, match="count is 0"):
        tree.fork(root, 0)
    with pytest.raises(trunkline.InvalidArgumentError, match="parents has shape"):
        tree.draft(root, [1, 2], [-1])
    with pytest.raises(trunkline.UnsupportedError, match="live is a sequence tree's batch"):
        tree.live.advance([3])
    tree.prune(root)
    with pytest.raises(trunkline.StaleError, match="node is node 0, which is pruned"):
        tree.fork(root, 2)
    tree.clear()
    with pytest.raises(trunkline.InvalidArgumentError, match="of tree"):
        tree.info(root)
    tree.close()
    with pytest.raises(trunkline.ClosedError, match="sequence_tree is closed"):
        tree.add_root([1])
    with pytest.raises(trunkline.ClosedError):
        len(tree.live)
    with pytest.raises(trunkline.ArgumentTypeError, match="model is of type int, without num_layers"):
        trunkline.TreeSession(3, num_pages=4)
