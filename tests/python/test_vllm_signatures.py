"""Compares the vLLM interface that the plug-in needs with the signatures of releases (scripts/vllm_signatures.py)."""

import ast
import importlib.util
import pathlib

import pytest
import recorded
from recorded import has
from trunkline.integrations.vllm import rows, versions

RECORDED = recorded.releases("vllm")
FLASH, BACKEND = "vllm.v1.attention.backends.flash_attn.", "vllm.v1.attention.backend."


@pytest.fixture(params=RECORDED)
def release(request):
    return RECORDED[request.param]


def test_every_supported_release_is_recorded():
    found = {versions.release(version) for version in RECORDED}
    first, last = versions.RELEASES.first, versions.RELEASES.last
    assert found == {(0, minor) for minor in range(first[1], last[1] + 1)}


def test_names_to_import(release):
    assert all(release["exports"].values())
    members = release["vllm.v1.attention.backends.registry.AttentionBackendEnum"]
    assert {"CUSTOM", "FLASH_ATTN"} <= set(members["members"].split())
    assert {"get_path", "is_overridden"} <= set(members["methods"])
    parameters = release["vllm.v1.attention.backends.registry.register_backend"]["parameters"].split()
    assert parameters[:2] == ["backend", "class_path"]
    parameters = release["vllm.config.vllm.get_layers_from_vllm_config"]["parameters"].split()
    assert parameters == ["vllm_config", "layer_type", "layer_names"]


def test_scales_of_layers(release):
    assert release["exports"]["vllm.model_executor.layers.attention.attention"] == ["_q_scale", "_k_scale", "_v_scale"]


def test_the_backend(release):
    methods = release[FLASH + "FlashAttentionBackend"]["methods"]
    assert {"get_name", "get_impl_cls", "get_builder_cls"} <= set(methods)


def test_the_builder(release):
    own, base = release[FLASH + "FlashAttentionMetadataBuilder"], release[BACKEND + "AttentionMetadataBuilder"]
    assert own["bases"] == "AttentionMetadataBuilder"
    assert own["methods"]["__init__"] == "self kv_cache_spec layer_names vllm_config device"
    methods = base["methods"] | own["methods"]
    assert methods["build"] == "self common_prefix_len common_attn_metadata fast_build"
    assert methods["build_for_cudagraph_capture"] == "self common_attn_metadata"
    assert methods["build_for_drafting"] == "self common_attn_metadata draft_index"
    assert methods["get_cudagraph_support"].split()[:3] == ["cls", "vllm_config", "kv_cache_spec"]
    names = methods["_init_reorder_batch_threshold"].split()
    assert names[:3] == ["self", "reorder_batch_threshold", "supports_spec_as_decode"]
    assert all(has(base, name) or has(own, name) for name in ("vllm_config", "layer_names", "device"))
    assert "supports_update_block_table" in base["fields"] or "supports_update_block_table" in own["fields"]
    members = release[BACKEND + "AttentionCGSupport"]["members"].split()
    assert {"UNIFORM_BATCH", "ALWAYS", "NEVER"} <= set(members)


def test_the_implementation(release):
    entry = release[FLASH + "FlashAttentionImpl"]
    names = entry["methods"]["forward"].split()
    assert names[:8] == ["self", "layer", "query", "key", "value", "kv_cache", "attn_metadata", "output"]
    asked = {
        *("num_heads", "num_kv_heads", "head_size", "kv_cache_dtype", "attn_type", "scale", "sliding_window"),
        *("logits_soft_cap", "alibi_slopes", "sinks"),
    }
    assert asked <= set(entry["attributes"].split())


def made_by_the_builder():
    """The fields of the parent's metadata that the builder names: keywords of its call, and _NO_CASCADE's."""
    spec = importlib.util.find_spec("trunkline.integrations.vllm.builder")
    tree = ast.parse(pathlib.Path(spec.origin).read_text())
    [call] = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "TrunklineMetadata"
    )
    given = {keyword.arg for keyword in call.keywords if keyword.arg}
    [table] = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "_NO_CASCADE"
    )
    optional = {
        node.value for node in ast.walk(table) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return given - {"steps", "decode_tokens", "rest", "theirs"}, optional


def test_the_metadata(release):
    """Each required field gets a value, and nothing is passed that a release lacks."""
    fields = release[FLASH + "FlashAttentionMetadata"]["fields"]
    given, optional = made_by_the_builder()
    required = {name for name, has_default in fields.items() if not has_default}
    assert given <= set(fields)
    assert required <= given | optional


# Fields of CommonAttentionMetadata that rows_from() replaces by name, and those that it keeps: they belong to the whole
# step, to query tokens, to logits, or to layers that are refused.
REPLACED = {
    *("query_start_loc", "query_start_loc_cpu", "seq_lens", "num_reqs", "block_table_tensor"),
}
KEPT = {
    *("num_actual_tokens", "max_query_len", "max_seq_len", "slot_mapping", "causal", "positions"),
    *("logits_indices_padded", "num_logits_indices", "max_logits_per_req", "mm_req_doc_ranges"),
    *("encoder_seq_lens", "encoder_seq_lens_cpu", "replayssm_decode_base_cpu"),
    *("dcp_local_seq_lens", "dcp_local_seq_lens_cpu", "dcp_local_seq_lens_cpu_upper_bound"),
}


def test_the_rows_behind_ours(release):
    """Each field of a batch is known: a new one with an entry a request must be sliced."""
    entry = release[BACKEND + "CommonAttentionMetadata"]
    assert "replace" in entry["methods"]
    assert set(entry["fields"]) >= REPLACED
    assert set(entry["fields"]) <= REPLACED | KEPT | set(rows._PER_REQUEST) | set(rows._CACHES)


def test_the_configuration(release):
    spec = release["vllm.v1.kv_cache_interface.KVCacheSpec"]["fields"]
    spec = spec | release["vllm.v1.kv_cache_interface.AttentionSpec"]["fields"]
    assert {"block_size", "dtype"} <= set(spec)
    assert "dtype" in release["vllm.config.model.ModelConfig"]["fields"]
    assert "decode_context_parallel_size" in release["vllm.config.parallel.ParallelConfig"]["fields"]
    assert {"method", "num_speculative_tokens"} <= set(release["vllm.config.speculative.SpeculativeConfig"]["fields"])
    scheduler = release["vllm.config.scheduler.SchedulerConfig"]["fields"]
    assert {"max_num_seqs", "max_num_batched_tokens"} <= set(scheduler)
    compilation = release["vllm.config.compilation.CompilationConfig"]["fields"]
    assert {"cudagraph_mode", "max_cudagraph_capture_size"} <= set(compilation)
    assert "has_full_cudagraphs" in release["vllm.config.compilation.CUDAGraphMode"]["methods"]
