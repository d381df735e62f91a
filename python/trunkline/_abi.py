"""The C interface (trunkline.h) as ctypes has it. Written by scripts/make_python_abi.py."""

from __future__ import annotations

from ctypes import (
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

ABI_VERSION = 1

OK = 0
INVALID_ARGUMENT = 1
OUT_OF_RANGE = 2
UNSUPPORTED = 3
STALE = 4
WORKSPACE = 5
PARSE = 6
IO = 7
INTERNAL = 8
OUT_OF_MEMORY = 9
BAD_HANDLE = 10
BUSY = 11

F32 = 1
F16 = 2
BF16 = 3
I32 = 4
I64 = 5
F8E4M3 = 6
F8E5M2 = 7

CPU = 1
CUDA = 2

ISA_BEST = 0
ISA_PORTABLE = 1
ISA_AVX2 = 2
ISA_AVX512 = 3

KERNELS_AUTO = 0
KERNELS_PORTABLE = 1
KERNELS_HOPPER = 2

DENSE = 1
CSR = 2
TOKEN_LEVEL = 3
POOLED = 4

TRUST_IDS = 0
CHECK_ALL_IDS = 1

POLICY_AUTO = 0
POLICY_FLAT = 1
POLICY_CASCADE = 2
POLICY_NODE = 3
POLICY_PROFIT = 4
POLICY_GREEDY = 5
POLICY_FLATTEN = 6
POLICY_BALANCED = 7
POLICY_TRUNK = 8
POLICY_INVARIANT = 9

SPLIT_OWN = 0
SPLIT_BALANCE = 1
SPLIT_NONE = 2

PLAN_REUSED = 0
PLAN_MEMBERSHIP = 1
PLAN_TRUNCATED = 2
PLAN_GROWTH = 3
PLAN_EDITED = 4
PLAN_FLAT = 5

NODE_LEAF = 0
NODE_INNER = 1
NODE_FINISHED = 2
NODE_PRUNED = 3
NODE_SAVED = 4

STOP_HEURISTIC = 0
STOP_ALWAYS = 1
STOP_NEVER = 2

NHD = 0
HND = 1

LSE_NATURAL = 0
LSE_TWO = 1

MERGE_DEFAULT = 0
MERGE_FUSED = 1
MERGE_SEPARATE = 2


class Tensor(Structure):
    data: int | None
    dtype: int
    device: int
    device_index: int
    ndim: int
    shape: int | None
    strides: int | None
    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int32),
        ("device", c_int32),
        ("device_index", c_int32),
        ("ndim", c_int32),
        ("shape", c_void_p),
        ("strides", c_void_p),
    ]


class Shape(Structure):
    struct_size: int
    q_heads: int
    kv_heads: int
    head_dim_qk: int
    head_dim_v: int
    page_size: int
    q_dtype: int
    kv_dtype: int
    device: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("q_heads", c_int32),
        ("kv_heads", c_int32),
        ("head_dim_qk", c_int32),
        ("head_dim_v", c_int32),
        ("page_size", c_int32),
        ("q_dtype", c_int32),
        ("kv_dtype", c_int32),
        ("device", c_int32),
    ]


class CpuInfo(Structure):
    struct_size: int
    model: bytes
    instruction_sets: bytes
    cores: int
    isa: int
    l1d_bytes: int
    l2_bytes: int
    llc_bytes: int
    memory_bytes: int
    memory_available_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("model", c_char * 128),
        ("instruction_sets", c_char * 256),
        ("cores", c_int32),
        ("isa", c_int32),
        ("l1d_bytes", c_int64),
        ("l2_bytes", c_int64),
        ("llc_bytes", c_int64),
        ("memory_bytes", c_int64),
        ("memory_available_bytes", c_int64),
    ]


class CudaInfo(Structure):
    struct_size: int
    name: bytes
    major: int
    minor: int
    sms: int
    driver_version: int
    memory_bytes: int
    l2_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char * 256),
        ("major", c_int32),
        ("minor", c_int32),
        ("sms", c_int32),
        ("driver_version", c_int32),
        ("memory_bytes", c_int64),
        ("l2_bytes", c_int64),
    ]


