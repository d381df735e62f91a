"""Forests, plans, planners, and what there is to know about them (docs/concepts/policies.md)."""

from __future__ import annotations

import ctypes
import html
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from . import _abi, errors
from ._arguments import c_string, choice, instance, int32
from ._batches import HostBatch
from ._indices import Indices, host_ints
from ._library import Handle, NotCopied, c, check, new, text_by
from ._tensors import dtype_name
from .machine import Profile, shape_text

POLICIES = {
    "auto": _abi.POLICY_AUTO,
    "flat": _abi.POLICY_FLAT,
    "cascade": _abi.POLICY_CASCADE,
    "node": _abi.POLICY_NODE,
    "profit": _abi.POLICY_PROFIT,
    "greedy": _abi.POLICY_GREEDY,
    "flatten": _abi.POLICY_FLATTEN,
    "balanced": _abi.POLICY_BALANCED,
    "trunk": _abi.POLICY_TRUNK,
    "invariant": _abi.POLICY_INVARIANT,
}
_POLICY_NAMES = {number: name for name, number in POLICIES.items()}
_SPLITS = {"own": _abi.SPLIT_OWN, "balance": _abi.SPLIT_BALANCE, "none": _abi.SPLIT_NONE}


@dataclass(frozen=True)
class PlanOptions:
    """How plans are made. Zero is the policy's own choice, or no limit.

    policy: one of POLICIES; split: "own", "balance", "none"; capacity_*: upper limits, for workspaces
    and graphs of fixed size, beyond which a plan falls back to `flat`, which its statistics count, and one of
    "invariant" is an error; tile_m, tile_n: the tile of all items; the others are of single policies
    (docs/concepts/policies.md).

    policy="invariant": a request's results are the same bits whatever else is in the batch.
    """

    policy: str = "auto"
    split: str = "own"
    capacity_queries: int = 0
    capacity_items: int = 0
    capacity_spans: int = 0
    capacity_partials: int = 0
    tile_m: int = 0
    tile_n: int = 0
    node_chunk: int = 0
    flatten_block: int = 0
    trunk_rows: int = 0
    invariant_chunk: int = 0

    def _struct(self) -> _abi.PlanOptions:
        def limit(name: str) -> int:
            return int32(getattr(self, name), f"options.{name}")

        return new(
            _abi.PlanOptions,
            policy=choice(POLICIES, self.policy, "policy"),
            split=choice(_SPLITS, self.split, "split"),
            capacity_queries=limit("capacity_queries"),
            capacity_items=limit("capacity_items"),
            capacity_spans=limit("capacity_spans"),
            capacity_partials=limit("capacity_partials"),
            tile_m=limit("tile_m"),
            tile_n=limit("tile_n"),
            node_chunk=limit("node_chunk"),
            flatten_block=limit("flatten_block"),
            trunk_rows=limit("trunk_rows"),
            invariant_chunk=limit("invariant_chunk"),
        )


@dataclass(frozen=True)
class Node:
    """A run of tokens [begin, end) used by the same requests, order[requests_begin:requests_end] of Forest.order.

    parent: an index of Forest.nodes, -1 for a root; row: of a request that has these tokens; depth: 0 for a root.
    """

    parent: int
    begin: int
    end: int
    row: int
    requests_begin: int
    requests_end: int
    depth: int


