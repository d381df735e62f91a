"""Ways to compute a step's attention: Trunkline's policies, full masks, a KV copy a branch, a request a draft.

A method plans once a step and attends once a layer. All of them read the K and V that the step has been given in one
paged cache, but for `Copies`, which keeps its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import trunkline
from clock import Clock
from visible import Step, visible_slots

_attention = torch.nn.functional.scaled_dot_product_attention


class Method:
    """One way. kv_bytes: what it needs to keep K and V of the present step."""

    name = ""
    about = ""

    def plan(self, step: Step) -> None:
        """Once a step, before its layers."""

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, clock: Clock) -> torch.Tensor:
        """q [T, Hq, d], k, v [T, Hkv, d], which the paged cache has already; out [T, Hq, d]."""
        raise NotImplementedError

    def kv_bytes(self, step: Step) -> int:
        return step.paged_bytes

    def close(self) -> None:
        pass


class Policy(Method):
    """DecodeAttention by one of Trunkline's policies."""

    def __init__(self, name: str, model: Any, page_size: int, workers: Any, profile: Any, **options: Any) -> None:
        self.name = name
        options.setdefault("policy", name)
        self.attention = trunkline.DecodeAttention(
            model.num_qo_heads,
            model.num_kv_heads,
            model.head_dim,
            page_size,
            dtype=model.dtype,
            device=model.device,
            workers=workers,
            profile=profile,
            options=trunkline.PlanOptions(**options),
        )

    def plan(self, step: Step) -> None:
        self.attention.plan_live(step.tree.live)
        self._caches = step.cache.layers

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, clock: Clock) -> torch.Tensor:
        with clock.part("attention"):
            return self.attention.run(q, self._caches[layer])

    def close(self) -> None:
        self.attention.close()


class RequestPerQuery(Policy):
    """Radix attention, which knows no trees of queries: each query token is a request of its own, whose tokens are
    listed one by one (page size 1), by policy `flat`."""

    def __init__(self, model: Any, workers: Any, profile: Any) -> None:
        super().__init__("request_per_query", model, 1, workers, profile, policy="flat")

    def plan(self, step: Step) -> None:
        rows = visible_slots(step)
        lengths = np.array([len(row) for row in rows], np.int32)
        table = np.zeros((len(rows), int(lengths.max())), np.int32)
        for slots, row in zip(rows, table):
            row[: len(slots)] = slots
        self.attention.plan_token_level(table, np.arange(len(rows), dtype=np.int32), lengths, num_pages=step.num_slots)
        self._caches = [
            tuple(part.view(step.num_slots, 1, *part.shape[2:]) for part in pair) for pair in step.cache.layers
        ]


class FullMasks(Method):
    """Medusa's tree attention: all queries against all distinct tokens, by a dense mask of who sees what.

    Query heads of a KV head are further queries of it. Keys and values are gathered from the pages before, which is a
    part of its own. fused: by scaled_dot_product_attention; else as Medusa has it, one operator after the other.
    """

    def __init__(self, name: str, *, fused: bool) -> None:
        self.name, self._fused = name, fused

    def plan(self, step: Step) -> None:
        rows = visible_slots(step)
        union = np.unique(np.concatenate(rows))
        mask = np.full((len(rows), len(union)), -np.inf, np.float32)
        for visible, row in zip(rows, mask):
            row[np.searchsorted(union, visible)] = 0
        device, dtype = step.cache.layers[0][0].device, step.cache.layers[0][0].dtype
        self._union = torch.as_tensor(union, device=device)
        self._mask = torch.as_tensor(mask, device=device, dtype=dtype)
        self._caches = [tuple(part.flatten(0, 1) for part in pair) for pair in step.cache.layers]
        self._grouped: torch.Tensor | None = None

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, clock: Clock) -> torch.Tensor:
        queries, q_heads, dim = q.shape
        kv_heads = k.shape[1]
        group = q_heads // kv_heads
        with clock.part("gather"):
            keys, values = (part[self._union].transpose(0, 1) for part in self._caches[layer])
        with clock.part("attention"):
            if self._grouped is None:
                self._grouped = self._mask.repeat_interleave(group, dim=0)
            rows = q.view(queries, kv_heads, group, dim).transpose(0, 1).reshape(kv_heads, queries * group, dim)
            if self._fused:
                out = _attention(rows[None], keys[None], values[None], attn_mask=self._grouped)[0]
            else:
                logits = torch.matmul(rows, keys.transpose(1, 2)) / dim**0.5 + self._grouped
                out = torch.matmul(torch.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype), values)
            return out.view(kv_heads, queries, group, dim).transpose(0, 1).reshape(q.shape)


class Copies(Method):
    """generate() with scaled_dot_product_attention: a branch has a copy of its whole KV, in tensors with room for what
    comes. Branches have equal lengths; query heads of a KV head are further queries of it."""

    name = "copies"

    def __init__(self, room: int) -> None:
        self._room = room
        self._own: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._nodes: list[Any] = []

    def plan(self, step: Step) -> None:
        rows = visible_slots(step)
        self._length = len(rows[0])
        if {len(row) for row in rows} != {self._length}:
            raise ValueError("branches of a KV copy each have different lengths; expected: equal ones")
        if self._nodes == step.given.nodes:
            return
        self._nodes = list(step.given.nodes)
        self._own.clear()
        for pair in step.cache.layers:
            made = tuple(
                torch.zeros(len(rows), part.shape[2], self._length + self._room, part.shape[3], dtype=part.dtype,
                            device=part.device)
                for part in pair
            )  # fmt: skip
            for row, slots in enumerate(rows):
                index = torch.as_tensor(slots, device=pair[0].device)
                for own, part in zip(made, pair):
                    own[row, :, : self._length] = part.flatten(0, 1)[index].transpose(0, 1)
            self._own.append(made)

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, clock: Clock) -> torch.Tensor:
        rows, q_heads, dim = q.shape
        kv_heads = k.shape[1]
        with clock.part("write"):
            for own, given in zip(self._own[layer], (k, v)):
                own[:, :, self._length - 1] = given
        with clock.part("attention"):
            keys, values = (own[:, :, : self._length] for own in self._own[layer])
            return _attention(q.view(rows, kv_heads, q_heads // kv_heads, dim), keys, values).reshape(q.shape)

    def kv_bytes(self, step: Step) -> int:
        return len(step.given.nodes) * self._length * step.token_bytes