class ProfileInfo(Structure):
    struct_size: int
    name: bytes
    device: int
    workers: int
    read_bytes_per_us: float
    flops_per_us: float
    launch_us: float
    llc_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char * 128),
        ("device", c_int32),
        ("workers", c_int32),
        ("read_bytes_per_us", c_double),
        ("flops_per_us", c_double),
        ("launch_us", c_double),
        ("llc_bytes", c_int64),
    ]


class PageTable(Structure):
    struct_size: int
    form: int
    id_dtype: int
    ids: int | None
    id_count: int
    width: int
    indptr: int | None
    row_map: int | None
    rows: int
    page_size: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("form", c_int32),
        ("id_dtype", c_int32),
        ("ids", c_void_p),
        ("id_count", c_int64),
        ("width", c_int64),
        ("indptr", c_void_p),
        ("row_map", c_void_p),
        ("rows", c_int32),
        ("page_size", c_int32),
    ]


class Batch(Structure):
    struct_size: int
    pages: int | None
    kv_lens: int | None
    rows: int
    has_null_page: int
    null_page: int
    num_pages: int
    query_start: int | None
    query_parents: int | None
    slots: int | None
    generations: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("pages", c_void_p),
        ("kv_lens", c_void_p),
        ("rows", c_int32),
        ("has_null_page", c_int32),
        ("null_page", c_int64),
        ("num_pages", c_int64),
        ("query_start", c_void_p),
        ("query_parents", c_void_p),
        ("slots", c_void_p),
        ("generations", c_void_p),
    ]


class Tree(Structure):
    struct_size: int
    parent: int | None
    tokens: int | None
    end_node: int | None
    nodes: int
    requests: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("parent", c_void_p),
        ("tokens", c_void_p),
        ("end_node", c_void_p),
        ("nodes", c_int32),
        ("requests", c_int32),
    ]


class ForestInfo(Structure):
    struct_size: int
    rows: int
    nodes: int
    total_tokens: int
    distinct_tokens: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", c_int32),
        ("nodes", c_int32),
        ("total_tokens", c_int64),
        ("distinct_tokens", c_int64),
    ]


class ForestNode(Structure):
    parent: int
    begin: int
    end: int
    row: int
    requests_begin: int
    requests_end: int
    depth: int
    _fields_ = [
        ("parent", c_int32),
        ("begin", c_int32),
        ("end", c_int32),
        ("row", c_int32),
        ("requests_begin", c_int32),
        ("requests_end", c_int32),
        ("depth", c_int32),
    ]


class PlanOptions(Structure):
    struct_size: int
    policy: int
    split: int
    capacity_queries: int
    capacity_items: int
    capacity_spans: int
    capacity_partials: int
    tile_m: int
    tile_n: int
    node_chunk: int
    flatten_block: int
    trunk_rows: int
    invariant_chunk: int
    study: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("policy", c_int32),
        ("split", c_int32),
        ("capacity_queries", c_int32),
        ("capacity_items", c_int32),
        ("capacity_spans", c_int32),
        ("capacity_partials", c_int32),
        ("tile_m", c_int32),
        ("tile_n", c_int32),
        ("node_chunk", c_int32),
        ("flatten_block", c_int32),
        ("trunk_rows", c_int32),
        ("invariant_chunk", c_int32),
        ("study", c_void_p),
    ]


class Estimate(Structure):
    policy: int
    reserved: int
    predicted_us: float
    kv_tokens_read: int
    _fields_ = [("policy", c_int32), ("reserved", c_int32), ("predicted_us", c_double), ("kv_tokens_read", c_int64)]


class PlanInfo(Structure):
    struct_size: int
    q_heads: int
    kv_heads: int
    head_dim_qk: int
    head_dim_v: int
    page_size: int
    q_dtype: int
    kv_dtype: int
    device: int
    policy: int
    queries: int
    epoch: int
    items: int
    spans: int
    merges: int
    partials: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("q_heads", c_int32),
        ("kv_heads", c_int32),
        ("head_dim_qk", c_int32),
        ("head_dim_v", c_int32),
        ("page_size", c_int32),
        ("q_dtype", c_int32),
        ("kv_dtype", c_int32),
        ("device", c_int32),
        ("policy", c_int32),
        ("queries", c_int32),
        ("epoch", c_uint64),
        ("items", c_int32),
        ("spans", c_int32),
        ("merges", c_int32),
        ("partials", c_int32),
    ]


