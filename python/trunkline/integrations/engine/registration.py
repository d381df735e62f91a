"""An adapter's entry point: what every engine's plug-in does before it puts its backend into the engine's registry."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ... import errors
from .releases import Releases, text
from .settings import Settings


def register(
    releases: Releases,
    version: str | None,
    settings: Callable[[], Settings],
    put: Callable[[str], bool],
    *,
    prefix: str,
    logger: logging.Logger,
) -> None:
    """Called in each of an engine's processes, at times more than once. Never raises: where the adapter cannot be, the
    engine goes on without it, and a line in the log says why.

    version: the installed one. settings: parses the environment. put: registers the backend by the mode; returns
    whether it did so now. prefix: of the environment's variables.
    """
    try:
        mode = settings().mode
    except errors.InvalidArgumentError as wrong:
        logger.error("Trunkline is off: %s", wrong)
        return
    if mode == "off":
        return
    refusal = releases.refusal(version)
    if refusal is not None or version is None:
        logger.warning("Trunkline is off: %s", refusal)
        return
    try:
        is_new = put(mode)
    except Exception as wrong:  # whatever the engine has become: it must start without us
        logger.warning("Trunkline is off: registering failed: %s: %s", type(wrong).__name__, wrong)
        return
    if is_new and not releases.was_run(version):
        tested = " and ".join(map(text, releases.run))
        logger.info(
            "Trunkline is tested by running models in %s; here is %s: %s_SHADOW=1 compares each result with %s's own",
            f"{releases.name} {tested}" if tested else f"no release of {releases.name}",
            version,
            prefix,
            releases.name,
        )
