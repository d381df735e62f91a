"""An attention backend by vLLM's interface, without vLLM."""

import types


class Builder:
    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        self.kv_cache_spec, self.layer_names, self.device = kv_cache_spec, layer_names, device

    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):
        return types.SimpleNamespace(value=2, name="UNIFORM_BATCH")


class EagerBuilder(Builder):
    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):
        return types.SimpleNamespace(value=0, name="NEVER")


class Implementation:
    def __init__(self, *arguments):
        self.arguments = arguments


class Backend:
    forward_includes_kv_cache_update = False
    builder = Builder

    @staticmethod
    def get_kv_cache_shape(pages, page, heads, head_size):
        return (pages, heads, page, 2 * head_size)

    @classmethod
    def get_builder_cls(cls):
        return cls.builder

    @staticmethod
    def get_impl_cls():
        return Implementation


class EagerBackend(Backend):
    builder = EagerBuilder


class SplitBackend(Backend):
    """Keys and values apart."""

    @staticmethod
    def get_kv_cache_shape(pages, page, heads, head_size):
        return (2, pages, page, heads, head_size)
