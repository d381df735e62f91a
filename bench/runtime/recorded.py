"""The recorded inputs: tree searches of data/reasoning, draft trees and acceptance of data/speculative."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
TASKS = {"sorting": "sorting128", "document": "docmerge", "keyword": "keyword", "set": "set128"}
#: DeFT's table 6 has a longest text of 6,000 tokens; the prompts' lengths are not recorded.
DRAFT_PROMPT, DRAFT_LONGEST = 500, 6000


class Thought(NamedTuple):
    """A node of a recorded search. It decodes one token in each iteration from first to last."""

    id: int
    parent: int
    tokens: int
    first: int
    last: int


class RecordedTree(NamedTuple):
    """thoughts[0] is the prompt."""

    task: str
    number: int
    thoughts: list[Thought]

    @property
    def iterations(self) -> int:
        return max(thought.last for thought in self.thoughts)

    def peak_tokens(self, page_size: int) -> int:
        """At least the tokens of the pages that are ever in use at once, part-filled ones in full."""
        ends = _keep_until(self)
        events = []
        for thought in self.thoughts:
            held = thought.tokens + 2 * page_size
            events += [(max(thought.first, 0), held), (ends[thought.id] + 1, -held)]
        most = now = 0
        for _, change in sorted(events, key=lambda event: (event[0], -event[1])):
            now += change
            most = max(most, now)
        return most


def reasoning_trees(task: str, count: int) -> list[RecordedTree]:
    """The first `count` complete trees of a task."""
    lines = (ROOT / f"data/reasoning/{TASKS[task]}.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if record["complete"]]
    return [
        RecordedTree(task, record["tree"], [Thought(*node) for node in record["nodes"]]) for record in records[:count]
    ]


def _keep_until(tree: RecordedTree) -> dict[int, int]:
    """The last iteration in which a thought's tokens are needed, by its id."""
    ends = {thought.id: thought.last for thought in tree.thoughts}
    for thought in reversed(tree.thoughts):  # children come after their parents
        if thought.parent >= 0:
            ends[thought.parent] = max(ends[thought.parent], ends[thought.id])
    return ends


def replay(tree: RecordedTree, stepped: Any) -> Iterator[tuple[int, list[Any]]]:
    """Walks a SteppedTree through a recorded search: gives each iteration, counted from 1, and its leaves. The caller
    takes a step with these leaves before it goes on. Tokens are numbers that mean nothing."""
    sequences = stepped.tree
    prompt = tree.thoughts[0]
    root = sequences.add_root([token % 1000 for token in range(prompt.tokens)])
    stepped.begin([root])
    nodes = {prompt.id: root}
    has_children = {thought.parent for thought in tree.thoughts}
    starting: dict[int, list[Thought]] = {}
    for thought in tree.thoughts[1:]:
        starting.setdefault(thought.first, []).append(thought)
    running: list[Thought] = []
    for iteration in range(1, tree.iterations + 1):
        fresh = starting.get(iteration, [])
        for parent in sorted({thought.parent for thought in fresh}):
            children = [thought for thought in fresh if thought.parent == parent]
            made = sequences.fork(nodes[parent], len(children))
            nodes |= {thought.id: node for thought, node in zip(children, made)}
        running += fresh
        for thought in running:
            sequences.append(nodes[thought.id], [thought.id % 1000])
        yield iteration, [nodes[thought.id] for thought in running]
        for thought in [thought for thought in running if thought.last == iteration]:
            running.remove(thought)
            if thought.id not in has_children:
                sequences.finish(nodes[thought.id])


class Drafts(NamedTuple):
    """A draft tree of t query tokens, the token accepted last among them. parents: of the t - 1 drafts, -1 for a child
    of that token. paths: from it, a draft path of each length that is accepted, without it."""

    size: int
    parents: list[int]
    paths: dict[int, list[int]]


def draft_tree(size: int) -> Drafts:
    """DeFT's tree of that size."""
    given = json.loads((ROOT / "data/speculative/deft_topologies.json").read_text())[f"t{size}"]["tree"]
    drafts = sorted(given, key=lambda path: (len(path), path))
    index = {tuple(path): i for i, path in enumerate(drafts)}
    parents = [index.get(tuple(path[:-1]), -1) for path in drafts]
    paths: dict[int, list[int]] = {}
    for path in drafts:
        paths.setdefault(len(path), [index[tuple(path[: end + 1])] for end in range(len(path))])
    return Drafts(len(drafts) + 1, parents, paths)


def accepted_counts() -> list[int]:
    """Tokens that each verification step accepts, the one that the model itself adds among them."""
    return json.loads((ROOT / "data/speculative/deft_accept_apps.json").read_text())["accept"][0]