class PlanStatistics(Structure):
    struct_size: int
    kv_tokens_total: int
    kv_tokens_distinct: int
    kv_tokens_read: int
    kv_tokens_grouped: int
    kv_bytes_distinct: int
    kv_bytes_read: int
    kv_bytes_reread: int
    qo_bytes: int
    partials: int
    partial_bytes: int
    flops: float
    flops_padded: float
    predicted_us: float
    bound_us: float
    fallbacks: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("kv_tokens_total", c_int64),
        ("kv_tokens_distinct", c_int64),
        ("kv_tokens_read", c_int64),
        ("kv_tokens_grouped", c_int64),
        ("kv_bytes_distinct", c_int64),
        ("kv_bytes_read", c_int64),
        ("kv_bytes_reread", c_int64),
        ("qo_bytes", c_int64),
        ("partials", c_int64),
        ("partial_bytes", c_int64),
        ("flops", c_double),
        ("flops_padded", c_double),
        ("predicted_us", c_double),
        ("bound_us", c_double),
        ("fallbacks", c_int32),
        ("reserved", c_int32),
    ]


class Request(Structure):
    slot: int
    generation: int
    _fields_ = [("slot", c_int32), ("generation", c_uint32)]


class LiveBatchOptions(Structure):
    struct_size: int
    page_size: int
    has_null_page: int
    null_page: int
    num_pages: int
    expected_requests: int
    expected_pages: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("page_size", c_int32),
        ("has_null_page", c_int32),
        ("null_page", c_int64),
        ("num_pages", c_int64),
        ("expected_requests", c_int32),
        ("expected_pages", c_int32),
    ]


class NewRequest(Structure):
    struct_size: int
    kv_len: int
    queries: int
    pages: int | None
    page_count: int
    id_dtype: int
    reserved: int
    query_parents: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("kv_len", c_int32),
        ("queries", c_int32),
        ("pages", c_void_p),
        ("page_count", c_int64),
        ("id_dtype", c_int32),
        ("reserved", c_int32),
        ("query_parents", c_void_p),
    ]


class NewPages(Structure):
    struct_size: int
    indptr: int | None
    ids: int | None
    id_dtype: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("indptr", c_void_p),
        ("ids", c_void_p),
        ("id_dtype", c_int32),
        ("reserved", c_int32),
    ]


class RequestInfo(Structure):
    struct_size: int
    row: int
    kv_len: int
    shared_tokens: int
    page_count: int
    pages: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("row", c_int32),
        ("kv_len", c_int32),
        ("shared_tokens", c_int32),
        ("page_count", c_int32),
        ("pages", c_void_p),
    ]


class LivePlanOptions(Structure):
    struct_size: int
    plan: int | None
    growth_limit: float
    edit_share: float
    _fields_ = [("struct_size", c_size_t), ("plan", c_void_p), ("growth_limit", c_double), ("edit_share", c_double)]


class PlanCounts(Structure):
    struct_size: int
    steps: int
    reused: int
    membership: int
    truncated: int
    growth: int
    edited: int
    flat: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("steps", c_int64),
        ("reused", c_int64),
        ("membership", c_int64),
        ("truncated", c_int64),
        ("growth", c_int64),
        ("edited", c_int64),
        ("flat", c_int64),
    ]


class KvStoreShape(Structure):
    struct_size: int
    layers: int
    kv_heads: int
    head_dim_qk: int
    head_dim_v: int
    page_size: int
    dtype: int
    num_pages: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("layers", c_int32),
        ("kv_heads", c_int32),
        ("head_dim_qk", c_int32),
        ("head_dim_v", c_int32),
        ("page_size", c_int32),
        ("dtype", c_int32),
        ("num_pages", c_int64),
    ]


class KvCache(Structure):
    data: int | None
    page_stride: int
    token_stride: int
    head_stride: int
    _fields_ = [("data", c_void_p), ("page_stride", c_int64), ("token_stride", c_int64), ("head_stride", c_int64)]


