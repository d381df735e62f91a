"""Requests of token ids that are drawn from names and seeds alone: the same in every process and for every engine."""

import dataclasses
import random

TOKENS = range(10, 32000)  # of every vocabulary here, without special ones
PAGE = 16  # tokens; vLLM shares whole pages, and never all of a prompt
OPEN_END = 1 << 20  # decode until aborted
CONTEXT = 32768  # the most tokens of a prompt and its answer


@dataclasses.dataclass
class Request:
    """`after`: requests that must have ended before; `parent`: one of them, whose whole text begins the prompt."""

    prompt: list[int]
    max_tokens: int = OPEN_END
    arrival_s: float = 0.0
    parent: int | None = None
    after: tuple[int, ...] = ()


@dataclasses.dataclass
class Workload:
    name: str
    kind: str  # "steps" or "serve"
    requests: list[Request]
    about: str
    temperature: float = 0.0


class Drawn:
    """Segments of tokens by key: the same key gives the same tokens."""

    def __init__(self, name: str, seed: int):
        self.name, self.seed = name, seed
        self.made: dict[tuple, list[int]] = {}

    def __call__(self, length: int, *key) -> list[int]:
        if (length, *key) not in self.made:
            drawn = self.random("tokens", length, *key)
            self.made[length, *key] = drawn.choices(TOKENS, k=length)
        return self.made[length, *key]

    def random(self, *key) -> random.Random:
        return random.Random(f"{self.name}/{self.seed}/{key}")


def kv_tokens(requests: list[Request], generated: int) -> tuple[int, int]:
    """(total, distinct) tokens of keys and values that a decode step reads after `generated` tokens of each request;
    distinct as vLLM's prefix cache lays them out: a prompt's whole pages, but for the page of its last token."""
    total = distinct = 0
    seen = set()
    for request in requests:
        whole = (len(request.prompt) - 1) // PAGE
        chain = 0
        for page in range(whole):
            chain = hash((chain, *request.prompt[page * PAGE : (page + 1) * PAGE]))
            distinct += 0 if chain in seen else PAGE
            seen.add(chain)
        length = len(request.prompt) + generated
        total += length
        distinct += length - whole * PAGE
    return total, distinct
