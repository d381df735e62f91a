"""Functions that an engine's workers run for the programs here. collective_rpc calls them with the worker first.

A model that is split over GPUs has a worker process for each rank. So each function is one of a module that the process
can import, and arguments and results are plain data. A rank keeps its state between calls in attributes of its worker.
"""

import gc
import sys

from host_times import HostTimes


def describe(worker) -> dict[str, str]:
    """The GPU's name, and the class that computes attention in the first layer."""
    import torch

    layers = worker.model_runner.get_model().modules()
    kinds = (type(m.impl) for m in layers if hasattr(m, "impl") and hasattr(m, "kv_cache_dtype"))
    backend = next((f"{kind.__module__}.{kind.__qualname__}" for kind in kinds), "unknown")
    return {"device": torch.cuda.get_device_name(), "backend": backend}


def synchronize(worker) -> None:
    import torch

    torch.cuda.synchronize()


def free_bytes(worker) -> int:
    import torch

    return torch.cuda.mem_get_info()[0]


def freeze_heap(worker) -> None:
    """As vLLM's own engine process does after its start."""
    gc.collect()
    gc.freeze()


def watch_host(worker) -> None:
    """Begins to time the host's work for each step."""
    worker.host_times = HostTimes()
    worker.host_times.watch_builds(worker.model_runner.get_model())
    worker.host_times.watch_preparing(worker.model_runner)


def forget_host(worker) -> None:
    worker.host_times.forget()


def host_medians(worker) -> dict[str, float | None]:
    return worker.host_times.medians()


def begin_profile(worker) -> None:
    from torch.profiler import ProfilerActivity, profile

    synchronize(worker)
    worker.recorded = profile(activities=[ProfilerActivity.CUDA])
    worker.recorded.start()


def end_profile(worker) -> dict[str, float]:
    """GPU microseconds by kernel since begin_profile."""
    synchronize(worker)
    worker.recorded.stop()
    found: dict[str, float] = {}
    for event in worker.recorded.events():
        if "CUDA" in str(event.device_type):
            found[event.name] = found.get(event.name, 0.0) + event.time_range.elapsed_us()
    worker.recorded = None
    return found


def statistics(worker) -> dict:
    """The plug-in's counters, where it is loaded and keeps some; of the port of FCA, its steps by path."""
    forest = sys.modules.get("forest_cascade.backend")
    if forest:
        return {"forest_cascade": dict(forest.counters)}
    module = sys.modules.get("trunkline.integrations.vllm")
    return module.statistics() if hasattr(module, "statistics") else {}