class KvLayer(Structure):
    k: KvCache
    v: KvCache
    _fields_ = [("k", KvCache), ("v", KvCache)]


class Node(Structure):
    index: int
    tree: int
    _fields_ = [("index", c_int32), ("tree", c_uint32)]


class NodeInfo(Structure):
    struct_size: int
    parent: Node
    state: int
    begin: int
    end: int
    kv_len: int
    drafts: int
    reserved: int
    score: float
    user_data: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("parent", Node),
        ("state", c_int32),
        ("begin", c_int32),
        ("end", c_int32),
        ("kv_len", c_int32),
        ("drafts", c_int32),
        ("reserved", c_int32),
        ("score", c_double),
        ("user_data", c_int64),
    ]


class SequenceTreeOptions(Structure):
    struct_size: int
    page_size: int
    expected_leaves: int
    expected_pages: int
    reserved: int
    num_pages: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("page_size", c_int32),
        ("expected_leaves", c_int32),
        ("expected_pages", c_int32),
        ("reserved", c_int32),
        ("num_pages", c_int64),
    ]


class PageCopy(Structure):
    source: int
    target: int
    tokens: int
    row: int
    page_index: int
    _fields_ = [
        ("source", c_int32),
        ("target", c_int32),
        ("tokens", c_int32),
        ("row", c_int32),
        ("page_index", c_int32),
    ]


class TokenMove(Structure):
    source: int
    target: int
    _fields_ = [("source", c_int64), ("target", c_int64)]


class TreeStep(Structure):
    struct_size: int
    rows: int
    queries: int
    nodes: int | None
    query_start: int | None
    tokens: int | None
    positions: int | None
    slot_mapping: int | None
    copies: int | None
    copy_count: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", c_int32),
        ("queries", c_int32),
        ("nodes", c_void_p),
        ("query_start", c_void_p),
        ("tokens", c_void_p),
        ("positions", c_void_p),
        ("slot_mapping", c_void_p),
        ("copies", c_void_p),
        ("copy_count", c_int64),
    ]


class RestoredKv(Structure):
    struct_size: int
    begin: int
    count: int
    slots: int | None
    copies: int | None
    copy_count: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("begin", c_int32),
        ("count", c_int32),
        ("slots", c_void_p),
        ("copies", c_void_p),
        ("copy_count", c_int64),
    ]


class SequenceTreeInfo(Structure):
    struct_size: int
    nodes: int
    tree: int
    num_pages: int
    free_pages: int
    available_pages: int
    cached_pages: int
    evicted_pages: int
    sequences: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("nodes", c_int32),
        ("tree", c_uint32),
        ("num_pages", c_int64),
        ("free_pages", c_int64),
        ("available_pages", c_int64),
        ("cached_pages", c_int64),
        ("evicted_pages", c_int64),
        ("sequences", c_int64),
    ]


class Continuation(Structure):
    leaf: int
    token: int
    score: float
    finished: int
    reserved: int
    _fields_ = [
        ("leaf", c_int32),
        ("token", c_int32),
        ("score", c_double),
        ("finished", c_int32),
        ("reserved", c_int32),
    ]


class Decisions(Structure):
    struct_size: int
    continuations: int | None
    continuation_count: int
    prune: int | None
    prune_count: int
    finish: int | None
    finish_count: int
    stop: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("continuations", c_void_p),
        ("continuation_count", c_int64),
        ("prune", c_void_p),
        ("prune_count", c_int64),
        ("finish", c_void_p),
        ("finish_count", c_int64),
        ("stop", c_int32),
        ("reserved", c_int32),
    ]


class Logits(Structure):
    data: int | None
    row_stride: int
    rows: int
    vocabulary: int
    _fields_ = [("data", c_void_p), ("row_stride", c_int64), ("rows", c_int32), ("vocabulary", c_int32)]


class BeamSearchOptions(Structure):
    struct_size: int
    beams: int
    max_new_tokens: int
    end_tokens: int | None
    end_token_count: int
    early_stopping: int
    length_penalty: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("beams", c_int32),
        ("max_new_tokens", c_int32),
        ("end_tokens", c_void_p),
        ("end_token_count", c_int32),
        ("early_stopping", c_int32),
        ("length_penalty", c_double),
    ]


