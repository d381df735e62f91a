"""The sides of one rank of an engine: graphs of decode steps by side, and the builders that go with them."""

from collections.abc import Sequence

from rival import Rival

THEIRS, OURS, AGAIN, OURS_AGAIN, RIVAL = "default", "trunkline", "again", "trunkline_again", "rival"
SIDES = [THEIRS, OURS, AGAIN, OURS_AGAIN]


class RankSides:
    """The sides of a worker whose graphs were captured with Trunkline.

    names: sides to capture, one set of graphs each. rival: another backend's class, as MODULE:CLASS, for side "rival".
    """

    def __init__(self, worker, names: Sequence[str], rival: str | None):
        from vllm.config import CUDAGraphMode, set_current_vllm_config

        runner = worker.model_runner
        self.manager = runner.cudagraph_manager
        groups = [group for groups in runner.attn_groups for group in groups]
        self.builders = [group.get_metadata_builder(0) for group in groups]
        self.steps = [builder.steps for builder in self.builders]
        if not any(self.steps):
            raise RuntimeError("no layer is Trunkline's; its log says why")
        self.choices = [note_choices(steps) for steps in self.steps if steps]
        self.graphs: dict[str, dict] = {}
        captured = self.manager._capture_descs
        self.manager._capture_descs = {CUDAGraphMode.FULL: captured[CUDAGraphMode.FULL]}
        with set_current_vllm_config(runner.vllm_config):
            self.rival = Rival(rival, groups, runner.vllm_config) if rival else None
            for side in names:
                self.use(side, graphs={})
                runner.capture_model()
                self.graphs[side] = self.manager.graphs
        self.manager._capture_descs = captured

    def use(self, side: str, graphs: dict | None = None) -> None:
        self.manager.graphs = self.graphs[side] if graphs is None else graphs
        for builder, steps in zip(self.builders, self.steps, strict=True):
            builder.steps = steps if side in (OURS, OURS_AGAIN) else None
        if self.rival is not None:
            self.rival.install(side == RIVAL)


def note_choices(steps) -> list[bool]:
    """Notes for each step with prefill beside decode rows whether Trunkline runs its decode rows."""
    takes = steps.takes
    found: list[bool] = []

    def noted(decode_rows: int, rows: int, **named) -> bool:
        taken = takes(decode_rows, rows, **named)
        if 0 < decode_rows < rows:
            found.append(taken)
        return taken

    steps.takes = noted
    return found


def capture(worker, names: Sequence[str], rival: str | None) -> None:
    """All ranks at once: a captured all-reduce has the addresses of every rank's memory."""
    worker.sides = RankSides(worker, names, rival)


def use(worker, side: str) -> None:
    worker.sides.use(side)


def choices(worker) -> list[str]:
    """The choices so far, a text for each group of layers: 1 for a step that Trunkline ran, 0 for one that vLLM did."""
    return ["".join("01"[taken] for taken in found) for found in worker.sides.choices]
