"""The engines' workloads: requests of token ids, made from a name and a seed alone, so that all engines get the same.

A workload of kind "steps" is one batch, timed step by step while all its requests decode; one of kind "serve" is served
in an open loop, by arrival times. Prompts hold drawn tokens; who shares them is as the name says.
"""

import dataclasses
from collections.abc import Callable

import rollouts
import traces
from drawn import CONTEXT, Drawn, Request, Workload

PAT_CONTEXT = 7800  # PAT's serving driver drops what is longer


def groups(drawn: Drawn, samples: int, length: int) -> Workload:
    requests = [Request(drawn(length, "prompt")) for _ in range(samples)]
    return Workload("", "steps", requests, f"{samples} samples of one prompt of {length:,} tokens", temperature=1.0)


def unshared(drawn: Drawn, batch: int, length: int = 1024) -> Workload:
    requests = [Request(drawn(length, "prompt", i)) for i in range(batch)]
    return Workload("", "steps", requests, f"{batch} random prompts of {length:,} tokens")


# FastTree's and PAT's serving workloads begin with a system prompt whose place and language are filled in: a level that
# all share, one by place, then by place and language.
VARIANTS = (("US", "en"), ("US", "es"), ("CA", "en"), ("CN", "zh"))


def system_prompt(drawn: Drawn, levels: tuple[int, ...], variant: tuple[str, str]) -> list[int]:
    keys = [(), variant[:1], *([variant] * (len(levels) - 2))]
    segments = zip(levels, keys, strict=True)
    return [t for depth, (length, key) in enumerate(segments) for t in drawn(length, "system", depth, key)]


FASTTREE_LEVELS = (459, 38, 584, 2112)
PAT_LEVELS = (46, 348, 2123)


def fasttree_levels(drawn: Drawn) -> Workload:
    requests = [
        Request(system_prompt(drawn, FASTTREE_LEVELS, variant) + drawn(80, "question", i))
        for variant in VARIANTS
        for i in range(32)
    ]
    return Workload("", "steps", requests, "4 variants of a system prompt of 459/38/584/2112 tokens, 32 questions each")


def fasttree_shots(drawn: Drawn) -> Workload:
    system = system_prompt(drawn, FASTTREE_LEVELS, VARIANTS[0])
    requests = [
        Request(system + drawn(20 * 180, "shots", branch) + drawn(65, "question", branch, i))
        for branch in range(8)
        for i in range(16)
    ]
    return Workload("", "steps", requests, "8 branches of 20 shots of 180 tokens, 16 questions each")


def fasttree_chains(drawn: Drawn) -> Workload:
    system = system_prompt(drawn, FASTTREE_LEVELS, VARIANTS[0])
    requests = [
        Request(system + drawn(80, "question", i) + drawn(12, "hint", chain)) for i in range(32) for chain in range(4)
    ]
    return Workload("", "steps", requests, "32 questions after one system prompt, 4 chains each")


def fasttree_documents(drawn: Drawn) -> Workload:
    requests = []
    for branch in range(16):
        chosen = sorted(drawn.random("documents", branch).sample(range(17), 4))
        text = [t for document in chosen for t in drawn(1000, "document", document)]
        requests += [Request(drawn(24, "task") + text + drawn(40, "question", i)) for i in range(8)]
    return Workload("", "steps", requests, "16 choices of 4 from 17 documents of 1,000 tokens, 8 questions each")


def deft_shots(drawn: Drawn, width: int) -> Workload:
    requests = [Request(drawn(4000, "prompt")) for _ in range(width)]
    about = f"DeFT's few-shot tree: {width} branches from one prompt of 4,000 tokens"
    return Workload("", "steps", requests, about, temperature=1.0)


def poisson(drawn: Drawn, rate: float, seconds: float) -> list[float]:
    """Arrival times; an infinite rate is a burst of 128."""
    if rate == float("inf"):
        return [0.0] * 128
    source, now, times = drawn.random("arrivals", rate), 0.0, []
    while (now := now + source.expovariate(rate)) < seconds:
        times.append(now)
    return times


def conversation(drawn: Drawn, rate: float, seconds: float) -> Workload:
    """PAT's: a system prompt of a random variant before lengths of recorded chats."""
    lengths = [
        (own, answer)
        for _, own, answer in traces.azure("azure_conv")
        if own > 0 and answer > 1 and own + answer + sum(PAT_LEVELS) <= PAT_CONTEXT
    ]
    choose, requests = drawn.random("variants"), []
    for i, arrival in enumerate(poisson(drawn, rate, seconds)):
        own, answer = lengths[i % len(lengths)]
        prompt = system_prompt(drawn, PAT_LEVELS, choose.choice(VARIANTS)) + drawn(own, "own", i)
        requests.append(Request(prompt, answer, arrival))
    about = f"system prompt of 46/348/2123 tokens in 4 variants, then Azure's chat lengths; {rate:g} requests/s"
    return Workload("", "serve", requests, about)