class Forest(NotCopied):
    """Which runs of tokens are used by which requests. Of a batch's page tables, or of a search tree (from_tree)."""

    def __init__(self) -> None:
        self._handle = Handle("forest")

    @classmethod
    def from_tree(cls, parent: Indices, tokens: Indices, end_node: Indices) -> Forest:
        """A search tree given directly; request r has slot r and one query token.

        parent [nodes], -1 for a root; tokens [nodes], after those of the parent; end_node [requests], the node that
        each request ends in, -1 for an empty one. The caller vouches that page tables agree: at the positions of a
        node all its members' tables hold the same keys and values.

        >>> import trunkline
        >>> tree = trunkline.Forest.from_tree(parent=[-1, 0, 0], tokens=[100, 20, 30], end_node=[1, 2])
        >>> tree.total_tokens, tree.distinct_tokens
        (250, 150)
        """
        nodes = host_ints(parent, "parent")
        runs = host_ints(tokens, "tokens")
        ends = host_ints(end_node, "end_node")
        if runs.shape != nodes.shape:
            raise errors.InvalidArgumentError(
                f"tokens has shape {list(runs.shape)}; expected: that of parent, {list(nodes.shape)}"
            )
        forest = cls()
        tree = new(
            _abi.Tree,
            parent=nodes.address,
            tokens=runs.address,
            end_node=ends.address,
            nodes=nodes.shape[0],
            requests=ends.shape[0],
        )
        check(c.trunkline_forest_build_tree(forest._handle.value, ctypes.byref(tree)))
        return forest

    def _build(self, batch: HostBatch, check_ids: bool) -> None:
        check(c.trunkline_forest_build(self._handle.value, batch.address, int(check_ids)))

    def _info(self) -> _abi.ForestInfo:
        info = new(_abi.ForestInfo)
        check(c.trunkline_forest_get_info(self._handle.value, ctypes.byref(info)))
        return info

    @property
    def rows(self) -> int:
        """Requests, B."""
        return self._info().rows

    @property
    def total_tokens(self) -> int:
        """Sum of the lengths: what a one-request-at-a-time kernel reads."""
        return self._info().total_tokens

    @property
    def distinct_tokens(self) -> int:
        """Sum of the runs: what must be read at least once."""
        return self._info().distinct_tokens

    @property
    def nodes(self) -> list[Node]:
        """Depth-first, a parent before its children."""
        count = self._info().nodes
        found = (_abi.ForestNode * count)()
        check(c.trunkline_forest_nodes(self._handle.value, found, count))
        names = [field.name for field in fields(Node)]
        return [Node(*(getattr(node, name) for name in names)) for node in found]

    @property
    def order(self) -> list[int]:
        """The requests' rows, depth-first."""
        count = self.rows
        found = (ctypes.c_int32 * count)()
        check(c.trunkline_forest_order(self._handle.value, found, count))
        return list(found)

    def close(self) -> None:
        self._handle.close()


@dataclass(frozen=True)
class Statistics:
    """Traffic and arithmetic of a plan: per layer, all heads together, at the lengths of planning time.

    kv_tokens_total: read by a one-request-at-a-time kernel; kv_tokens_distinct: at least by any.
    kv_tokens_read: by this plan; kv_tokens_grouped: if an item could hold any number of queries.
    kv_bytes_distinct, kv_bytes_read: the same of keys and values; kv_bytes_reread: read less distinct, which a cache
    serves where one holds them.
    qo_bytes: queries in, outputs out.
    partials: (item, query) pairs whose output needs a merge; partial_bytes: written once and read once.
    flops: 4 d for each (query row, visible token); flops_padded: with rows padded as the kernels do.
    predicted_us: by the cost model and the profile; bound_us: no plan is faster.
    fallbacks: 1 when a capacity forced the plan back to `flat`.
    """

    kv_tokens_total: int
    kv_tokens_distinct: int
    kv_tokens_read: int
    kv_tokens_grouped: int
    kv_bytes_distinct: int
    kv_bytes_read: int
    kv_bytes_reread: int
    qo_bytes: int
    partials: int
    partial_bytes: int
    flops: float
    flops_padded: float
    predicted_us: float
    bound_us: float
    fallbacks: int


class Plan(NotCopied):
    """Which queries read which tokens together. A planner's ends with its next plan; `copy` makes one that lasts."""

    _copy_hint = "Plan.copy() for one that lasts, Plan.json() for what it says"

    def __init__(self, value: int, owned: Handle | None = None) -> None:
        self._value = value
        self._owned = owned

    @property
    def _at(self) -> int:
        return self._value if self._owned is None else self._owned.value

    @property
    def info(self) -> dict[str, Any]:
        """The key that it runs on (heads, head sizes, page_size, dtypes, device), policy, epoch, and its sizes."""
        info = new(_abi.PlanInfo)
        check(c.trunkline_plan_get_info(self._at, ctypes.byref(info)))
        found = {field[0]: getattr(info, field[0]) for field in info._fields_ if field[0] != "struct_size"}
        named = {
            "q_dtype": dtype_name(info.q_dtype),
            "kv_dtype": dtype_name(info.kv_dtype),
            "device": "cuda" if info.device == _abi.CUDA else "cpu",
            "policy": _POLICY_NAMES[info.policy],
        }
        return found | named

    @property
    def statistics(self) -> Statistics:
        """The plan's traffic and arithmetic."""
        found = new(_abi.PlanStatistics)
        check(c.trunkline_plan_get_statistics(self._at, ctypes.byref(found)))
        return Statistics(*(getattr(found, field.name) for field in fields(Statistics)))

    def json(self) -> Any:
        """The whole plan, with its statistics."""
        return json.loads(text_by("trunkline_plan_json", self._at))

    def validate(self, forest: Forest) -> None:
        """Proves that each (query, visible token) pair is covered exactly once, now and after growth, or raises."""
        instance(forest, Forest, "forest")
        check(c.trunkline_plan_validate(self._at, forest._handle.value))

    def copy(self) -> Plan:
        """One that outlives the planner's next."""
        return Plan(0, Handle("plan", self._at, by="copy"))

    def close(self) -> None:
        """Frees a copy; does nothing on a plan that the planner owns."""
        if self._owned is not None:
            self._owned.close()


