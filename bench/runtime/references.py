"""Right answers: attention in fp64 for a layer, and log-probabilities by the model's own eager attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from visible import Step, visible_slots

#: The largest difference of an element of attention's output, of which V's elements are about 1.
ATTENTION_TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
#: The largest difference of a forced token's log-probability. Logits of 16 to 32 are 0.125 apart in bf16, 0.016 in f16.
LOG_PROBABILITY_TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-1, torch.bfloat16: 5e-1}
_CHECKED = 6  # queries of a step that are compared


def larger(a: float, b: float) -> float:
    """The maximum; NaN where one of them is, unlike max()."""
    return float(np.maximum(a, b))


def attention_error(step: Step, layer: int, q: torch.Tensor, out: torch.Tensor) -> float:
    """The largest difference of `out` from attention in fp64, of some queries, the last one among them."""
    rows = visible_slots(step)
    some = sorted({i * (len(rows) - 1) // max(_CHECKED - 1, 1) for i in range(_CHECKED)})
    keys, values = (part.flatten(0, 1) for part in step.cache.layers[layer])
    worst = 0.0
    for query in some:
        index = torch.as_tensor(rows[query], device=keys.device)
        k, v = (part[index].transpose(0, 1).double() for part in (keys, values))
        grouped = q[query].double().view(k.shape[0], -1, k.shape[2])
        weights = torch.softmax(grouped @ k.transpose(1, 2) / k.shape[2] ** 0.5, dim=-1)
        worst = larger(worst, float((weights @ v - out[query].double().view(grouped.shape)).abs().max()))
    return worst


def token_log_probabilities(model: Any, tokens: list[int], begin: int) -> np.ndarray:
    """Of tokens[begin:], each after those before it, by the Transformers model with eager attention, without a cache.
    In fp32, whatever the model's type."""
    before = model.config._attn_implementation
    ids = torch.as_tensor([tokens], device=model.device)
    try:
        model.config._attn_implementation = "eager"
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits[0, begin - 1 : -1]
    finally:
        model.config._attn_implementation = before
    scores = torch.log_softmax(logits.double(), dim=-1)
    return scores[torch.arange(len(scores)), ids[0, begin:]].cpu().numpy()
