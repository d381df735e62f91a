#!/usr/bin/env python3
"""Records the classes of a vLLM release that the plug-in builds on: methods with their parameters, fields, members.

    scripts/vllm_signatures.py FOLDER VERSION    # FOLDER holds the package `vllm`: site-packages, or an unpacked sdist

Writes tests/vllm/signatures/VERSION.json, which tests/python/test_vllm_signatures.py compares with what the plug-in
needs. Sources are parsed and not imported, so neither torch nor a GPU is needed.
"""

import ast
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Classes and functions by module, and the names in a class that are recorded: all of them where metadata is made or
# replaced field by field, since a new field may need a value. A name that a release lacks is left out of its file.
ALL: tuple[str, ...] = ()
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
    "vllm.envs": ("VLLM_BATCH_INVARIANT",),
}


def parameters(function: ast.FunctionDef) -> list[str]:
    """Names in order; *args and **kwargs with their stars, keyword-only names behind a lone star."""
    found = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if function.args.vararg is not None:
        found.append("*" + function.args.vararg.arg)
    elif function.args.kwonlyargs:
        found.append("*")
    found += [argument.arg for argument in function.args.kwonlyargs]
    if function.args.kwarg is not None:
        found.append("**" + function.args.kwarg.arg)
    return found


def assigned_to_self(function: ast.FunctionDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def class_entry(node: ast.ClassDef, names: tuple[str, ...]) -> dict[str, object]:
    """bases; fields: annotated names, True where they have a default; members: other assigned names; methods;
    attributes: what __init__ assigns to self."""
    fields, members, methods, attributes = {}, set(), {}, set()
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            fields[statement.target.id] = statement.value is not None
        elif isinstance(statement, ast.Assign):
            members |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.FunctionDef):
            methods[statement.name] = parameters(statement)
            if statement.name == "__init__":
                attributes = assigned_to_self(statement)
    bases = [ast.unparse(base).split("[")[0] for base in node.bases]
    kept = {name for name in (*fields, *members, *methods, *attributes) if names == ALL or name in names}
    return {
        "bases": " ".join(bases),
        "fields": {name: has_default for name, has_default in fields.items() if name in kept},
        "members": " ".join(sorted(members & kept)),
        "methods": {name: " ".join(found) for name, found in methods.items() if name in kept},
        "attributes": " ".join(sorted(attributes & kept)),
    }


def source_of(folder: pathlib.Path, module: str) -> ast.Module | None:
    base = folder.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return ast.parse(path.read_text())
    return None


def names_in(tree: ast.Module) -> set[str]:
    """Names that a module's source has at any place: imported, assigned, defined, or in a string of exports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def record(folder: pathlib.Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for module, names in RECORDED.items():
        tree = source_of(folder, module)
        for node in tree.body if tree is not None else ():
            if isinstance(node, ast.ClassDef) and node.name in names:
                found[f"{module}.{node.name}"] = class_entry(node, names[node.name])
            elif isinstance(node, ast.FunctionDef) and node.name in names:
                found[f"{module}.{node.name}"] = {"parameters": " ".join(parameters(node))}
    exports = {}
    for module, names in EXPORTED.items():
        tree = source_of(folder, module)
        present = names_in(tree) if tree is not None else set()
        exports[module] = [name for name in names if name in present]
    return {**found, "exports": exports}


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, version = pathlib.Path(sys.argv[1]), sys.argv[2]
    if not (folder / "vllm").is_dir():
        sys.exit(f"{folder} holds no folder vllm")
    path = ROOT / "tests/vllm/signatures" / f"{version}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record(folder), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
