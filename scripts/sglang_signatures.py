#!/usr/bin/env python3
"""Records the classes of an SGLang release that the plug-in builds on: methods with their parameters, fields, members.

    scripts/sglang_signatures.py FOLDER VERSION    # FOLDER holds the package `sglang`: site-packages, or unpacked wheel

Writes tests/sglang/signatures/VERSION.json, which tests/python/test_sglang_signatures.py compares with what the plug-in
needs.
"""

import signatures
from signatures import ALL

ATTENTION = "sglang.srt.layers.attention."
# Classes and functions by module, and the names in a class that are recorded. A name that a release lacks is left out
# of its file.
RECORDED = {
    ATTENTION + "flashattention_backend": {
        "FlashAttentionBackend": (
            *("__init__", "init_cuda_graph_state", "init_forward_metadata", "init_forward_metadata_out_graph"),
            *("init_forward_metadata_capture_cuda_graph", "init_forward_metadata_replay_cuda_graph"),
            *("_compute_scheduler_metadata", "forward_decode", "forward_extend", "get_paged_mha_kv_cache"),
            *("get_cuda_graph_seq_len_fill_value", "forward_metadata", "device", "page_size", "max_context_len"),
            *("decode_cuda_graph_metadata", "target_verify_metadata", "token_to_kv_pool"),
        ),
        "FlashAttentionMetadata": ALL,
    },
    ATTENTION + "base_attn_backend": {"AttentionBackend": ("forward", "forward_decode", "forward_extend")},
    ATTENTION + "attention_registry": {
        "register_attention_backend": ALL,
        "create_flashattention_v3_backend": ALL,
    },
    "sglang.srt.layers.radix_attention": {
        "AttentionType": ALL,
        "RadixAttention": (
            *("tp_q_head_num", "tp_k_head_num", "tp_v_head_num", "head_dim", "v_head_dim", "scaling", "layer_id"),
            *("logit_cap", "sliding_window_size", "is_cross_attention", "use_irope", "attn_type", "k_scale"),
            *("v_scale", "pos_encoding_mode", "xai_temperature_len"),
        ),
    },
    "sglang.srt.mem_cache.memory_pool": {
        "KVWriteLoc": ALL,
        "MHATokenToKVPool": ("set_kv_buffer", "get_kv_buffer"),
        "ReqToTokenPool": ("req_to_token",),
    },
    "sglang.srt.model_executor.forward_batch_info": {
        "ForwardBatch": (
            *("forward_mode", "batch_size", "req_pool_indices", "seq_lens", "out_cache_loc", "spec_info", "rids"),
            *("_attn_output", "token_to_kv_pool"),
        ),
        "ForwardMode": ("is_decode", "is_target_verify"),
    },
    "sglang.srt.model_executor.model_runner": {
        "ModelRunner": (
            *("is_draft_worker", "use_mla_backend", "page_size", "req_to_token_pool", "token_to_kv_pool", "model"),
            *("model_config", "device", "server_args"),
        ),
    },
    "sglang.srt.managers.scheduler": {"Scheduler": ("get_internal_state",)},
    "sglang.srt.plugins.hook_registry": {"HookRegistry": ("register",), "HookType": ALL},
}
# Names that modules have at any place: of the server's arguments, which move between modules.
ARGUMENTS = (
    *("speculative_algorithm", "speculative_num_draft_tokens", "speculative_eagle_topk", "speculative_adaptive"),
    *("enable_deterministic_inference", "dcp_size", "attn_cp_size", "enable_two_batch_overlap", "enable_pdmux"),
    *("enable_torch_compile", "enable_unified_memory", "enable_kv_cache_sharding", "enable_hisparse"),
    *("dllm_algorithm",),
)
EXPORTED = {
    ATTENTION + "attention_registry": ("ATTENTION_BACKENDS",),
    "sglang.srt.server_args": ("ATTENTION_BACKEND_CHOICES", "add_attention_backend_choices", *ARGUMENTS),
    "sglang.srt.arg_groups.field_order": ARGUMENTS,
    "sglang.srt.runtime_context": ("get_context", "resolved_server_args_dict"),
    "sglang.srt.plugins": ("load_plugins", "sglang.srt.plugins"),
}

if __name__ == "__main__":
    signatures.main("sglang", __doc__, RECORDED, EXPORTED)
