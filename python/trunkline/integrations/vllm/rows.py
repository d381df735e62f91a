"""The decode rows of vLLM's batches, and the batch without them."""

from __future__ import annotations

from typing import Any

from ..engine import leading_decode_rows

# Fields of CommonAttentionMetadata with an entry a request, of which releases have some; the decode context parallel
# ones are left out, as its layers are refused. Tests compare with the recorded signatures.
_PER_REQUEST = (
    *("is_prefilling", "seq_lens_cpu_upper_bound", "_seq_lens_cpu", "_num_computed_tokens_cpu"),
    *("req_idx", "rswa_prefix_lens"),
)
# Results that it keeps of its own rows.
_CACHES = ("_num_computed_tokens_cache", "_token_to_req_indices_cache")


def decode_rows(common: Any, longest: int) -> tuple[int, int]:
    """How many requests at the batch's begin have at most so many query tokens, and how many these have, by what the
    host knows. Padding counts as such requests."""
    if common.causal is not True:
        return 0, 0
    if common.max_query_len <= 1:  # num_actual_tokens may leave padding out (V1 runner), which num_reqs counts
        return int(common.num_reqs), int(common.num_reqs)
    if common.max_query_len <= longest:
        return int(common.num_reqs), int(common.num_actual_tokens)
    return leading_decode_rows(common.query_start_loc_cpu.numpy(), int(common.num_reqs), longest)


def rows_from(common: Any, rows: int) -> Any:
    """The batch without its first rows. Query tokens stay where they are: query_start_loc does not begin at 0."""
    sliced = {name: value[rows:] for name in _PER_REQUEST if (value := getattr(common, name, None)) is not None}
    sliced |= {name: None for name in _CACHES if hasattr(common, name)}
    return common.replace(
        query_start_loc=common.query_start_loc[rows:],
        query_start_loc_cpu=common.query_start_loc_cpu[rows:],
        seq_lens=common.seq_lens[rows:],
        num_reqs=common.num_reqs - rows,
        block_table_tensor=common.block_table_tensor[rows:],
        **sliced,
    )
