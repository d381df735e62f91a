"""Objects that share a workspace: each gives its own attention, or a WorkspaceError."""

import numpy as np
import pytest
import trunkline
from oracle import attention as oracle

LENGTHS = [40, 37, 48]
TABLES = [[0, 1, 2], [0, 1, 3], [0, 4, 5]], [[10, 11, 12], [13, 14, 15], [16, 17, 18]]
random = np.random.default_rng(5)
Q = random.standard_normal((3, 8, 64)).astype(np.float32)
K, V = random.standard_normal((2, 32, 16, 2, 64)).astype(np.float32)


def made(workspace):
    return trunkline.DecodeAttention(8, 2, 64, 16, dtype="float32", workspace=workspace)


def right(attention, tables):
    return np.allclose(attention.run(Q, (K, V)), oracle(Q, K, V, tables, LENGTHS)[0], atol=1e-5)


def refused(attention):
    return pytest.raises(trunkline.WorkspaceError, match="another executor|another plan|not resolved")


@pytest.mark.parametrize("offset", [0, 64, 4096])
def test_two_objects_on_one_workspace(offset):
    memory = np.empty(1 << 21, np.uint8)
    a, b = made(memory), made(memory[offset:])
    a.plan(TABLES[0], LENGTHS)
    b.plan(TABLES[1], LENGTHS)
    assert right(b, TABLES[1])
    with refused(a):
        a.run(Q, (K, V))
    a.plan(TABLES[0], LENGTHS)
    assert right(a, TABLES[0])
    with refused(b):
        b.run(Q, (K, V))
    b.plan(TABLES[1], LENGTHS)
    b.close()
    with refused(a):
        a.run(Q, (K, V))
    a.plan(TABLES[0], LENGTHS)
    assert right(a, TABLES[0])


def test_parts_of_one_buffer():
    memory = np.empty(1 << 21, np.uint8)
    a, b = made(memory[: 1 << 20]), made(memory[1 << 20 :])
    a.plan(TABLES[0], LENGTHS)
    b.plan(TABLES[1], LENGTHS)
    assert right(a, TABLES[0]) and right(b, TABLES[1])


def test_a_workspace_that_was_zeroed():
    memory = np.empty(1 << 21, np.uint8)
    a = made(memory)
    a.plan(TABLES[0], LENGTHS)
    memory[:] = 0
    with refused(a):
        a.run(Q, (K, V))
