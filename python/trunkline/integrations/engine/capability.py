"""Whether Trunkline runs a group of layers, decided before the first step: None, or the reason by name."""

from __future__ import annotations

from dataclasses import dataclass

from ... import Support, errors
from ... import supports as supports_shape

MAX_GROUP_SIZE = 64  # query heads a KV head, in all kernels
DTYPES = {"cuda": ("float16", "bfloat16"), "cpu": ("float16", "bfloat16", "float32")}
# Types of K and V that queries do not have, by engines' words. By "fp8" vLLM means e4m3.
NARROW_DTYPES = {
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
}
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}

# Features that engines have under one meaning. A feature of a single engine is named by its adapter.
SLIDING_WINDOW = "a sliding window"
CHUNKED_ATTENTION = "chunked local attention"
SOFT_CAP = "a soft cap of logits"
ALIBI = "ALiBi"
SINKS = "attention sinks"
CONTEXT_PARALLELISM = "context parallelism"

SUPPORTED_FEATURES = frozenset({SOFT_CAP, SINKS})


@dataclass(frozen=True)
class LayerFacts:
    """Layers that share a page table and ask the same of attention: the query for `refusal`. One feature refuses them
    all, so layers with different features are a group each.

    Heads are those of one rank. page_size is in tokens, as the page table that the kernel reads has it. dtype is that
    of Q and of outputs; kv_cache_dtype is the engine's word for the type of K and V: "auto" or dtype for the same, or a
    word of NARROW_DTYPES for one of 8 bits; any other is refused. attention_type: "decoder" for causal self-attention;
    any other word, as an engine has for encoders and cross attention, is refused. uniform: the layers agree in heads,
    head size and cache. features: names of all that the layers or the engine ask of attention beside causal softmax, of
    SLIDING_WINDOW and its like or free words; a cache that has no K and V for each head, as MLA's, is such a feature.
    longest_query: the most query tokens of a decode row, drafts included. speculative: the engine's name of its
    drafting method; draft_methods: the methods whose drafting changes no length that a plan was made for. device: the
    kind, "cuda" or "cpu"; which of the GPUs, the array library says. max_group_size: the most query heads a KV head
    that the adapter takes.
    """

    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    page_size: int
    dtype: str
    kv_cache_dtype: str = "auto"
    attention_type: str = "decoder"
    uniform: bool = True
    features: tuple[str, ...] = ()
    longest_query: int = 1
    speculative: str | None = None
    draft_methods: tuple[str, ...] = ()
    device: str = "cuda"
    max_group_size: int = MAX_GROUP_SIZE

    def __post_init__(self) -> None:
        if self.device not in DTYPES:
            raise errors.InvalidArgumentError(
                f"device is {str(self.device)!r}; expected: 'cuda' or 'cpu', without an index, which TorchArrays takes"
            )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The arguments that DecodeAttention begins with."""
        return self.num_qo_heads, self.num_kv_heads, self.head_dim, self.page_size

    @property
    def kv_dtype(self) -> str:
        """The type of K and V, of facts that are not refused."""
        return NARROW_DTYPES.get(self.kv_cache_dtype, self.dtype)

    @property
    def is_narrow(self) -> bool:
        """Whether K and V have another type than queries, and so scales."""
        return self.kv_dtype != self.dtype

    @property
    def kv_bytes_per_token(self) -> int:
        """K and V of one token in one layer."""
        return 2 * self.num_kv_heads * self.head_dim * BYTES[self.kv_dtype]


def refusal(facts: LayerFacts) -> str | None:
    """The reason why the engine keeps these layers, or None. It reads facts alone and touches no device; whether a
    kernel has the head and page size, `supports` says, or DecodeAttention when it is made."""
    if not facts.uniform:
        return "its layers differ in heads, head size or cache"
    if facts.attention_type != "decoder":
        return f"attention of type {facts.attention_type}; supported: decoder"
    dtypes = DTYPES[facts.device]
    if facts.dtype not in dtypes:
        return f"queries of {facts.dtype}; supported: {', '.join(dtypes)}"
    kv_cache_dtypes = "auto", facts.dtype, *NARROW_DTYPES
    if facts.kv_cache_dtype not in kv_cache_dtypes:
        return f"kv_cache_dtype {facts.kv_cache_dtype}; supported: {', '.join(kv_cache_dtypes)}"
    for feature in facts.features:
        if feature not in SUPPORTED_FEATURES:
            return f"{feature} is not supported yet"
    if facts.speculative is not None and facts.speculative not in facts.draft_methods:
        # A draft model changes lengths between its own steps, at times with the target's metadata: plans would be old.
        methods = ", ".join(facts.draft_methods) or "none"
        return f"speculative decoding by {facts.speculative}; supported: {methods}"
    largest = facts.max_group_size
    if facts.num_qo_heads % facts.num_kv_heads or facts.num_qo_heads > largest * facts.num_kv_heads:
        return f"{facts.num_qo_heads} query heads on {facts.num_kv_heads} KV heads; supported: 1 to {largest} each"
    return None


def supports(facts: LayerFacts) -> Support:
    """`refusal`, then whether a kernel of this build runs the shape. On a GPU it uses the device."""
    reason = refusal(facts)
    if reason is not None:
        return Support(False, reason)
    return supports_shape(*facts.shape, dtype=facts.dtype, device=facts.device, kv_dtype=facts.kv_dtype)
