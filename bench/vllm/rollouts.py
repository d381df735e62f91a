"""Batches of reinforcement learning: several prompts, and several samples of each, which share its keys and values.

A shape is named PROMPTSxSAMPLESxLENGTH with the prompt's length in tokens, such as 8x8x4k. Prompts share nothing with
each other.
"""

import dataclasses
import re

from drawn import CONTEXT, Drawn, Request, Workload


@dataclasses.dataclass(frozen=True)
class Shape:
    prompts: int
    samples: int
    length: int  # tokens of a prompt

    @property
    def requests(self) -> int:
        return self.prompts * self.samples

    def __str__(self) -> str:
        return f"{self.prompts}x{self.samples}x{length_name(self.length)}"


def length_name(length: int) -> str:
    return f"{length // 1024}k" if length % 1024 == 0 else str(length)


def shape_of(text: str) -> Shape:
    """Parses a shape's name; ValueError where it is none."""
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)(k?)", text)
    if found is None:
        raise ValueError(f"shape {text!r} is not PROMPTSxSAMPLESxLENGTH, such as 8x8x4k or 32x8x512")
    prompts, samples, length = (int(found[i]) for i in (1, 2, 3))
    shape = Shape(prompts, samples, length * (1024 if found[4] else 1))
    if shape.length >= CONTEXT:
        raise ValueError(f"shape {text!r}: a prompt of {shape.length} tokens leaves none of {CONTEXT} for an answer")
    return shape


@dataclasses.dataclass(frozen=True)
class Answers:
    """The distribution of an answer's tokens: log-normal, and cut at a maximum as a trainer's limit cuts answers.

    With the defaults half of the answers have fewer than 256 tokens, 12 % more than 750, and 6 % end at the limit of
    1,024: late steps have few live requests. Reports of RL systems show such tails; these numbers are chosen, not
    measured.
    """

    median: float = 256.0
    sigma: float = 0.9  # of the length's natural logarithm
    limit: int = 1024

    def draw(self, drawn: Drawn, count: int, *key) -> list[int]:
        source = drawn.random("answers", *key)
        lengths = (source.lognormvariate(0.0, self.sigma) * self.median for _ in range(count))
        return [max(1, min(self.limit, round(length))) for length in lengths]

    def __str__(self) -> str:
        return f"log-normal answers of median {self.median:g}, sigma {self.sigma:g}, at most {self.limit} tokens"


def prompt(drawn: Drawn, shape: Shape, number: int) -> list[int]:
    return drawn(shape.length, "prompt", number)


def rollout(drawn: Drawn, shape: Shape, answers: Answers = Answers()) -> Workload:  # noqa: B008 (it is frozen)
    """All requests arrive at once, a prompt's samples one after another; each ends after the tokens drawn for it."""
    lengths = answers.draw(drawn, shape.requests)
    requests = [Request(prompt(drawn, shape, i // shape.samples), length) for i, length in enumerate(lengths)]
    about = f"{shape.prompts} prompts of {shape.length:,} tokens, {shape.samples} samples each; {answers}"
    return Workload("", "serve", requests, about, temperature=1.0)


def crossover(drawn: Drawn, shape: Shape) -> Workload:
    """The batch of decode steps of such a rollout while all its requests are live."""
    requests = [Request(prompt(drawn, shape, i // shape.samples)) for i in range(shape.requests)]
    about = f"{shape.prompts} prompts of {shape.length:,} tokens, {shape.samples} samples each"
    return Workload("", "steps", requests, about, temperature=1.0)


ROLLOUTS = {f"rollout_{name}": shape_of(name) for name in ("8x8x4k", "16x16x1k", "4x8x16k", "32x8x512", "2x64x8k")}
CROSSOVER_PROMPTS = 4  # 16,384 tokens of each are 8 GiB of keys and values of Llama-3-8B
CROSSOVER_SAMPLES = (1, 2, 4, 8, 16, 32)
CROSSOVER_LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
CROSSOVER = {
    f"crossover_{shape}": shape
    for samples in CROSSOVER_SAMPLES
    for length in CROSSOVER_LENGTHS
    for shape in [Shape(CROSSOVER_PROMPTS, samples, length)]
}
