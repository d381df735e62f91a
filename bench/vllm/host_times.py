"""Times the host's work for a decode step before the step's kernels can begin, inside the engine's process."""

import statistics
import time

# Microseconds of attention's metadata, and of all other input that the engine makes for a step.
KINDS = ("build_us", "prepare_us")


class HostTimes:
    """The host's times of all steps since the last forget()."""

    def __init__(self):
        self.found: dict[str, list[float]] = {kind: [] for kind in KINDS}

    def forget(self) -> None:
        for times in self.found.values():
            times.clear()

    def medians(self) -> dict[str, float | None]:
        return {kind: statistics.median(times) if times else None for kind, times in self.found.items()}

    def watch_builds(self, model) -> None:
        """Times the building of metadata, for decode steps alone."""
        layers = (m for m in model.modules() if hasattr(m, "impl") and hasattr(m, "get_attn_backend"))
        builder = next(layers).get_attn_backend().get_builder_cls()
        build, found = builder.build, self.found["build_us"]

        def timed(self, common_prefix_len, common_attn_metadata, *rest, **named):
            began = time.perf_counter()
            made = build(self, common_prefix_len, common_attn_metadata, *rest, **named)
            if common_attn_metadata.max_query_len == 1:
                found.append(microseconds_since(began))
            return made

        builder.build = timed

    def watch_preparing(self, runner) -> None:
        """Times model runner V2: the step's input, block tables and slots. Times nothing of another runner."""
        if not (hasattr(runner, "prepare_inputs") and hasattr(runner, "prepare_attn")):
            return
        inputs, tables, found = runner.prepare_inputs, runner.prepare_attn, self.found["prepare_us"]

        def timed_inputs(*rest, **named):
            began = time.perf_counter()
            made = inputs(*rest, **named)
            found.append(microseconds_since(began))
            return made

        def timed_tables(*rest, **named):
            began = time.perf_counter()
            made = tables(*rest, **named)
            if found:
                found[-1] += microseconds_since(began)
            return made

        runner.prepare_inputs, runner.prepare_attn = timed_inputs, timed_tables


def microseconds_since(began: float) -> float:
    return 1e6 * (time.perf_counter() - began)


def keep(found: dict, name: str, timed: dict) -> None:
    """Adds a turn's medians to the lists of an engine, where it told them."""
    for kind in KINDS:
        if timed.get(kind):
            found[kind][name].append(timed[kind])


def of_row(found: dict, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Medians over the turns, of the engines that told them."""
    return {
        kind: {name: round(statistics.median(found[kind][name]), 1) for name in names if found[kind][name]}
        for kind in KINDS
    }
