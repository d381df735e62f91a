"""Text by tree decoding: a model, a tokenizer and a controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import errors
from .._arguments import instance, int32, wrong_type
from .controllers import BranchController, Result
from .session import TreeModel, TreeSession


class TreeGenerator:
    """Generates by tree decoding, with one copy of the KV that branches share.

    model: a causal language model of Transformers with full attention, or a TreeModel. tokenizer: for prompts and
    results as text; None: prompts are token ids. controller: BeamSearch, Samples, BestOfN, SelfConsistency,
    TreeOfThoughts, MonteCarloTreeSearch, SpeculativeDecoding, or a BranchController of your own; the attribute of that
    name can be set, for another search in the same KV cache.
    max_tokens: tokens of all branches together that the KV cache has room for, shared ones counted once. page_size:
    tokens of a page. cache_prompts: pages of prompts stay, until their room is needed, and later prompts that begin
    alike find them. attention: options of TreeSession and DecodeAttention. docs/guides/runtime.md has an example.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        controller: BranchController,
        *,
        max_tokens: int = 16384,
        page_size: int = 16,
        cache_prompts: bool = True,
        **attention: Any,
    ) -> None:
        self.controller = instance(controller, BranchController, "controller")
        self.tokenizer = tokenizer
        self.cache_prompts = cache_prompts
        page_size = int32(page_size, "page_size", 1)
        num_pages = -(-int32(max_tokens, "max_tokens", 1) // page_size)
        self._capacity = num_pages * page_size
        self.session = TreeSession(_tree_model(model), page_size=page_size, num_pages=num_pages, **attention)

    def generate(self, prompt: str | Sequence[int]) -> list[Result]:
        """The results of the controller, the best first. Their nodes can be looked up in session.tree until the next
        call. Where it raises, no branch of the call is left.

        prompt: text, to which the tokenizer's encode() adds its special tokens, or token ids [T], with or without a
        tokenizer. InvalidArgumentError where the KV cache is full: a larger max_tokens, or fewer branches, helps."""
        controller = instance(self.controller, BranchController, "controller")
        tokens = self._tokens(prompt)
        tree = self.session.tree
        tree.clear()
        root = tree.add_root(tokens)
        if self.cache_prompts:
            self.session.to_cache.add(root)
        try:
            controller.run(self.session, root)
            results = controller.results(tree, root)
        finally:
            self.session.to_cache.clear()
            for leaf in tree.leaves():
                tree.prune(leaf)
        if self.tokenizer is None:
            return results
        decoded = [self.tokenizer.decode(result.tokens, skip_special_tokens=True) for result in results]
        return [result._replace(text=text) for result, text in zip(results, decoded)]

    def close(self) -> None:
        """Frees the KV cache."""
        self.session.close()

    def __enter__(self) -> TreeGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tokens(self, prompt: str | Sequence[int]) -> list[int]:
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise errors.InvalidArgumentError("prompt is text, and there is no tokenizer; expected: token ids")
            prompt = self.tokenizer.encode(prompt)
        if isinstance(prompt, Mapping):
            raise wrong_type("prompt", prompt, "text or token ids; of a tokenizer's output, its ['input_ids']")
        if not hasattr(prompt, "__iter__"):
            raise wrong_type("prompt", prompt, "text or token ids")
        dimensions = getattr(prompt, "ndim", 1)
        if dimensions != 1:
            raise errors.InvalidArgumentError(
                f"prompt has {dimensions} dimensions; expected: 1, the token ids of one sequence"
            )
        tokens = [int32(token, f"prompt[{i}]", 0) for i, token in enumerate(prompt)]
        if len(tokens) > self._capacity:
            raise errors.InvalidArgumentError(
                f"prompt has {len(tokens)} tokens; expected: at most {self._capacity}, which max_tokens sets"
            )
        return tokens


def _tree_model(model: Any) -> TreeModel:
    if hasattr(model, "new_cache") or not hasattr(model, "config"):
        found: TreeModel = model
        return found
    from ..integrations.transformers import TransformersModel

    return TransformersModel(model)
