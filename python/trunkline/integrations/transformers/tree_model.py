"""Causal language models of Transformers as tree decoding takes them.

    generator = trunkline.TreeGenerator(model, tokenizer, trunkline.BeamSearch(beams=4, max_new_tokens=64))

TreeGenerator makes the adapter by itself. The model runs as it is: its attention is replaced by way of
AttentionInterface, the official seam, for the time of a step alone. All of its layers must have full attention.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import numpy.typing as npt
import torch
from transformers import AttentionInterface

from ... import errors
from .full_attention import refusal, refuse_options

_NAME = "trunkline_tree"


class _Step:
    """The step that runs, and the layers that have called."""

    def __init__(self, attention: Any) -> None:
        self.attention = attention
        self.layers = 0


_running: ContextVar[_Step | None] = ContextVar("trunkline_tree_step", default=None)


def _attend(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None, **options: Any
) -> tuple[Any, None]:
    """As AttentionInterface has it: query [1, Hq, T, d], key and value [1, Hkv, T, d]; out [1, T, Hq, d]."""
    step = _running.get()
    if step is None:
        raise errors.UnsupportedError(f"attention {_NAME!r} runs within a step of TreeGenerator or TreeSession alone")
    refuse_options(module, options)
    step.layers += 1
    q, k, v = (part[0].transpose(0, 1) for part in (query, key, value))
    return step.attention(module.layer_idx, q, k, v, scaling)[None], None


AttentionInterface.register(_NAME, _attend)


class TransformersModel:
    """A causal language model of Transformers, as a TreeModel.

    UnsupportedError for models that are encoder-decoders, have layers of sliding-window or linear attention, bound
    their logits, or do not go by AttentionInterface. The model must be in eval mode.
    """

    def __init__(self, model: Any) -> None:
        config = getattr(model, "config", None)
        if config is None or not callable(model):
            raise errors.ArgumentTypeError(
                f"model is of type {type(model).__name__}; expected: a causal language model of Transformers"
            )
        text = config.get_text_config()
        reason = refusal(model)
        if reason is not None:
            raise errors.UnsupportedError(reason)
        self.model = model
        self._config = text
        self.num_layers: int = text.num_hidden_layers
        self.num_qo_heads: int = text.num_attention_heads
        self.num_kv_heads: int = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        self.head_dim: int = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        self.dtype = model.dtype
        self.device = model.device

    def new_cache(self, shape: tuple[int, ...]) -> Any:
        """A tensor of zeros."""
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def forward(
        self, tokens: npt.NDArray[Any], positions: npt.NDArray[Any], attention: Any, rows: npt.NDArray[Any]
    ) -> Any:
        """One step, as TreeModel has it."""
        if self.model.training:
            raise errors.InvalidArgumentError("model is in training mode; expected: eval mode, by model.eval()")
        ids, places, kept = (
            torch.as_tensor(array, dtype=torch.int64, device=self.device) for array in (tokens, positions, rows)
        )
        step = _Step(attention)
        before, token = self._config._attn_implementation, _running.set(step)
        try:
            self._config._attn_implementation = _NAME
            with torch.no_grad():
                output = self.model(
                    input_ids=ids[None], position_ids=places[None], use_cache=False, logits_to_keep=kept
                )
        finally:
            self._config._attn_implementation = before
            _running.reset(token)
        if step.layers != self.num_layers:
            raise errors.UnsupportedError(
                f"{step.layers} layers of {type(self.model).__name__} called AttentionInterface; expected: all "
                f"{self.num_layers}"
            )
        return output.logits[0]