class Planner(NotCopied):
    """Makes plans of forests, for one machine and one shape of layers."""

    def __init__(self, profile: Profile, shape: _abi.Shape, options: PlanOptions) -> None:
        self.profile = profile
        self.shape = shape
        self.options = options
        self._handle = Handle("planner", profile._handle.value)
        self._shape = ctypes.addressof(shape)
        self._options = options._struct()
        self._options_at = ctypes.addressof(self._options)
        self._plan = ctypes.c_void_p()
        self._plan_at = ctypes.addressof(self._plan)

    def plan(self, forest: int) -> int:
        """The plan's handle, of a forest's."""
        check(c.trunkline_planner_plan(self._handle.value, forest, self._shape, self._options_at, self._plan_at))
        return self._plan.value or 0

    def estimates(self, forest: int) -> dict[str, float]:
        """Predicted microseconds of the policies that `auto` considers."""
        found = (_abi.Estimate * len(POLICIES))()
        count = ctypes.c_size_t()
        check(
            c.trunkline_planner_estimate(
                self._handle.value, forest, self._shape, found, len(found), ctypes.byref(count)
            )
        )
        return {_POLICY_NAMES[one.policy]: one.predicted_us for one in found[: count.value]}

    def page(self, forest: int, title: str) -> str:
        profile = self.profile._handle.value
        return text_by("trunkline_plan_page", profile, forest, self._shape, self._options_at, title.encode(), None)

    def close(self) -> None:
        self._handle.close()


class Explanation:
    """The sharing in a batch, and the plan for it. In a notebook it shows the page of `trunkline plan --html`.

    info, statistics: the plan's, as Plan has them. estimates: predicted microseconds of the policies that `auto`
    considers.
    """

    def __init__(self, planner: Planner, forest: int, title: str, plan: int | None = None) -> None:
        c_string(title, "title")
        of = Plan(planner.plan(forest) if plan is None else plan)
        self.info = of.info
        self.statistics = of.statistics
        self.estimates = planner.estimates(forest)
        self.title = title
        self._shape = shape_text(planner.shape)
        self._page = planner.page(forest, title)

    @property
    def policy(self) -> str:
        """The one that made the plan; with `auto` the one that it chose."""
        return str(self.info["policy"])

    @property
    def html(self) -> str:
        """A page of its own, for a file or a browser."""
        return self._page

    def save(self, path: str | Path) -> None:
        """Writes the page; FileNotFoundError and the like are Python's own."""
        Path(path).write_text(self._page, encoding="utf-8")

    def _repr_html_(self) -> str:
        source = html.escape(self._page, quote=True)
        return f'<iframe srcdoc="{source}" style="width:100%;height:640px;border:0" sandbox="allow-scripts"></iframe>'

    def __str__(self) -> str:
        s = self.statistics
        saved = 1 - s.kv_tokens_read / s.kv_tokens_total if s.kv_tokens_total else 0.0
        return (
            f"{self.title}: {self._shape}\n"
            f"policy {self.policy}: {self.info['items']} work items, {s.partials} partials\n"
            f"KV tokens: {s.kv_tokens_total} one request at a time, {s.kv_tokens_read} read by this plan "
            f"({saved:.0%} saved), {s.kv_tokens_distinct} distinct\n"
            f"predicted {s.predicted_us:.1f} us a layer; no plan is faster than {s.bound_us:.1f} us"
        )

    __repr__ = __str__
