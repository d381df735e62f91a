"""The engine of fake_vllm_worker.py, extended by the interface that rollouts need: sleep, waking, new weights.

Its sides differ in speed: `trunkline` and `rival` take a third of `default`'s step. A subclass is `wrong` in what its
words say: "differs" (Trunkline's log-probabilities), "stuck" (other weights change nothing), "lone" (no side has
kernels of its own), "loses" (a token of each answer), "full" (waking fails), "awake" (sleep frees nothing).
"""

import fake_vllm_worker
import rank_sides
from scheduled import Scheduled, Step

FAST = ("trunkline", "rival")


class FakeRolloutEngine(fake_vllm_worker.FakeEngine):
    wrong: frozenset = frozenset()

    def __init__(self, given, **more):
        super().__init__(given)
        self.more, self.side, self.number, self.asleep = more, "default", None, set()
        self.done, self.watched, self.calls = Scheduled(), False, []
        self.prompts: dict[str, int] = {}
        self.names: list[str] = []

    def on_ranks(self, function, *arguments):
        """Of one rank that does what rank_sides asks for."""
        if function is rank_sides.capture:
            self.names, self.rival = arguments
        elif function is rank_sides.use:
            assert arguments[0] in self.names
            self.side = arguments[0]
        return [[]]

    def info(self):
        return super().info() | {"kv_blocks": 40000, "block_size": 16}

    def watch_steps(self):
        self.watched = True

    def add(self, key, request, temperature):
        assert not self.asleep
        super().add(key, request, temperature)
        self.live[key][0] -= "loses" in self.wrong
        self.prompts[key] = len(request.prompt)

    def step(self):
        self.faults = set() if self.side in FAST else {"slow"}
        new = [key for key, state in self.live.items() if state[1] == 0]
        moved = super().step()
        if moved and self.watched:
            read = sum(self.prompts[key] - 1 for key in new)
            self.done.steps.append(Step(len(moved), len(moved) + read))
        return moved

    def free_bytes(self):
        return 2**30 * (1 + (4 * len(self.asleep) if "awake" not in self.wrong else 0))

    def sleep(self, level):
        assert not self.live and not self.asleep
        self.asleep = {"weights", "kv_cache"}
        self.calls.append(f"sleep {level}")

    def wake_up(self, tag):
        if "full" in self.wrong:
            raise RuntimeError("no memory to wake up")
        self.asleep.remove(tag)
        self.calls.append(f"wake {tag}")

    def new_weights(self, number, change):
        assert "weights" not in self.asleep
        self.number = number
        self.calls.append(f"weights {number}")

    def log_probabilities(self, prompts, forced, steps):
        self.faults = {"differs"} if "differs" in self.wrong and self.side == "trunkline" else set()
        self.config = self.side
        moved = 0.0 if "stuck" in self.wrong else 0.02 * (self.number or 0)
        return [[value + moved for value in row] for row in super().log_probabilities(prompts, forced, steps)]

    def kernels(self, step, steps):
        found = super().kernels(step, steps)
        own = {"trunkline": "trunkline::forward_kernel", "rival": "cascade_kernel"}.get(self.side)
        return [rank | ({own: 1.0} if own and "lone" not in self.wrong else {}) for rank in found]
