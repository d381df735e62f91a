"""Tree decoding: sequences that fork, grow and are pruned over one pool of KV pages, and controllers that decide how.

    generator = trunkline.TreeGenerator(model, tokenizer, trunkline.BeamSearch(beams=4, max_new_tokens=64))
    best, *others = generator.generate("Once upon a time")

docs/guides/runtime.md is a tour. torch is imported only where a model is torch's.
"""

from .beam_search import BeamSearch
from .controllers import BranchController, Continuation, Decisions, Result
from .generator import TreeGenerator
from .mcts import MonteCarloTreeSearch
from .samples import BestOfN, Samples, SelfConsistency, TokenSampler
from .session import TreeModel, TreeSession
from .speculation import PromptLookup, Sampler, SpeculativeDecoding, Verified, verify_drafts
from .thoughts import TreeOfThoughts
from .tree import NodeInfo, RestoredKV, SequenceTree, TreeNode, TreeStep

__all__ = [
    "BeamSearch",
    "BestOfN",
    "BranchController",
    "Continuation",
    "Decisions",
    "MonteCarloTreeSearch",
    "TreeNode",
    "NodeInfo",
    "PromptLookup",
    "RestoredKV",
    "Result",
    "Sampler",
    "Samples",
    "SelfConsistency",
    "SequenceTree",
    "SpeculativeDecoding",
    "TokenSampler",
    "TreeGenerator",
    "TreeModel",
    "TreeOfThoughts",
    "TreeSession",
    "TreeStep",
    "Verified",
    "verify_drafts",
]
