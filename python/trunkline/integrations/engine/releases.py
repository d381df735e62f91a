"""The releases of an engine that an adapter knows."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Releases:
    """package: its name where packages are installed; name: its name in messages; first, last: the two leading numbers
    of the releases that are supported."""

    package: str
    name: str
    first: tuple[int, int]
    last: tuple[int, int]

    def installed(self) -> str | None:
        """The version, without importing the engine; None where it is not installed."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def refusal(self, version: str | None) -> str | None:
        """The reason why the adapter leaves the engine alone, or None."""
        if version is None:
            return f"{self.name} is not installed as a package, so its version is not known"
        found = release(version)
        if found is None or not self.first <= found <= self.last:
            supported = f"{self.first[0]}.{self.first[1]} to {self.last[0]}.{self.last[1]}"
            return f"{self.name} is {version}; supported: {supported}"
        return None


def release(version: str) -> tuple[int, int] | None:
    """The first two numbers; None for a version without, as builds of a checkout without tags have ("dev")."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
