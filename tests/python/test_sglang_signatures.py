"""Compares the SGLang interface that the plug-in needs with signatures of releases (scripts/sglang_signatures.py)."""

import ast
import importlib.util
import pathlib

import pytest
import recorded
from recorded import has
from trunkline.integrations.sglang import registration, versions

RECORDED = recorded.releases("sglang")
ATTENTION, MODEL = "sglang.srt.layers.attention.", "sglang.srt.model_executor."
FLASH = ATTENTION + "flashattention_backend."
OLD = "init_forward_metadata_capture_cuda_graph"  # a hook that newer releases have no more


@pytest.fixture(params=RECORDED)
def release(request):
    return RECORDED[request.param]


def backend(release):
    return release[FLASH + "FlashAttentionBackend"]


def test_every_supported_release_is_recorded():
    assert {versions.RELEASES.of(version) for version in RECORDED} == set(versions.RELEASES.only)


def test_names_to_import(release):
    names = release["exports"]
    assert names[ATTENTION + "attention_registry"] == ["ATTENTION_BACKENDS"]
    assert {"ATTENTION_BACKEND_CHOICES", "add_attention_backend_choices"} <= set(names["sglang.srt.server_args"])
    assert names["sglang.srt.plugins"] == ["load_plugins", "sglang.srt.plugins"]
    assert release[ATTENTION + "attention_registry.create_flashattention_v3_backend"]["parameters"] == "runner"
    assert registration._REGISTRY == ATTENTION + "attention_registry"


def test_the_hook_of_statistics(release):
    module, _, method = registration._STATE.rpartition(".")
    assert release[module]["methods"][method] == "self recv_req"
    register = release["sglang.srt.plugins.hook_registry.HookRegistry"]["methods"]["register"]
    assert register.split()[:4] == ["cls", "target", "hook", "hook_type"]
    assert "AFTER" in release["sglang.srt.plugins.hook_registry.HookType"]["members"].split()


def test_the_backends_hooks(release):
    """One pair of hooks around graphs or the other, with the parameters that ours have."""
    methods = backend(release)["methods"]
    assert methods["__init__"].split()[:2] == ["self", "model_runner"]
    assert methods["init_cuda_graph_state"] == "self max_bs max_num_tokens"
    assert methods["init_forward_metadata"] == "self forward_batch"
    if OLD in methods:
        asked = "self bs num_tokens req_pool_indices seq_lens encoder_lens forward_mode spec_info"
        assert methods[OLD] == asked
        replay = methods["init_forward_metadata_replay_cuda_graph"]
        assert replay.startswith("self bs req_pool_indices seq_lens seq_lens_sum encoder_lens forward_mode spec_info")
    else:
        assert methods["init_forward_metadata_out_graph"] == "self forward_batch in_capture"
    assert has(backend(release), "_compute_scheduler_metadata")
    for name in ("forward_decode", "forward_extend"):
        names = methods[name].split()
        assert names[:7] == ["self", "q", "k", "v", "layer", "forward_batch", "save_kv_cache"]


def test_what_the_backend_holds(release):
    entry = backend(release)
    asked = "forward_metadata device page_size max_context_len decode_cuda_graph_metadata target_verify_metadata"
    assert set(asked.split()) <= set(entry["attributes"].split())
    metadata = release[FLASH + "FlashAttentionMetadata"]["fields"]
    assert {"page_table", "cache_seqlens_int32"} <= set(metadata)


def test_the_padding_of_graphs(release):
    """Rows of padding have a length of 1 and lie in slot 0: the backend keeps its parent's value."""
    assert has(backend(release), "get_cuda_graph_seq_len_fill_value")
    spec = importlib.util.find_spec("trunkline.integrations.sglang.backend")
    tree = ast.parse(pathlib.Path(spec.origin).read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert "get_cuda_graph_seq_len_fill_value" not in own


def test_where_keys_are_written(release):
    place = release.get("sglang.srt.mem_cache.memory_pool.KVWriteLoc")
    pool = release["sglang.srt.mem_cache.memory_pool.MHATokenToKVPool"]["methods"]
    assert pool["get_kv_buffer"] == "self layer_id"
    parameters = pool["set_kv_buffer"].split()
    assert parameters[3:7] == ["cache_k", "cache_v", "k_scale", "v_scale"]
    if place is None:
        assert parameters[2] == "loc" and has(release[MODEL + "forward_batch_info.ForwardBatch"], "token_to_kv_pool")
    else:
        assert parameters[2] == "loc_info" and "loc" in place["fields"]
        assert has(backend(release), "token_to_kv_pool")
        for_layer = place["methods"].get("for_layer")
        assert for_layer is None or for_layer.startswith("cls forward_batch layer")


def test_layers(release):
    asked = (
        "tp_q_head_num tp_k_head_num tp_v_head_num head_dim v_head_dim scaling layer_id logit_cap sliding_window_size "
        "is_cross_attention attn_type k_scale v_scale"
    )
    found = release["sglang.srt.layers.radix_attention.RadixAttention"]["attributes"].split()
    assert set(asked.split()) <= set(found)
    assert "DECODER" in release["sglang.srt.layers.radix_attention.AttentionType"]["members"].split()


def test_batches(release):
    batch = release[MODEL + "forward_batch_info.ForwardBatch"]["fields"]
    assert {"forward_mode", "batch_size", "spec_info", "out_cache_loc", "rids"} <= set(batch)
    mode = release[MODEL + "forward_batch_info.ForwardMode"]["methods"]
    assert {"is_decode", "is_target_verify"} <= set(mode)


def test_the_model_runner(release):
    found = release[MODEL + "model_runner.ModelRunner"]["attributes"].split()
    assert {"is_draft_worker", "use_mla_backend", "page_size", "model_config", "device", "server_args"} <= set(found)


def test_the_servers_arguments(release):
    """Those that tell of a way of attention that is not ours must be named as the plug-in asks for them."""
    names = release["exports"]
    given = {*names["sglang.srt.server_args"], *names["sglang.srt.arg_groups.field_order"]}
    everywhere = (
        "speculative_algorithm speculative_num_draft_tokens speculative_eagle_topk enable_deterministic_inference "
        "enable_two_batch_overlap enable_pdmux enable_torch_compile enable_hisparse dllm_algorithm attn_cp_size"
    )
    assert set(everywhere.split()) <= given
    has_context = names["sglang.srt.runtime_context"] == ["get_context", "resolved_server_args_dict"]
    assert has_context == (OLD not in backend(release)["methods"])
