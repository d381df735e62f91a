"""Which releases of vLLM the plug-in knows."""

from __future__ import annotations

import importlib.metadata
import re

FIRST, LAST = (0, 26), (0, 33)
RUN = (0, 26)  # the release that is tested by running models; of the others, import and registration
RANGE = f"{FIRST[0]}.{FIRST[1]} to {LAST[0]}.{LAST[1]}"


def installed() -> str | None:
    """vLLM's version, without importing it; None where it is not installed."""
    try:
        return importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return None


def release(version: str) -> tuple[int, int] | None:
    """The first two numbers; None for what has none, as builds of a checkout without tags ("dev")."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def refusal(version: str | None) -> str | None:
    """Why the plug-in leaves vLLM alone, or None."""
    if version is None:
        return "vLLM is not installed as a package, so its version is not known"
    found = release(version)
    if found is None or not FIRST <= found <= LAST:
        return f"vLLM is {version}; supported: {RANGE}"
    return None
