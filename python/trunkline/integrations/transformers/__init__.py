"""Transformers: models for tree decoding, and generate_batch with shared prefixes read once.

generator = trunkline.TreeGenerator(model, tokenizer, trunkline.BeamSearch(beams=4, max_new_tokens=64))

with trunkline.integrations.transformers.enable() as batches:
    outputs = model.generate_batch(prompts, generation_config)
print(batches.statistics())
"""

from .batches import Batches, disable, enable, statistics, supports_batches
from .tree_model import TransformersModel

__all__ = ["Batches", "TransformersModel", "disable", "enable", "statistics", "supports_batches"]
