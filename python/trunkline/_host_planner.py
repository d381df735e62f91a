"""Plans made on the host: of a step's page tables, or of a live batch."""

from __future__ import annotations

from . import _abi, errors
from ._batches import HostBatch
from ._library import NotCopied
from .live import LiveBatch, LivePlans
from .machine import Profile
from .plans import Explanation, Forest, Planner, PlanOptions


class HostPlanner(NotCopied):
    """batch: the step's arrays, which runs on the CPU read. It stays, as does what was planned, until the next step.

    asynchronous, edit_share: of live batches, as DecodeAttention has them.
    """

    def __init__(
        self, profile: Profile, shape: _abi.Shape, options: PlanOptions, *, asynchronous: bool, edit_share: float
    ) -> None:
        self._shape = shape
        self._planner = Planner(profile, shape, options)
        self._forest = Forest()
        self.batch = HostBatch(shape.page_size)
        self._planned_forest = 0
        self._in_use: Forest | LiveBatch | None = None
        self._live: tuple[LiveBatch, LivePlans] | None = None
        self._asynchronous = asynchronous
        self._edit_share = edit_share

    def plan(self, forest: Forest | None, check_ids: bool) -> int:
        """Of what `batch` has been given; the plan's handle. forest: None for what its page tables share."""
        if forest is None:
            self._forest._build(self.batch, check_ids)
            forest = self._forest
        planned = forest._handle.value
        plan = self._planner.plan(planned)
        self._planned_forest, self._in_use = planned, forest
        return plan

    def plan_live(self, live: LiveBatch) -> tuple[int, str]:
        """The plan's handle, and where it is from."""
        plans = self._plans_of(live)
        plan = plans.take(live)
        self.batch.live(live._handle.value)
        self._planned_forest, self._in_use = live._forest(), live
        return plan, plans.source

    def submit(self, live: LiveBatch) -> bool:
        if not self._asynchronous:
            raise errors.InvalidArgumentError("submit() needs async_planning=True")
        return self._plans_of(live).submit(live)

    def ready(self) -> bool:
        return self._live is None or not self._asynchronous or self._live[1].ready()

    @property
    def live_counts(self) -> dict[str, int]:
        return self._live[1].counts if self._live else {}

    def explanation(self, title: str) -> Explanation:
        """Of the last step, with a planner of its own, so that the plan in use stays."""
        planner = Planner(self._planner.profile, self._shape, self._planner.options)
        return Explanation(planner, self._planned_forest, title)

    def close(self) -> None:
        self._planner.close()
        self._forest.close()
        if self._live is not None:
            self._live[1].close()

    def _plans_of(self, live: LiveBatch) -> LivePlans:
        if self._live is None or self._live[0] is not live:
            profile = self._planner.profile._handle.value
            plans = LivePlans(
                profile,
                self._shape,
                self._planner.options,
                asynchronous=self._asynchronous,
                edit_share=self._edit_share,
            )
            self._live = live, plans
        return self._live[1]
