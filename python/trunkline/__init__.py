"""Trunkline: prefix-aware decode attention. Requests that share prefixes read each shared trunk of the KV cache once.

Simple: decode_attention(q, k_cache, v_cache, page_table, kv_lens) does all in one call.
Serving: DecodeAttention, plan() once a step and run() once a layer; LiveBatch follows a batch across steps.
Tree decoding: TreeGenerator, with a model and a controller: BeamSearch, Samples, TreeOfThoughts and others.
To understand: explain(), supports(), Profile, Plan.

Tensors are numpy's, torch's or any with DLPack, on the CPU or a GPU, and are never copied. torch is imported only by
trunkline.integrations. docs/guides/python.md is a tour.
"""

from . import _direct, _library, _tensors
from ._device_planning import DevicePlanning, DevicePlanReport, PreparedStep
from ._device_tables import DeviceTables
from .decode import DecodeAttention
from .errors import (
    ArgumentTypeError,
    BusyError,
    ClosedError,
    Error,
    FileError,
    FormatError,
    InternalError,
    InvalidArgumentError,
    NoMemoryError,
    StaleError,
    UnsupportedError,
    WorkspaceError,
)
from .live import LiveBatch, Request, RequestInfo
from .machine import Profile, Support, Workers, cpu_info, cuda_info, cuda_status, supports, version
from .merging import merge_state, merge_states
from .plans import POLICIES, Explanation, Forest, Node, Plan, PlanOptions, Statistics
from .runtime import (
    BeamSearch,
    BestOfN,
    BranchController,
    Continuation,
    Decisions,
    MonteCarloTreeSearch,
    NodeInfo,
    PromptLookup,
    RestoredKV,
    Result,
    Sampler,
    Samples,
    SelfConsistency,
    SequenceTree,
    SpeculativeDecoding,
    TokenSampler,
    TreeGenerator,
    TreeModel,
    TreeNode,
    TreeOfThoughts,
    TreeSession,
    TreeStep,
    Verified,
    verify_drafts,
)
from .simple import decode_attention, explain

_direct.configure(
    _tensors.describe,
    _tensors.current_stream,
    _library.raise_status,
    InvalidArgumentError,
    ArgumentTypeError,
    BusyError,
    ClosedError,
)

__version__: str = _library.c.trunkline_version().decode()

__all__ = [
    "POLICIES",
    "ArgumentTypeError",
    "BeamSearch",
    "BestOfN",
    "BranchController",
    "BusyError",
    "ClosedError",
    "Continuation",
    "Decisions",
    "DecodeAttention",
    "DevicePlanReport",
    "DevicePlanning",
    "DeviceTables",
    "Error",
    "Explanation",
    "FileError",
    "Forest",
    "FormatError",
    "InternalError",
    "InvalidArgumentError",
    "LiveBatch",
    "MonteCarloTreeSearch",
    "NoMemoryError",
    "Node",
    "NodeInfo",
    "Plan",
    "PlanOptions",
    "PreparedStep",
    "Profile",
    "PromptLookup",
    "Request",
    "RequestInfo",
    "RestoredKV",
    "Result",
    "Sampler",
    "Samples",
    "SelfConsistency",
    "SequenceTree",
    "SpeculativeDecoding",
    "StaleError",
    "Statistics",
    "Support",
    "TokenSampler",
    "TreeGenerator",
    "TreeModel",
    "TreeNode",
    "TreeOfThoughts",
    "TreeSession",
    "TreeStep",
    "UnsupportedError",
    "Verified",
    "Workers",
    "WorkspaceError",
    "cpu_info",
    "cuda_info",
    "cuda_status",
    "decode_attention",
    "explain",
    "merge_state",
    "merge_states",
    "supports",
    "verify_drafts",
    "version",
]
