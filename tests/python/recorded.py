"""The recorded signatures of an engine's releases (scripts/signatures.py)."""

from __future__ import annotations

import json
import pathlib
from typing import Any

TESTS = pathlib.Path(__file__).parent.parent


def releases(engine: str) -> dict[str, Any]:
    """What was recorded, by version."""
    folder = TESTS / engine / "signatures"
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def has(entry: dict[str, Any], name: str) -> bool:
    """Whether a class has a field, a method or an attribute of this name."""
    return name in entry["fields"] or name in entry["methods"] or name in entry["attributes"].split()
