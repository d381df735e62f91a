"""The releases of an engine that an adapter knows."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass

Release = tuple[int, ...]


@dataclass(frozen=True)
class Releases:
    """package: its name where packages are installed; name: its name in messages; first, last: the leading numbers of
    the releases that are supported, as many as tell one interface from another. run: those in which models were run.
    only: where the interface changes in between, the releases that are supported from first to last."""

    package: str
    name: str
    first: Release
    last: Release
    run: tuple[Release, ...] = ()
    only: tuple[Release, ...] = ()

    def of(self, version: str) -> Release | None:
        """As many leading numbers of a version as `first` has; None where there are fewer."""
        return release(version, len(self.first))

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
        found = self.of(version)
        if found is None or not self.first <= found <= self.last or (self.only and found not in self.only):
            supported = ", ".join(map(text, self.only)) or f"{text(self.first)} to {text(self.last)}"
            return f"{self.name} is {version}; supported: {supported}"
        return None

    def was_run(self, version: str) -> bool:
        """Whether models were run in this release."""
        return self.of(version) in self.run


def release(version: str, numbers: int = 2) -> Release | None:
    """The first numbers; None for a version with fewer, as builds of a checkout without tags have ("dev")."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    parts = tuple(int(part) for part in found[0].split(".")) if found else ()
    return parts[:numbers] if len(parts) >= numbers else None


def text(found: Release) -> str:
    """ "0.33" """
    return ".".join(map(str, found))