class BeamResult(Structure):
    node: Node
    score: float
    _fields_ = [("node", Node), ("score", c_double)]


class Drafts(Structure):
    struct_size: int
    tokens: int | None
    parents: int | None
    count: int
    reserved: int
    probabilities: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("tokens", c_void_p),
        ("parents", c_void_p),
        ("count", c_int32),
        ("reserved", c_int32),
        ("probabilities", c_void_p),
    ]


class Verified(Structure):
    struct_size: int
    accepted_count: int
    next_token: int
    log_probability: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("accepted_count", c_int32),
        ("next_token", c_int32),
        ("log_probability", c_double),
    ]


class Scale(Structure):
    heads: Tensor
    value: float
    reserved: int
    _fields_ = [("heads", Tensor), ("value", c_float), ("reserved", c_int32)]


class Attention(Structure):
    struct_size: int
    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    lse: Tensor
    kv_layout: int
    lse_base: int
    scale: float
    has_scale: int
    max_queries: int
    q_scale: Scale
    k_scale: Scale
    v_scale: Scale
    has_window_left: int
    window_left: int
    soft_cap: float
    reserved: int
    sinks: Tensor
    _fields_ = [
        ("struct_size", c_size_t),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("out", Tensor),
        ("lse", Tensor),
        ("kv_layout", c_int32),
        ("lse_base", c_int32),
        ("scale", c_float),
        ("has_scale", c_int32),
        ("max_queries", c_int64),
        ("q_scale", Scale),
        ("k_scale", Scale),
        ("v_scale", Scale),
        ("has_window_left", c_int32),
        ("window_left", c_int32),
        ("soft_cap", c_float),
        ("reserved", c_int32),
        ("sinks", Tensor),
    ]


class ThreadGroup(Structure):
    struct_size: int
    context: int | None
    run: int | None
    size: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("context", c_void_p),
        ("run", c_void_p),
        ("size", c_int32),
        ("reserved", c_int32),
    ]


class CpuOptions(Structure):
    struct_size: int
    merge: int
    isa: int
    _fields_ = [("struct_size", c_size_t), ("merge", c_int32), ("isa", c_int32)]


class CudaOptions(Structure):
    struct_size: int
    device: int
    check_pages: int
    kernels: int
    reserved: int
    study: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("device", c_int32),
        ("check_pages", c_int32),
        ("kernels", c_int32),
        ("reserved", c_int32),
        ("study", c_void_p),
    ]


class CudaBatch(Structure):
    struct_size: int
    pages: int | None
    kv_lens: int | None
    num_pages: int
    query_start: int | None
    queries: int
    reserved: int
    query_parents: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("pages", c_void_p),
        ("kv_lens", c_void_p),
        ("num_pages", c_int64),
        ("query_start", c_void_p),
        ("queries", c_int32),
        ("reserved", c_int32),
        ("query_parents", c_void_p),
    ]


class CudaPlannerOptions(Structure):
    struct_size: int
    device: int
    rows: int
    capacity_queries: int
    capacity_items: int
    capacity_spans: int
    capacity_partials: int
    growth: int
    has_null_page: int
    null_page: int
    policy: int
    invariant_chunk: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("device", c_int32),
        ("rows", c_int32),
        ("capacity_queries", c_int32),
        ("capacity_items", c_int32),
        ("capacity_spans", c_int32),
        ("capacity_partials", c_int32),
        ("growth", c_int32),
        ("has_null_page", c_int32),
        ("null_page", c_int64),
        ("policy", c_int32),
        ("invariant_chunk", c_int32),
    ]


class CudaPlanReport(Structure):
    struct_size: int
    planned: int
    reused: int
    kv_tokens_total: int
    kv_tokens_distinct: int
    kv_tokens_read: int
    items: int
    spans: int
    partials: int
    fallbacks: int
    unplanned: int
    bad_lengths: int
    first_bad_length: int
    bad_length: int
    bad_queries: int
    first_bad_queries: int
    bad_query_start: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("planned", c_uint64),
        ("reused", c_uint64),
        ("kv_tokens_total", c_int64),
        ("kv_tokens_distinct", c_int64),
        ("kv_tokens_read", c_int64),
        ("items", c_int32),
        ("spans", c_int32),
        ("partials", c_int32),
        ("fallbacks", c_int32),
        ("unplanned", c_int32),
        ("bad_lengths", c_int32),
        ("first_bad_length", c_int32),
        ("bad_length", c_int32),
        ("bad_queries", c_int32),
        ("first_bad_queries", c_int32),
        ("bad_query_start", c_int32),
        ("reserved", c_int32),
    ]


