"""When grouping is used. The environment's FOREST_CASCADE changes it: FOREST_CASCADE='{"min_group_size": 4}'."""

from __future__ import annotations

import dataclasses
import json
import os


@dataclasses.dataclass(frozen=True)
class Limits:
    """The first five are the original's, with its defaults.

    min_saved_bytes: of keys and values, a layer. 32 MiB take GPUs of 3.3 to 4.8 TB/s 7 to 10 us to read, about the
    time of a second call and a merge (an estimate; measure before publishing).
    unsplit_tokens: up to this length of the longest suffix, the suffix call is not split over its keys and so needs
    no combining kernel. FlashAttention 3 does not split up to four tiles of keys, 512 tokens at head size 128.
    """

    min_requests: int = 8
    min_group_size: int = 2
    min_prefix_pages: int = 1
    min_grouped_fraction: float = 0.25
    max_groups: int = 256
    min_saved_bytes: int = 32 << 20
    unsplit_tokens: int = 512

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kinds = (int, float) if field.name == "min_grouped_fraction" else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds) or value < 0:
                raise ValueError(f"FOREST_CASCADE: {field.name} is {value!r}; a number from 0 on is supported")


def limits_from(text: str | None) -> Limits:
    """Reads the environment's text. Without one, the defaults."""
    if not text:
        return Limits()
    try:
        given = json.loads(text)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"FOREST_CASCADE is no JSON: {wrong}") from wrong
    if not isinstance(given, dict):
        raise ValueError(f"FOREST_CASCADE is {given!r}; a JSON object is supported")
    names = [field.name for field in dataclasses.fields(Limits)]
    for name in given:
        if name not in names:
            raise ValueError(f"FOREST_CASCADE: {name!r} is not known; supported are {', '.join(names)}")
    return Limits(**given)


def limits() -> Limits:
    return limits_from(os.environ.get("FOREST_CASCADE"))
