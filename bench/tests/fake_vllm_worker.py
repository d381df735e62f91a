"""engine_worker.py around an engine that sleeps instead of computing. FAKE holds words, each "CONFIG:WHAT":

slow (three times the step), differs (other log-probabilities), refuses (does not start), hangs, dies (in `steps`),
weak (fails in `begin`).
"""

import os
import pathlib
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "vllm"))
import engine_worker  # noqa: E402
from host_times import HostTimes  # noqa: E402

STEP_S = 0.001


class FakeEngine:
    def __init__(self, given):
        config = given.config
        self.faults = {word.partition(":")[2] for word in os.environ.get("FAKE", "").split() if word.startswith(config)}
        self.live: dict[str, list] = {}
        self.host = HostTimes()
        self.host.found["build_us"] += [40.0, 60.0]
        self.config, self.queued = config, False
        if "refuses" in self.faults:
            raise RuntimeError("no memory")

    def info(self):
        return {"device": "NVIDIA H200", "vllm": "0.26.0", "torch": "2.11.0", "cuda": "13.0", "layers": 32}

    def add(self, key, request, temperature):
        if "weak" in self.faults:
            raise RuntimeError("a weak engine")
        assert key not in self.live
        self.live[key] = [request.max_tokens, 0]

    def step(self):
        if "hangs" in self.faults:
            time.sleep(60)
        if "dies" in self.faults:
            os._exit(3)
        if not self.queued:  # as an engine that schedules ahead
            self.queued = True
            return []
        time.sleep(STEP_S * (3 if "slow" in self.faults else 1))
        self.host.found["build_us"].append(50.0)
        moved = []
        for key, state in list(self.live.items()):
            state[1] += 1
            ended = state[1] >= state[0]
            moved.append((key, [7], ended))
            if ended:
                del self.live[key]
        return moved

    def abort(self, keys):
        for key in keys:
            self.live.pop(key, None)
        self.queued = False

    def synchronize(self):
        pass

    def forget(self):
        return not self.live

    def kernels(self, step, steps):
        done = 0
        while done < steps:
            done += bool(step())
        return [{"flash::FlashAttnFwdSm90": 200.0 * steps, "gemm": 300.0 * steps}]

    def log_probabilities(self, prompts, forced, steps):
        off = 0.5 if "differs" in self.faults else 0.001
        return [[-float(token % 13) + off * (self.config != "default")] * steps for token in forced]

    def statistics(self):
        return [{"steps": 5} if self.config == "trunkline" else {}]


if __name__ == "__main__":
    sys.modules["vllm_engine"] = types.ModuleType("vllm_engine")
    sys.modules["vllm_engine"].VllmEngine = FakeEngine
    engine_worker.main()
