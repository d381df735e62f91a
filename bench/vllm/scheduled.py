"""A record of the requests and tokens of each step whose results an engine has returned."""

from typing import NamedTuple


class Step(NamedTuple):
    requests: int
    tokens: int  # one a request, and more where prompts are read

    @property
    def is_prefill(self) -> bool:
        return self.tokens > self.requests


class Scheduled:
    """Steps in the order of their results. vLLM's engine schedules ahead: its scheduler is told of a step's results in
    the same call that returns them."""

    def __init__(self):
        self.steps: list[Step] = []

    def watch(self, scheduler) -> None:
        update = scheduler.update_from_output

        def noted(scheduler_output, *rest, **named):
            tokens = scheduler_output.num_scheduled_tokens.values()
            if tokens:
                self.steps.append(Step(len(tokens), sum(tokens)))
            return update(scheduler_output, *rest, **named)

        scheduler.update_from_output = noted

    def take(self) -> list[Step]:
        taken, self.steps = self.steps, []
        return taken
