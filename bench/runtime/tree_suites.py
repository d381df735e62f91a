"""The suites of forced trees: few-shot prompting, recorded reasoning, speculative decoding by recorded acceptance."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import recorded
from methods import Copies, FullMasks, Method, Policy, RequestPerQuery
from rows import step_rows
from stepping import SteppedTree

PAGE_SIZE = 16
#: Methods by the names that rows have. DeFT-Node, Node-chunk and Flatten are policies here (docs/concepts/policies.md).
NAMES = ("trunk", "auto", "flat", "flatten", "node", "node_chunk", "masks", "masks_unfused", "copies",
         "request_per_query")  # fmt: skip
DEFAULTS = {
    "few_shot": ["trunk", "auto", "flat", "flatten", "node", "masks", "copies"],
    "reasoning": ["trunk", "auto", "flat", "flatten", "node", "node_chunk", "masks"],
    "speculative": ["trunk", "auto", "flat", "flatten", "masks", "request_per_query"],
}


def made_methods(names: list[str], model: Any, given: Any, room: int = 0) -> list[Method]:
    def method(name: str) -> Method:
        if name in ("masks", "masks_unfused"):
            return FullMasks(name, fused=name == "masks")
        if name == "copies":
            return Copies(room)
        if name == "request_per_query":
            return RequestPerQuery(model, given.workers, given.profile)
        options = {"policy": "node", "node_chunk": 128} if name == "node_chunk" else {}
        return Policy(name, model, PAGE_SIZE, given.workers, given.profile, **options)

    return [method(name) for name in names]


def timed_indices(count: int, timed: int) -> set[int]:
    """So many of 1 to count, evenly spread, the last one among them."""
    return {count - (count * i) // timed for i in range(timed)}


class _Samples:
    """The timed steps of one tree; the first one is checked against attention in fp64 before."""

    def __init__(self, stepped: SteppedTree) -> None:
        self._stepped = stepped
        self.found: list[tuple[int, int, dict, dict]] = []

    def take(self, index: int, step: Any, last: int = 1) -> None:
        if not self.found:
            self._stepped.measure(step, last=last, check=True)
        times = self._stepped.measure(step, last=last)
        kept = {method.name: method.kv_bytes(step) for method in self._stepped.methods}
        self.found.append((index, len(step.given.nodes), kept, times))


def few_shot(model: Any, given: Any) -> Iterator[dict]:
    """b branches on one prompt, a token each in each step."""
    for branches in given.branches:
        pages = -(-given.prompt // PAGE_SIZE) + branches * (-(-given.steps // PAGE_SIZE) + 2)
        methods = made_methods(given.methods or DEFAULTS["few_shot"], model, given, room=given.steps)

        def walk(stepped: SteppedTree, samples: _Samples, branches: int = branches) -> dict:
            root = stepped.tree.add_root([token % 1000 for token in range(given.prompt)])
            stepped.begin([root])
            leaves = stepped.tree.fork(root, branches)
            timed = timed_indices(given.steps, given.timed)
            for index in range(1, given.steps + 1):
                for leaf in leaves:
                    stepped.tree.append(leaf, [index % 1000])
                step = stepped.begin(leaves)
                if index in timed:
                    samples.take(index, step)
            return {"case": f"b={branches}", "branches": branches, "prompt": given.prompt, "steps": given.steps}

        yield from _walked(model, methods, pages, walk, "few_shot")


def reasoning(model: Any, given: Any) -> Iterator[dict]:
    """Recorded tree searches, whole; every so many iterations is timed."""
    for task in given.tasks:
        for tree in recorded.reasoning_trees(task, given.trees):
            pages = -(-tree.peak_tokens(PAGE_SIZE) // PAGE_SIZE)
            methods = made_methods(given.methods or DEFAULTS["reasoning"], model, given)

            def walk(stepped: SteppedTree, samples: _Samples, tree: Any = tree) -> dict:
                timed = timed_indices(tree.iterations, min(given.timed, tree.iterations))
                for iteration, leaves in recorded.replay(tree, stepped):
                    step = stepped.begin(leaves)
                    if iteration in timed:
                        samples.take(iteration, step)
                return {"case": f"{tree.task}:{tree.number}", "task": tree.task, "steps": tree.iterations}

            yield from _walked(model, methods, pages, walk, "reasoning")


def speculative(model: Any, given: Any) -> Iterator[dict]:
    """A text that grows by recorded acceptance, verified by draft trees of t query tokens."""
    for size in given.draft_sizes:
        drafts = recorded.draft_tree(size)
        pages = -(-(recorded.DRAFT_LONGEST + size) // PAGE_SIZE) + 2
        methods = made_methods(given.methods or DEFAULTS["speculative"], model, given)

        def walk(stepped: SteppedTree, samples: _Samples, drafts: Any = drafts) -> dict:
            tokens = [draft % 1000 for draft in range(len(drafts.parents))]
            root = stepped.tree.add_root([token % 1000 for token in range(recorded.DRAFT_PROMPT)])
            stepped.begin([root])
            stepped.tree.append(root, [0])
            counts = recorded.accepted_counts()
            total, length = 0, recorded.DRAFT_PROMPT
            while length <= recorded.DRAFT_LONGEST - max(counts):
                length += counts[total % len(counts)]
                total += 1
            timed = timed_indices(total, given.timed)
            for index in range(1, total + 1):
                stepped.tree.draft(root, tokens, drafts.parents)
                step = stepped.begin([root], {0: drafts.parents})
                if index in timed:
                    samples.take(index, step, last=drafts.size)
                accepted = counts[(index - 1) % len(counts)] - 1
                stepped.cache.copy(stepped.tree.accept(root, drafts.paths[accepted] if accepted else []))
                stepped.tree.append(root, [index % 1000])
            return {"case": f"t={drafts.size}", "drafts": drafts.size, "steps": total}

        yield from _walked(model, methods, pages, walk, "speculative")


SUITES: dict[str, Callable[[Any, Any], Iterator[dict]]] = {
    "few_shot": few_shot,
    "reasoning": reasoning,
    "speculative": speculative,
}


def _walked(model: Any, methods: list[Method], pages: int, walk: Callable, suite: str) -> list[dict]:
    stepped = SteppedTree(model, methods, num_pages=pages, page_size=PAGE_SIZE)
    samples = _Samples(stepped)
    try:
        fields = walk(stepped, samples)
        return step_rows(stepped, samples.found, {"suite": suite} | fields)
    finally:
        stepped.close()
        for method in methods:
            method.close()
        gc.collect()
