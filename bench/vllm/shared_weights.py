"""One copy of a model's weights for all engines on a GPU.

So that where weights lie in memory can favour none of them. With a copy each, one matrix product took 1.78 ms a step in
one engine and 1.91 in the other (groups of 16 and batch 1 in bench/results/vllm/vllm_engines.jsonl), more than what is
looked for; with one copy most of that stayed, so sides.py compares inside one engine. The first engine draws the
weights and tells the others by CUDA IPC where they are.
"""

import pathlib
import pickle
import time


def share(file: pathlib.Path, owner: bool, draw, limit_s: float = 120.0) -> None:
    """Has vLLM's loader of dummy weights take them from the owner. file: by which the owner tells; not there at first.
    draw(model): the owner's weights. Before LLM() is made, in each process."""
    from vllm.model_executor.model_loader.dummy_loader import DummyModelLoader

    def load_weights(_, model, model_config) -> None:
        if owner:
            draw(model)
            publish(model, file)
        else:
            adopt(model, file, limit_s)

    DummyModelLoader.load_weights = load_weights


def publish(model, file: pathlib.Path) -> None:
    import torch
    from torch.multiprocessing.reductions import reduce_tensor

    torch.cuda.synchronize()
    told = {name: reduce_tensor(parameter.data) for name, parameter in model.named_parameters()}
    half = file.with_suffix(".half")
    half.write_bytes(pickle.dumps(told))
    half.rename(file)


def adopt(model, file: pathlib.Path, limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError(
                f"{file} has not come in {limit_s:.0f} s: the engine that owns the weights did not start"
            )
        time.sleep(0.1)
    told = pickle.loads(file.read_bytes())
    for name, parameter in model.named_parameters():
        rebuild, where = told[name]
        theirs = rebuild(*where)
        if theirs.shape != parameter.shape or theirs.dtype != parameter.dtype:
            raise ValueError(f"{name} is {list(parameter.shape)}; the owner's is {list(theirs.shape)}")
        parameter.data = theirs
