"""Default limits of plans for graphs and planners on the GPU: long shared prefixes must not fall back to `flat`."""

import pytest
import trunkline
from trunkline import _abi
from trunkline._arguments import INT32_MAX
from trunkline._capacities import with_capacities
from trunkline._device_planning import DevicePlanning
from trunkline._library import new
from trunkline.plans import Plan, Planner, PlanOptions

H200 = trunkline.Profile.named("h200-sxm")
WORKERS = 132
# Nodes of each level, and tokens of each node: the prefixes that took 28 times as long as `flat` plans.
TREES = [((1, 72), (131072, 128)), ((1, 40), (65536, 128)), ((8, 64), (131072, 8192)), ((1, 128), (262144, 512))]
HEADS = [(32, 8), (64, 8), (8, 1), (16, 2), (32, 32)]


def forest_of(counts, tokens):
    parents, lengths, begin = [], [], 0
    for level, (count, length) in enumerate(zip(counts, tokens, strict=True)):
        above = counts[level - 1] if level else 0
        first = len(parents)
        parents += [begin + child * above // count if level else -1 for child in range(count)]
        lengths += [length] * count
        begin = first
    return trunkline.Forest.from_tree(parents, lengths, list(range(begin, len(parents))))


def shape_of(q_heads, kv_heads):
    sizes = {"q_heads": q_heads, "kv_heads": kv_heads, "head_dim_qk": 128, "head_dim_v": 128, "page_size": 16}
    return new(_abi.Shape, **sizes, q_dtype=_abi.F16, kv_dtype=_abi.F16, device=_abi.CUDA)


def device_limits(queries, shape):
    found = DevicePlanning(queries)._struct(0, WORKERS, shape, PlanOptions())
    return {name: getattr(found, name) for name in ("capacity_items", "capacity_spans", "capacity_partials")}


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("tree", TREES)
def test_long_prefixes_are_shared(tree, heads):
    forest, shape = forest_of(*tree), shape_of(*heads)
    queries = tree[0][-1]
    for options in (
        with_capacities(PlanOptions(), queries, WORKERS, shape),
        PlanOptions(policy="trunk", capacity_queries=queries, **device_limits(queries, shape)),
    ):
        planner = Planner(H200, shape, options)
        plan = Plan(planner.plan(forest._handle.value))
        assert plan.statistics.fallbacks == 0, plan.info
        assert plan.statistics.kv_tokens_read < plan.statistics.kv_tokens_total / 2
        planner.close()


def test_limits_stay_within_32_bits():
    shape = shape_of(32, 8)
    limits = device_limits(INT32_MAX // 40, shape)
    assert max(limits.values()) <= INT32_MAX
    assert with_capacities(PlanOptions(), INT32_MAX // 4, WORKERS, shape).capacity_spans == INT32_MAX
