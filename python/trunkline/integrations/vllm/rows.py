"""Which rows of a batch are Trunkline's, and the batch without them."""

from __future__ import annotations

from typing import Any


def decode_rows(common: Any) -> int:
    """How many requests at the batch's begin have one query token, by what the host knows."""
    if common.causal is not True or common.mm_req_doc_ranges or getattr(common, "rswa_prefix_lens", None) is not None:
        return 0
    if common.max_query_len <= 1:
        return int(common.num_reqs)
    starts = common.query_start_loc_cpu.numpy()
    longer = (starts[1 : common.num_reqs + 1] - starts[: common.num_reqs]) != 1
    return int(longer.argmax()) if longer.any() else int(common.num_reqs)


def rows_from(common: Any, rows: int) -> Any:
    """The batch without its first rows, of a query token each."""
    host_fields = ("is_prefilling", "seq_lens_cpu_upper_bound", "_seq_lens_cpu", "_num_computed_tokens_cpu")
    sliced = {name: value[rows:] for name in host_fields if (value := getattr(common, name, None)) is not None}
    return common.replace(
        query_start_loc=common.query_start_loc[rows:] - rows,
        query_start_loc_cpu=common.query_start_loc_cpu[rows:] - rows,
        seq_lens=common.seq_lens[rows:],
        num_reqs=common.num_reqs - rows,
        num_actual_tokens=common.num_actual_tokens - rows,
        block_table_tensor=common.block_table_tensor[rows:],
        slot_mapping=common.slot_mapping[rows:],
        **sliced,
    )
