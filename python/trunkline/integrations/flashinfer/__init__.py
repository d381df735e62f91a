"""FlashInfer's decode wrappers and merges on Trunkline: change the import, and shared prefixes are read once.

    from trunkline.integrations.flashinfer import BatchDecodeWithPagedKVCacheWrapper

For fp16 and bf16 queries, head sizes 64, 128 and 256, 1 to 64 query heads a KV head, on GPUs of compute capability 8.0
and later, and on the CPU. Caches are of the queries' type, or of fp8 on Hopper GPUs and on the CPU. What is not
supported (windows on a GPU, positional encodings) is an UnsupportedError that says so. Log-sum-exps are of base 2, as
FlashInfer's.

Where `indptr`, `indices` and `last_page_len` are all on the GPU, plans are made there, by policy `trunk`: nothing is
copied to the host, plan() does not wait, and a graph may capture it, after one call before, together with run().
explain() then has nothing to show, and plan_report() tells what the GPU did. CPU tensors are planned on the host, and
so are batches of more than 1024 requests, all with `options`, and cascades: what is on the GPU is copied there, and
plan() waits. With use_cuda_graph the first plan decides.
"""

from .cascade import MultiLevelCascadeAttentionWrapper as MultiLevelCascadeAttentionWrapper
from .decode import BatchDecodeWithPagedKVCacheWrapper as BatchDecodeWithPagedKVCacheWrapper
from .decode import CUDAGraphBatchDecodeWithPagedKVCacheWrapper as CUDAGraphBatchDecodeWithPagedKVCacheWrapper
from .merging import merge_state as merge_state
from .merging import merge_state_in_place as merge_state_in_place
from .merging import merge_states as merge_states
from .merging import variable_length_merge_states as variable_length_merge_states