class Merge(Structure):
    struct_size: int
    states: Tensor
    state_lse: Tensor
    out: Tensor
    lse: Tensor
    begin: int | None
    slots: int | None
    lse_base: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("states", Tensor),
        ("state_lse", Tensor),
        ("out", Tensor),
        ("lse", Tensor),
        ("begin", c_void_p),
        ("slots", c_void_p),
        ("lse_base", c_int32),
        ("reserved", c_int32),
    ]


FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "trunkline_abi_version": (c_int32, ()),
    "trunkline_version": (c_char_p, ()),
    "trunkline_commit": (c_char_p, ()),
    "trunkline_status_name": (c_char_p, (c_int32,)),
    "trunkline_last_error": (c_char_p, ()),
    "trunkline_text_view": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_text_destroy": (c_int32, (c_void_p,)),
    "trunkline_tensor_from_dlpack": (c_int32, (c_void_p, c_void_p)),
    "trunkline_tensor_from_dlpack_versioned": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_supports": (c_int32, (c_void_p,)),
    "trunkline_get_cpu_info": (c_int32, (c_void_p,)),
    "trunkline_cuda_status": (c_int32, (c_void_p,)),
    "trunkline_get_cuda_info": (c_int32, (c_int32, c_void_p)),
    "trunkline_cuda_kernels_for": (c_int32, (c_int32, c_void_p, c_int32, c_void_p)),
    "trunkline_profile_generic_cpu": (c_int32, (c_int32, c_void_p)),
    "trunkline_profile_measure_cpu": (c_int32, (c_void_p, c_void_p)),
    "trunkline_profile_named": (c_int32, (c_void_p, c_void_p)),
    "trunkline_profile_load": (c_int32, (c_void_p, c_void_p)),
    "trunkline_profile_parse": (c_int32, (c_void_p, c_size_t, c_void_p, c_void_p)),
    "trunkline_profile_cuda": (c_int32, (c_int32, c_void_p, c_int32, c_void_p)),
    "trunkline_profile_get_info": (c_int32, (c_void_p, c_void_p)),
    "trunkline_profile_json": (c_int32, (c_void_p, c_void_p)),
    "trunkline_profile_destroy": (c_int32, (c_void_p,)),
    "trunkline_check_batch": (c_int32, (c_void_p, c_int32)),
    "trunkline_pages_used": (c_int32, (c_void_p, c_void_p)),
    "trunkline_lengths_from_csr": (c_int32, (c_void_p, c_void_p, c_int32, c_int32, c_void_p)),
    "trunkline_forest_create": (c_int32, (c_void_p,)),
    "trunkline_forest_build": (c_int32, (c_void_p, c_void_p, c_int32)),
    "trunkline_forest_build_tree": (c_int32, (c_void_p, c_void_p)),
    "trunkline_forest_get_info": (c_int32, (c_void_p, c_void_p)),
    "trunkline_forest_nodes": (c_int32, (c_void_p, c_void_p, c_size_t)),
    "trunkline_forest_order": (c_int32, (c_void_p, c_void_p, c_size_t)),
    "trunkline_forest_destroy": (c_int32, (c_void_p,)),
    "trunkline_policy_name": (c_char_p, (c_int32,)),
    "trunkline_policy_from_name": (c_int32, (c_void_p, c_void_p)),
    "trunkline_planner_create": (c_int32, (c_void_p, c_void_p)),
    "trunkline_planner_plan": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_planner_estimate": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p)),
    "trunkline_planner_destroy": (c_int32, (c_void_p,)),
    "trunkline_plan_copy": (c_int32, (c_void_p, c_void_p)),
    "trunkline_plan_destroy": (c_int32, (c_void_p,)),
    "trunkline_plan_get_info": (c_int32, (c_void_p, c_void_p)),
    "trunkline_plan_get_statistics": (c_int32, (c_void_p, c_void_p)),
    "trunkline_plan_json": (c_int32, (c_void_p, c_void_p)),
    "trunkline_plan_statistics_json": (c_int32, (c_void_p, c_void_p)),
    "trunkline_plan_validate": (c_int32, (c_void_p, c_void_p)),
    "trunkline_plan_page": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_live_batch_create": (c_int32, (c_void_p, c_void_p)),
    "trunkline_live_batch_advance": (c_int32, (c_void_p, c_void_p, c_int32, c_void_p)),
    "trunkline_live_batch_join": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_live_batch_leave": (c_int32, (c_void_p, Request)),
    "trunkline_live_batch_fork": (c_int32, (c_void_p, Request, c_void_p)),
    "trunkline_live_batch_replace_page": (c_int32, (c_void_p, Request, c_int32, c_int64)),
    "trunkline_live_batch_truncate": (c_int32, (c_void_p, Request, c_int32)),
    "trunkline_live_batch_set_queries": (c_int32, (c_void_p, Request, c_int32, c_void_p)),
    "trunkline_live_batch_reorder": (c_int32, (c_void_p, c_void_p, c_int32)),
    "trunkline_live_batch_rows": (c_int32, (c_void_p, c_void_p)),
    "trunkline_live_batch_request_at": (c_int32, (c_void_p, c_int32, c_void_p)),
    "trunkline_live_batch_get_request": (c_int32, (c_void_p, Request, c_void_p)),
    "trunkline_live_batch_sharing_revision": (c_int32, (c_void_p, c_void_p)),
    "trunkline_live_batch_view": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_live_batch_forest": (c_int32, (c_void_p, c_void_p)),
    "trunkline_live_batch_destroy": (c_int32, (c_void_p,)),
    "trunkline_plan_source_name": (c_char_p, (c_int32,)),
    "trunkline_live_planner_create": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_live_planner_plan": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_live_planner_counts": (c_int32, (c_void_p, c_void_p)),
    "trunkline_live_planner_destroy": (c_int32, (c_void_p,)),
    "trunkline_async_planner_create": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_async_planner_submit": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_async_planner_poll": (c_int32, (c_void_p, c_void_p)),
    "trunkline_async_planner_take": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_async_planner_counts": (c_int32, (c_void_p, c_void_p)),
    "trunkline_async_planner_destroy": (c_int32, (c_void_p,)),
    "trunkline_kv_store_create": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_kv_store_get_layer": (c_int32, (c_void_p, c_int32, c_void_p)),
    "trunkline_kv_store_write": (c_int32, (c_void_p, c_int32, c_void_p, c_int64, c_void_p, c_void_p)),
    "trunkline_kv_store_destroy": (c_int32, (c_void_p,)),
    "trunkline_sequence_tree_create": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_sequence_tree_live": (c_int32, (c_void_p, c_void_p)),
    "trunkline_sequence_tree_add_root": (c_int32, (c_void_p, c_void_p, c_int64, c_void_p)),
    "trunkline_sequence_tree_fork": (c_int32, (c_void_p, Node, c_int32, c_int32, c_void_p)),
    "trunkline_sequence_tree_append": (c_int32, (c_void_p, Node, c_void_p, c_int64)),
    "trunkline_sequence_tree_draft": (c_int32, (c_void_p, Node, c_void_p, c_void_p, c_int32)),
    "trunkline_sequence_tree_accept": (c_int32, (c_void_p, Node, c_void_p, c_int32, c_void_p, c_void_p)),
    "trunkline_sequence_tree_prune": (c_int32, (c_void_p, Node)),
    "trunkline_sequence_tree_finish": (c_int32, (c_void_p, Node)),
    "trunkline_sequence_tree_commit": (c_int32, (c_void_p, Node)),
    "trunkline_sequence_tree_cache": (c_int32, (c_void_p, Node)),
    "trunkline_sequence_tree_save": (c_int32, (c_void_p, Node)),
    "trunkline_sequence_tree_restore": (c_int32, (c_void_p, Node)),
    "trunkline_sequence_tree_save_outside": (c_int32, (c_void_p, Node)),
    "trunkline_sequence_tree_restore_outside": (c_int32, (c_void_p, Node, c_void_p)),
    "trunkline_sequence_tree_clear": (c_int32, (c_void_p,)),
    "trunkline_sequence_tree_set_score": (c_int32, (c_void_p, Node, c_double)),
    "trunkline_sequence_tree_set_user_data": (c_int32, (c_void_p, Node, c_int64)),
    "trunkline_sequence_tree_step": (c_int32, (c_void_p, c_void_p, c_int32, c_int32, c_void_p)),
    "trunkline_sequence_tree_cancel_step": (c_int32, (c_void_p,)),
    "trunkline_sequence_tree_get_info": (c_int32, (c_void_p, c_void_p)),
    "trunkline_sequence_tree_get_node": (c_int32, (c_void_p, Node, c_void_p)),
    "trunkline_sequence_tree_sequence": (c_int32, (c_void_p, Node, c_void_p, c_int32)),
    "trunkline_sequence_tree_slots": (c_int32, (c_void_p, Node, c_void_p, c_int32)),
    "trunkline_sequence_tree_destroy": (c_int32, (c_void_p,)),
    "trunkline_sequence_tree_apply": (c_int32, (c_void_p, c_void_p, c_int32, c_void_p, c_void_p, c_int32, c_void_p)),
    "trunkline_beam_search_create": (c_int32, (c_void_p, c_void_p)),
    "trunkline_beam_search_decide": (c_int32, (c_void_p, c_void_p, c_void_p, c_int32, c_void_p, c_void_p)),
    "trunkline_beam_search_results": (c_int32, (c_void_p, c_void_p, c_void_p, c_int32, c_void_p)),
    "trunkline_beam_search_destroy": (c_int32, (c_void_p,)),
    "trunkline_sampler_create": (c_int32, (c_uint64, c_double, c_void_p)),
    "trunkline_sampler_sample": (c_int32, (c_void_p, c_void_p, c_int32, c_void_p)),
    "trunkline_sampler_destroy": (c_int32, (c_void_p,)),
    "trunkline_verify_drafts": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_workers_create": (c_int32, (c_int32, c_void_p)),
    "trunkline_workers_from_thread_group": (c_int32, (c_void_p, c_void_p)),
    "trunkline_workers_size": (c_int32, (c_void_p, c_void_p)),
    "trunkline_workers_destroy": (c_int32, (c_void_p,)),
    "trunkline_cpu_create": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_cpu_workspace_bytes": (c_int32, (c_void_p, c_void_p, c_int32, c_void_p)),
    "trunkline_cpu_resolve": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t)),
    "trunkline_cpu_run": (c_int32, (c_void_p, c_void_p, c_void_p, c_size_t)),
    "trunkline_cpu_destroy": (c_int32, (c_void_p,)),
    "trunkline_cuda_create": (c_int32, (c_void_p, c_void_p)),
    "trunkline_cuda_supports": (c_int32, (c_void_p, c_void_p)),
    "trunkline_cuda_workspace_bytes": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_cuda_upload": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p)),
    "trunkline_cuda_resolve": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_cuda_run": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_cuda_release": (c_int32, (c_void_p, c_void_p)),
    "trunkline_cuda_destroy": (c_int32, (c_void_p,)),
    "trunkline_cuda_planner_create": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "trunkline_cuda_planner_memory_bytes": (c_int32, (c_void_p, c_void_p)),
    "trunkline_cuda_planner_bind": (c_int32, (c_void_p, c_void_p, c_size_t, c_void_p)),
    "trunkline_cuda_planner_workspace_bytes": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_cuda_plan": (c_int32, (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p)),
    "trunkline_cuda_planner_report": (c_int32, (c_void_p, c_void_p)),
    "trunkline_cuda_planner_destroy": (c_int32, (c_void_p,)),
    "trunkline_merge_states": (c_int32, (c_void_p,)),
    "trunkline_cuda_merge_states": (c_int32, (c_void_p, c_int32, c_void_p)),
    "trunkline_reference_attention": (c_int32, (c_void_p, c_void_p, c_void_p)),
    "trunkline_reference_run_plan": (c_int32, (c_void_p, c_void_p, c_void_p)),
}
