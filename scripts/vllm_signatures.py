#!/usr/bin/env python3
"""Records the classes of a vLLM release that the plug-in builds on: methods with their parameters, fields, members.

    scripts/vllm_signatures.py FOLDER VERSION    # FOLDER holds the package `vllm`: site-packages, or an unpacked sdist

Writes tests/vllm/signatures/VERSION.json, which tests/python/test_vllm_signatures.py compares with what the plug-in
needs.
"""

import signatures
from signatures import ALL

# Classes and functions by module, and the names in a class that are recorded: all of them where metadata is made or
# replaced field by field, since a new field may need a value. A name that a release lacks is left out of its file.
RECORDED = {
    "vllm.v1.attention.backends.flash_attn": {
        "FlashAttentionBackend": ("get_name", "get_impl_cls", "get_builder_cls", "get_kv_cache_shape"),
        "FlashAttentionImpl": (
            *("__init__", "forward", "num_heads", "num_kv_heads", "head_size", "kv_cache_dtype", "attn_type", "scale"),
            *("sliding_window", "logits_soft_cap", "alibi_slopes", "sinks"),
        ),
        "FlashAttentionMetadata": ALL,
        "FlashAttentionMetadataBuilder": (
            *("__init__", "build", "build_for_cudagraph_capture", "build_for_drafting", "get_cudagraph_support"),
            *("use_cascade_attention", "update_block_table", "supports_update_block_table"),
        ),
    },
    "vllm.v1.attention.backend": {
        "AttentionCGSupport": ALL,
        "AttentionMetadataBuilder": (
            *("__init__", "build", "build_for_cudagraph_capture", "build_for_drafting", "get_cudagraph_support"),
            *("use_cascade_attention", "_init_reorder_batch_threshold", "reorder_batch_threshold"),
            *("layer_names", "vllm_config", "device", "supports_update_block_table"),
        ),
        "CommonAttentionMetadata": ALL,
    },
    "vllm.v1.attention.backends.registry": {
        "AttentionBackendEnum": ("CUSTOM", "FLASH_ATTN", "get_path", "is_overridden"),
        "register_backend": ALL,
    },
    "vllm.v1.kv_cache_interface": {
        "AttentionSpec": ALL,
        "FullAttentionSpec": ("sliding_window", "attention_chunk_size"),
        "KVCacheSpec": ("block_size",),
    },
    "vllm.config.model": {"ModelConfig": ("dtype",)},
    "vllm.config.vllm": {"get_layers_from_vllm_config": ALL},
    "vllm.config.parallel": {
        "ParallelConfig": (
            *("decode_context_parallel_size", "prefill_context_parallel_size", "enable_dbo", "use_ubatching"),
        ),
    },
    "vllm.config.speculative": {"SpeculativeConfig": ("method", "num_speculative_tokens")},
    "vllm.config.scheduler": {"SchedulerConfig": ("max_num_seqs", "max_num_batched_tokens")},
    "vllm.config.compilation": {
        "CUDAGraphMode": ("has_full_cudagraphs",),
        "CompilationConfig": ("cudagraph_mode", "max_cudagraph_capture_size"),
    },
}
# Names that modules export, wherever they are defined.
EXPORTED = {
    "vllm.config": ("get_layers_from_vllm_config",),
    "vllm.model_executor.layers.attention": ("Attention",),
    "vllm.model_executor.layers.attention.attention": ("_q_scale", "_k_scale", "_v_scale"),
    "vllm.envs": ("VLLM_BATCH_INVARIANT",),
}


if __name__ == "__main__":
    signatures.main("vllm", __doc__, RECORDED, EXPORTED)
