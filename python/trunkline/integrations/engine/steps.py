"""Decode steps of one group of layers: which of them Trunkline runs; planned once a step, run once a layer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import DecodeAttention, DevicePlanning, Profile, errors
from ..._executors import shared_workers
from .arrays import Arrays
from .beside_prefill import BesidePrefill, PrefillRule
from .capability import LayerFacts
from .counters import SAMPLED, CounterLog, Counters, Groups
from .gain_switch import GainRule, GainSwitch
from .invariance import InvariantPlans
from .metrics import Metrics
from .planning import GroupPlanner
from .settings import Settings
from .shadow import Shadow
from .tables import Tables


@dataclass(frozen=True)
class Engine:
    """An adapter's description of its engine.

    name, kernel: its own and its attention kernel's, in log lines. kv_layout: "NHD", caches [pages, P, Hkv, d], or
    "HND", [pages, Hkv, P, d]. null_page: a page that stands for "no page", as padding has it; None where padding has
    length 0 and no such page is. groups: of this adapter, for statistics. gain_rule: when steps go back to the engine,
    if settings.gain_rule has it on. prefill_rule: when Trunkline runs the decode rows of a step that has prefill rows,
    too. invariant: a request's results are the same bits in any batch. Trunkline then runs each step with decode rows,
    whatever either rule says.
    """

    name: str
    logger: logging.Logger
    settings: Settings
    kv_layout: str = "NHD"
    null_page: int | None = None
    groups: Groups = field(default_factory=Groups)
    gain_rule: GainRule = GainRule()
    prefill_rule: PrefillRule = PrefillRule()
    invariant: bool = False
    kernel: str = "kernel"


class DecodeSteps:
    """Made once a group, before graphs are captured: its memory stays where it is. On a GPU it launches only; nothing
    waits for the device. Page tables there stay where the first plan had them: page_table, indices, req_to_token, and
    of 32 bits indptr and req_pool_indices.

    One object serves all graphs of its group, on one thread and one stream, or streams that wait for each other: the
    plan of a step may be launched while the last step still runs, once the last step's runs are launched.

    layers: their names. max_rows: requests of a step, padding to the largest graph included; on a GPU `plan` raises
    InvalidArgumentError for more rows, or more than max_rows * facts.longest_query tokens, so an adapter that may have
    more asks before `takes`. max_tokens: query tokens of a step, prefill and padding included, for the lists of shadow
    mode alone. num_pages: of the KV cache; page ids are not checked against it. On the CPU None has the largest id
    looked up. max_kv_len: the most tokens of a request, which Engine.invariant needs.
    Raises trunkline.Error for a shape that no kernel has, and for Engine.invariant with drafts; and the array library's
    error where memory is out.

    Attributes: counters; shadow, the comparison, None without shadow mode; several, whether decode rows may have
    several query tokens.
    """

    def __init__(
        self,
        engine: Engine,
        facts: LayerFacts,
        layers: Sequence[str],
        arrays: Arrays,
        *,
        max_rows: int,
        max_tokens: int,
        num_pages: int | None = None,
        max_kv_len: int | None = None,
    ) -> None:
        on_gpu = facts.device == "cuda"
        profile = _profile(facts, arrays.device)
        plans = _invariant_plans(facts, max_rows, max_kv_len) if engine.invariant else None
        planning = DevicePlanning(
            max_rows,
            max_rows * facts.longest_query,
            null_page=engine.null_page,
            **(plans.capacities if plans else {}),
        )
        self.attention = DecodeAttention(
            *facts.shape,
            dtype=facts.dtype,
            kv_dtype=facts.kv_dtype,
            device=arrays.device,
            kv_layout=engine.kv_layout,
            profile=profile,
            options=plans.options if plans else None,
            use_cuda_graph=on_gpu,
            device_planning=planning if on_gpu else None,
        )
        if on_gpu:
            self.attention.set_workspace(arrays.empty(self.attention.workspace_bytes() + 256, "uint8"))
        self._arrays = arrays
        bytes_per_token = facts.kv_bytes_per_token
        settings = engine.settings
        self.counters = Counters(len(layers), bytes_per_token * len(layers))
        self.several = facts.longest_query > 1
        self.shadow = Shadow(arrays, facts.kv_dtype, max_rows, max_tokens) if settings.shadow else None
        self._planner = GroupPlanner(
            self.attention,
            arrays,
            page_size=facts.page_size,
            max_rows=max_rows,
            max_queries=max_rows * facts.longest_query,
            on_gpu=on_gpu,
            null_page=engine.null_page,
            num_pages=num_pages,
        )
        self._beside_prefill = BesidePrefill(engine.prefill_rule, bytes_per_token, profile.info["read_bytes_per_us"])
        self._invariant = engine.invariant
        self._switch = GainSwitch(engine.gain_rule if settings.gain_rule else None)
        group = f"{len(layers)} layers from {layers[0]}"
        self._log = CounterLog(
            self.counters, group, engine.name, engine.logger, settings.log_seconds, self.shadow_report
        )
        self._metrics = Metrics(layers[0])
        self._looked_at = 0
        engine.groups.add(layers[0], self)

    @property
    def on(self) -> bool:
        """Whether the gain switch is on. Off, the engine runs all steps but probes and replays."""
        return self._switch.on

    def takes(self, decode_rows: int, rows: int, *, prefill_tokens: int = 0, replayed: bool = False) -> bool:
        """Once a step, before `plan`: whether Trunkline runs its first decode_rows of all rows. Where not, the engine's
        kernel runs all of the step.

        prefill_tokens: query tokens behind the decode rows. replayed: the step runs a graph that was captured with
        Trunkline's kernels, or is the capture: such a step must be planned, as the graph reads the plan.
        """
        if self._is_taken(decode_rows, rows, prefill_tokens, replayed):
            self.counters.mixed_steps += int(decode_rows < rows)
            return True
        self.counters.engine_steps += 1
        return False

    def plan(
        self,
        tables: Tables,
        rows: int,
        query_start_loc: Any = None,
        tokens: int | None = None,
        *,
        query_parents: Any = None,
        counted: bool = True,
        decode_rows: int | None = None,
    ) -> None:
        """Plans the first rows of the tables, which are on the device, for runs of [tokens, Hq, d].

        query_start_loc: prefix sums on the device; None for a query token in each of the first `tokens` rows, and none
        in those behind. tokens: their last, padding of the graph included, by default rows. query_parents [tokens]: for
        draft trees, on the device, as DecodeAttention.plan takes it. counted: False for batches without requests of
        users, as those of captures. decode_rows: those that count as such, where Trunkline runs rows of prefill, too;
        by default all do. In graphs rows and tokens are those of the capture.
        """
        tokens = rows if tokens is None else tokens
        if query_start_loc is None:
            rows = min(rows, tokens)
        self._planner.plan(tables, rows, query_start_loc, query_parents, tokens)
        if self.shadow is not None:
            self.shadow.live(tables, query_start_loc, rows, tokens)
        if counted:
            self._count(rows, rows if decode_rows is None else decode_rows)

    def run(
        self,
        query: Any,
        kv_cache: Any,
        output: Any,
        scale: float | None,
        tokens: int,
        *,
        soft_cap: float | None = None,
        sinks: Any = None,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
    ) -> None:
        """One layer. query, output [tokens and more, Hq, d], of which the first are of the planned rows. kv_cache: a
        pair (k, v) in the engine's layout, or one tensor with both, as DecodeAttention.run takes it. sinks [Hq] of any
        float type: they become float32 in each run, as new weights may come into the same tensor. q_scale, k_scale,
        v_scale: what values of query, k and v are multiplied by, as DecodeAttention.run takes them; a tensor on the
        device is read there in each run, so that it may be written after a capture."""
        if sinks is not None:
            sinks = self._arrays.float32(sinks)
        variant = {"soft_cap": soft_cap, "sinks": sinks, "q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
        self.attention.run(query, kv_cache, out=output, scale=scale, num_queries=tokens, **variant)

    def look(self) -> None:
        """Counts by the device's report of its plans, without waiting for it."""
        steps = self.counters.decode_steps - self._looked_at
        if not steps:
            return
        self._looked_at += steps
        report = self._planner.report()
        self._log.look(report, steps)
        saved = self._switch.take(report, steps)
        if saved is not None:
            self._log.turned(self._switch.on, saved)

    def shadow_report(self) -> dict[str, float] | None:
        """Counts of the comparison; None without shadow mode. Waits for the device."""
        return None if self.shadow is None else self.shadow.report()

    def _is_taken(self, decode_rows: int, rows: int, prefill_tokens: int, replayed: bool) -> bool:
        if decode_rows == 0:
            return False
        if replayed or self._invariant or self.shadow is not None:
            return True
        report = self._planner.report
        if decode_rows < rows and not self._beside_prefill.pays(report(), prefill_tokens):
            return False
        if self._switch.probe_reported(report):
            self.look()
        if self._switch.admits(report):
            return True
        self.counters.switched_steps += 1
        return False

    def _count(self, rows: int, decode_rows: int) -> None:
        if not decode_rows:
            return
        counters = self.counters
        counters.decode_steps += 1
        counters.decode_rows += decode_rows
        counters.mixed_steps += int(decode_rows < rows)
        if counters.decode_steps - self._looked_at >= SAMPLED:
            self.look()
            self._log.tick()
            self._metrics.publish(counters)


def _invariant_plans(facts: LayerFacts, max_rows: int, max_kv_len: int | None) -> InvariantPlans:
    if facts.longest_query > 1:
        raise errors.InvalidArgumentError(
            f"engine.invariant, decode rows of {facts.longest_query} query tokens; expected: 1, as bits depend on it"
        )
    if max_kv_len is None or max_kv_len < 1:
        raise errors.InvalidArgumentError(f"max_kv_len is {max_kv_len}; expected with engine.invariant: 1 or more")
    return InvariantPlans(max_rows, max_kv_len)


def _profile(facts: LayerFacts, device: Any) -> Profile:
    if facts.device == "cuda":
        return Profile.cuda(*facts.shape, dtype=facts.dtype, device=device, kv_dtype=facts.kv_dtype)
    return Profile.generic_cpu(shared_workers().size)