def questions(drawn: Drawn, rate: float, seconds: float) -> Workload:
    """Short ones after the same system prompts: prefill is so little that a step with it takes the host's time."""
    source, requests = drawn.random("questions", rate), []
    for i, arrival in enumerate(poisson(drawn, rate, seconds)):
        own = drawn(source.randint(16, 64), "own", rate, i)
        prompt = system_prompt(drawn, PAT_LEVELS, source.choice(VARIANTS)) + own
        requests.append(Request(prompt, source.randint(64, 256), arrival))
    about = f"questions of 16 to 64 tokens after a system prompt of 46/348/2123 tokens; {rate:g} requests/s"
    return Workload("", "serve", requests, about)


def toolagent(drawn: Drawn, rate: float, seconds: float) -> Workload:
    """As PAT's driver sends it: its filters, 256 tokens of answer, Poisson arrivals."""
    rows = [row for row in traces.mooncake("mooncake_toolagent") if row["hash_ids"][0] != 0]
    rows = [row for row in rows if row["input_length"] // 512 * 512 + row["output_length"] <= PAT_CONTEXT]
    requests = []
    for row, arrival in zip(rows, poisson(drawn, rate, seconds), strict=False):
        ids = row["hash_ids"][: row["input_length"] // 512]
        if ids:
            requests.append(Request([t for i in ids for t in drawn(512, "block", i)], 256, arrival))
    return Workload("", "serve", requests, f"Mooncake's tool/agent rows by PAT's filters; {rate:g} requests/s")


def toolagent_all(drawn: Drawn, rate: float, seconds: float) -> Workload:
    """Its rows without filters, with the recorded answers; what exceeds the model's context is left out."""
    rows = [
        row for row in traces.mooncake("mooncake_toolagent") if row["input_length"] + row["output_length"] <= CONTEXT
    ]
    requests = [
        Request(prompt_of(drawn, row), row["output_length"], arrival)
        for row, arrival in zip(rows, poisson(drawn, rate, seconds), strict=False)
    ]
    return Workload("", "serve", requests, f"Mooncake's tool/agent rows, all that fit; {rate:g} requests/s")


def prompt_of(drawn: Drawn, row: dict) -> list[int]:
    """The prompt of a Mooncake row: blocks of 512 tokens by their hashes, the last one in part."""
    return [t for i in row["hash_ids"] for t in drawn(512, "block", i)][: row["input_length"]]


def recorded(drawn: Drawn, name: str, seconds: float) -> Workload:
    """A window of a Mooncake trace by its own timestamps; what exceeds the model's context is left out."""
    rows = traces.mooncake(name)
    window = [row for row in rows if row["timestamp"] - rows[0]["timestamp"] < 1000 * seconds]
    kept = [row for row in window if row["input_length"] + row["output_length"] <= CONTEXT]
    requests = []
    for row in kept:
        arrival = (row["timestamp"] - rows[0]["timestamp"]) / 1000
        requests.append(Request(prompt_of(drawn, row), row["output_length"], arrival))
    left_out = len(window) - len(kept)
    about = f"{seconds:g} s of the trace by its timestamps; {left_out} of {len(window)} requests exceed the context"
    return Workload("", "serve", requests, about)


def azure(drawn: Drawn, seconds: float) -> Workload:
    requests = [
        Request(drawn(own, "own", i), answer, arrival)
        for i, (arrival, own, answer) in enumerate(traces.azure("azure_conv"))
        if arrival < seconds and own + answer <= CONTEXT
    ]
    return Workload("", "serve", requests, f"{seconds:g} s of Azure's chats by their timestamps, nothing shared")


def reasoning(drawn: Drawn, name: str, trees: int) -> Workload:
    """Recorded searches: a thought is a request that forks from its parent's whole text, in the recorded order."""
    requests: list[Request] = []
    for tree, nodes in enumerate(traces.reasoning(name)[:trees]):
        root = drawn(nodes[0][2], "prompt", tree)
        thoughts = [node for node in nodes[1:] if node[2] > 0]
        place = {node[0]: len(requests) + i for i, node in enumerate(thoughts)}
        for _, parent, tokens, first, _ in thoughts:
            latest = max((node[4] for node in thoughts if node[4] < first), default=None)
            after = {place[node[0]] for node in thoughts if node[4] == latest}
            origin = place.get(parent)
            after |= set() if origin is None else {origin}
            requests.append(Request([] if origin is not None else root, tokens, 0.0, origin, tuple(sorted(after))))
    return Workload("", "serve", requests, f"{trees} recorded searches at once, thoughts as forks of requests")


def whole(made: Workload) -> Workload:
    """The batch from its prompts to 256 tokens of answer each, as FastTree times it."""
    requests = [dataclasses.replace(request, max_tokens=256) for request in made.requests]
    return Workload("", "serve", requests, f"{made.about}; all at once, 256 tokens of answer")


FASTTREE: dict[str, Callable[[Drawn], Workload]] = {
    "fasttree_levels": fasttree_levels,
    "fasttree_shots": fasttree_shots,
    "fasttree_chains": fasttree_chains,
    "fasttree_documents": fasttree_documents,
}
FIXED: dict[str, Callable[[Drawn], Workload]] = {
    "groups_64x16k": lambda drawn: groups(drawn, 64, 16384),
    "groups_64x2k": lambda drawn: groups(drawn, 64, 2048),
    "groups_16x16k": lambda drawn: groups(drawn, 16, 16384),
    "groups_16x2k": lambda drawn: groups(drawn, 16, 2048),
    "short_16x512": lambda drawn: groups(drawn, 16, 512),
    "unshared_1": lambda drawn: unshared(drawn, 1),
    "unshared_8": lambda drawn: unshared(drawn, 8),
    "unshared_64": lambda drawn: unshared(drawn, 64),
    "unshared_256": lambda drawn: unshared(drawn, 256, 512),
    **FASTTREE,
    **{f"{name}_whole": lambda drawn, make=make: whole(make(drawn)) for name, make in FASTTREE.items()},
    "deft_shots_20": lambda drawn: deft_shots(drawn, 20),
    "deft_shots_30": lambda drawn: deft_shots(drawn, 30),
    "deft_shots_50": lambda drawn: deft_shots(drawn, 50),
    "reasoning_keyword": lambda drawn: reasoning(drawn, "keyword", 8),
    "reasoning_set128": lambda drawn: reasoning(drawn, "set128", 8),
    "reasoning_sorting128": lambda drawn: reasoning(drawn, "sorting128", 4),
    **{name: lambda drawn, shape=shape: rollouts.rollout(drawn, shape) for name, shape in rollouts.ROLLOUTS.items()},
    **{name: lambda drawn, shape=shape: rollouts.crossover(drawn, shape) for name, shape in rollouts.CROSSOVER.items()},
}
# "conversation@8": 8 requests a second.
RATED = {
    "conversation": conversation,
    "questions": questions,
    "toolagent": toolagent,
    "toolagent_all": toolagent_all,
}
RECORDED = ("mooncake_conversation", "mooncake_synthetic", "mooncake_toolagent", "azure_conv")
SETS = {
    "groups": [name for name in FIXED if name.startswith("groups")],
    "unshared": [name for name in FIXED if name.startswith("unshared")],
    "conversation": ["conversation@8", "conversation@16", "conversation@inf"],
    "fasttree": list(FASTTREE),
    "fasttree_whole": [f"{name}_whole" for name in FASTTREE],
    "deft": [name for name in FIXED if name.startswith("deft")],
    "toolagent": ["toolagent@8", "toolagent@16", "toolagent_all@8"],
    "reasoning": [name for name in FIXED if name.startswith("reasoning")],
    "faithful": list(RECORDED),
    "tensor_parallel": ["groups_64x16k", "groups_16x2k", "short_16x512", "unshared_8"],
    "rollout": list(rollouts.ROLLOUTS),
    "crossover": list(rollouts.CROSSOVER),
}


def names_of(wanted: list[str]) -> list[str]:
    """Workloads of names and of sets' names, in the order given; ValueError for what is neither."""
    names = [name for word in wanted for name in SETS.get(word, [word])]
    for name in names:
        head, at, rate = name.partition("@")
        if not (name in FIXED or name in RECORDED or (head in RATED and at and positive(rate))):
            known_names = ", ".join([*SETS, *FIXED, *RECORDED, *(f"{head}@RATE" for head in RATED)])
            raise ValueError(f"workload {name!r} is none of {known_names}")
    return list(dict.fromkeys(names))


def positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def build(name: str, seed: int = 0, seconds: float = 8.0) -> Workload:
    """The workload of a name; `seconds` of arrivals where requests arrive over time."""
    if names_of([name]) != [name]:
        raise ValueError(f"{name!r} is a set of workloads, not one")
    head, _, rate = name.partition("@")
    drawn = Drawn(name, seed)  # of each rate other tokens: servers keep the prompts of the rate before
    if name in FIXED:
        made = FIXED[name](drawn)
    elif head in RATED:
        made = RATED[head](drawn, float(rate), seconds)
    elif name == "azure_conv":
        made = azure(drawn, seconds)
    else:
        made = recorded(drawn, name, seconds)
    return dataclasses.replace(made, name=name)
