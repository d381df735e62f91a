"""Another attention backend in an engine that runs Trunkline, so that both take turns in one process.

A backend is a class of vLLM's interface, named MODULE:CLASS; its module is looked for beside the programs here, too. It
gets builders and implementations of its own for the layers that are there, and the KV cache that is there: its layout
must be the one that Trunkline's backend has, which is FlashAttention's.
"""

import importlib
import pathlib
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE_SHAPE = (7, 16, 8, 128)  # pages, tokens of a page, KV heads, head size: backends are compared by what they make


def backend_of(name: str) -> Any:
    """The class of MODULE:CLASS; ValueError where the name is none, ImportError where there is no such class."""
    module, colon, kind = name.partition(":")
    if not (module and colon and kind):
        raise ValueError(f"rival {name!r} is not MODULE:CLASS, such as my_package.backend:MyBackend")
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    found = getattr(importlib.import_module(module), kind, None)
    if found is None:
        raise ImportError(f"rival {name!r}: module {module} has no {kind}")
    return found


def layout_of(backend: Any) -> dict:
    """The properties of a backend that determine the KV cache's memory and who writes it."""
    stride_order = getattr(backend, "get_kv_cache_stride_order", None)
    return {
        "shape": tuple(backend.get_kv_cache_shape(*SAMPLE_SHAPE)),
        "stride order": tuple(stride_order()) if stride_order else None,
        "forward writes keys and values": getattr(backend, "forward_includes_kv_cache_update", True),
    }


def require_layout(rival: Any, present: Any) -> None:
    """Raises ValueError, with each difference, where the rival needs another KV cache."""
    theirs, ours = layout_of(rival), layout_of(present)
    wrong = [f"{what} {theirs[what]}, supported is {ours[what]}" for what in ours if theirs[what] != ours[what]]
    if wrong:
        raise ValueError(f"rival {rival.__name__} needs another KV cache: {'; '.join(wrong)}")


def require_graphs(builder: Any, vllm_config: Any, kv_cache_spec: Any) -> None:
    """Raises ValueError for a builder whose decode steps cannot be captured: all sides replay graphs."""
    support = builder.get_cudagraph_support(vllm_config, kv_cache_spec)
    if support.value < 1:
        raise ValueError(f"rival's {builder.__name__} supports graphs of {support.name}; decode steps are needed")


def implementation_of(backend: Any, present: Any) -> Any:
    """Makes the rival's implementation for a layer that has `present`; ValueError where the layer has a property that
    the constructor takes and the layer does not keep."""
    special = {
        "ALiBi slopes": present.alibi_slopes is not None,
        "a sliding window": tuple(present.sliding_window) != (-1, -1),
        "a soft cap of logits": bool(present.logits_soft_cap),
        "attention sinks": getattr(present, "sinks", None) is not None,
    }
    found = [what for what, is_there in special.items() if is_there]
    if found:
        raise ValueError(f"a rival is not run in layers with {', '.join(found)}")
    return backend.get_impl_cls()(
        present.num_heads,
        present.head_size,
        present.scale,
        present.num_kv_heads,
        None,
        None,
        present.kv_cache_dtype,
        None,
        present.attn_type,
        present.kv_sharing_target_layer_name,
    )


class Rival:
    """A second set of builders and implementations. It is made after the engine's start, because memory that is
    allocated during the start belongs to the pools that sleep frees."""

    def __init__(self, name: str, groups: list, vllm_config: Any):
        backend = backend_of(name)
        self.groups, self.builders, self.layers = groups, [], []
        layers = vllm_config.compilation_config.static_forward_context
        for group in groups:
            require_layout(backend, group.backend)
            present = group.get_metadata_builder(0)
            require_graphs(backend.get_builder_cls(), vllm_config, present.kv_cache_spec)
            made = backend.get_builder_cls()(present.kv_cache_spec, present.layer_names, vllm_config, present.device)
            self.builders.append((present, made))
            for layer in (layers[name] for name in group.layer_names):
                self.layers.append((layer, layer.impl, implementation_of(backend, layer.impl)))

    def install(self, is_rival: bool) -> None:
        """Gives the next steps to the rival, or back to the backend that was there before."""
        for group, pair in zip(self.groups, self.builders, strict=True):
            group.metadata_builders[0] = pair[is_rival]
        for layer, present, made in self.layers:
            layer.impl = made if is_rival else present
