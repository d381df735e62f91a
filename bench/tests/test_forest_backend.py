"""The port of Forest Cascade Attention as vLLM calls it, with as much of vLLM as it touches, on the CPU."""

import dataclasses
import enum
import importlib
import os
import pathlib
import sys
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench/vllm"), str(ROOT / "bench/tests")]
try:
    import torch
except ImportError:
    if __name__ == "__main__":
        sys.exit(77)  # skipped, to ctest
    raise unittest.SkipTest("torch is not installed") from None

from forest_kernels import TorchKernels, attend_rows, plain_attention  # noqa: E402

torch.set_num_threads(1)
PAGE, HEADS, KV_HEADS, DIM = 4, 4, 2, 8


class AttentionCGSupport(enum.Enum):
    NEVER = 0
    ALWAYS = 3


@dataclasses.dataclass
class FlashAttentionMetadata:
    num_actual_tokens: int
    max_query_len: int
    query_start_loc: object
    max_seq_len: int
    seq_lens: object
    block_table: object
    slot_mapping: object
    use_cascade: bool  # as in 0.26
    common_prefix_len: int
    cu_prefix_query_lens: object
    prefix_kv_lens: object
    suffix_kv_lens: object
    causal: bool = True


class FlashAttentionMetadataBuilder:
    dcp_world_size, aot_schedule, num_heads_q, num_heads_kv, headdim = 1, True, HEADS, KV_HEADS, DIM
    kv_cache_dtype, block_size = torch.float64, PAGE
    cache_config = types.SimpleNamespace(cache_dtype="auto")

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        self.layer_names, self.vllm_config, self.device = layer_names, vllm_config, device

    def build(self, common_prefix_len, common, fast_build=False):
        return FlashAttentionMetadata(
            common.num_actual_tokens, common.max_query_len, common.query_start_loc, common.max_seq_len,
            common.seq_lens, common.block_table_tensor, None, False, 0, None, None, None,
        )  # fmt: skip

    def build_for_cudagraph_capture(self, common):
        return self.build(0, common)


class FlashAttentionImpl:
    attn_type, sliding_window, alibi_slopes, sinks = "decoder", (-1, -1), None, None
    num_kv_heads, head_size, scale, logits_soft_cap = KV_HEADS, DIM, 0.3, 0
    kv_cache_dtype, vllm_flash_attn_version, supports_quant_query_input = "auto", 3, True

    def forward(self, layer, query, key, value, kv_cache, found, output, *args, **kwargs):
        """Computes decode steps alone."""
        rows = found.num_actual_tokens
        output[:rows] = plain_attention(query[:rows], kv_cache, found.block_table[:rows], found.seq_lens, self.scale)
        return output


def flash_attn_varlen_func(**given):
    """FlashAttention 3 with a page table. It was scheduled for the same call, or not ahead of time."""
    made = given["scheduler_metadata"]
    same = ("max_seqlen_q", "max_seqlen_k", "num_splits", "causal", "cu_seqlens_q")
    assert made["batch_size"] == len(given["seqused_k"]) == len(given["block_table"])
    assert all(made[name] is given[name] for name in same if torch.is_tensor(made[name])), made
    assert all(made[name] == given[name] for name in same if not torch.is_tensor(made[name])), made
    assert made["cache_seqlens"] is given["seqused_k"] and made["page_size"] == given["k"].shape[1]
    assert given["return_softmax_lse"] and given["fa_version"] == 3 and given["q_descale"] is None
    starts, parts = given["cu_seqlens_q"].tolist(), []
    cache = torch.cat([given["k"], given["v"]], dim=-1).transpose(1, 2)
    for i, tokens in enumerate(given["seqused_k"].tolist()):
        assert starts[i + 1] - starts[i] <= given["max_seqlen_q"] and tokens <= given["max_seqlen_k"]
        queries = given["q"][starts[i] : starts[i + 1]]
        parts.append(attend_rows(queries, cache, given["block_table"][i], tokens, given["softmax_scale"]))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts], dim=1)


def merge_attn_states(output, prefix, prefix_lse, suffix, suffix_lse):
    TorchKernels(None, 1.0).merge(output, (prefix, prefix_lse), (suffix, suffix_lse))


class Registry(enum.Enum):
    CUSTOM = "custom"

    def is_overridden(self):
        return bool(self.paths_of())

    def get_path(self):
        return self.paths_of()[0]

    def paths_of(self):
        return [path for member, path in registered if member is self][-1:]


registered: list[tuple] = []
layers: dict = {}
log: list[str] = []


def modules() -> dict[str, dict]:
    logger = types.SimpleNamespace(warning=lambda text, *a: log.append(text % a), info=lambda text, *a: None)
    flash = (FlashAttentionMetadata, FlashAttentionMetadataBuilder, FlashAttentionImpl)
    return {
        "vllm.envs": {"VLLM_BATCH_INVARIANT": False},
        "vllm.config": {"get_layers_from_vllm_config": lambda config, kind, names: {n: layers[n] for n in names}},
        "vllm.logger": {"init_logger": lambda name: logger},
        "vllm.model_executor.layers.attention": {"Attention": object},
        "vllm.platforms": {"current_platform": None},
        "vllm.utils.torch_utils": {"canonicalize_singleton_dim_strides": lambda tensor: tensor},
        "vllm.v1.attention.backend": {"AttentionCGSupport": AttentionCGSupport},
        "vllm.v1.attention.backends.fa_utils": {
            "flash_attn_varlen_func": flash_attn_varlen_func,
            "get_scheduler_metadata": lambda **given: given,
            "get_flash_attn_version": lambda: 3,
        },
        "vllm.v1.attention.backends.flash_attn": {
            "FlashAttentionBackend": type("FlashAttentionBackend", (), {}),
            **{kind.__name__: kind for kind in flash},
        },
        "vllm.v1.attention.backends.registry": {
            "AttentionBackendEnum": Registry,
            "register_backend": lambda member, path: registered.append((member, path)),
        },
        "vllm.v1.attention.ops.merge_attn_states": {"merge_attn_states": merge_attn_states},
        "vllm.v1.kv_cache_interface": {"is_quantized_kv_cache": lambda dtype: dtype.startswith("fp8")},
    }


class Rows:
    """A batch of requests of two prompts, in the order 0, 1, 0, 1, ... Their keys and values are random."""

    def __init__(self, rows: int, shared_pages: int = 6):
        generator = torch.Generator().manual_seed(rows)
        self.table = 1 + torch.arange(rows * 16, dtype=torch.int32).reshape(rows, 16)
        for prompt in (0, 1):
            self.table[prompt::2, :shared_pages] = self.table[prompt, :shared_pages].clone()
        self.lengths = torch.arange(rows, dtype=torch.int32) % 5 + shared_pages * PAGE + 1
        shape = rows * 16 + 1, KV_HEADS, PAGE, 2 * DIM
        self.cache = torch.randn(shape, generator=generator, dtype=torch.float64)
        self.generator = generator

    def keep(self, rows: list[int]) -> None:
        self.table, self.lengths = self.table[rows], self.lengths[rows]

    def common(self, max_query_len: int = 1, padding: int = 0):
        """padding: query tokens behind the rows."""
        rows = len(self.lengths)
        return types.SimpleNamespace(
            num_reqs=rows, num_actual_tokens=rows + padding, max_query_len=max_query_len, causal=True,
            query_start_loc=torch.arange(rows + 1, dtype=torch.int32), seq_lens=self.lengths,
            seq_lens_cpu_upper_bound=self.lengths.clone(), max_seq_len=64, block_table_tensor=self.table,
            slot_mapping=None,
        )  # fmt: skip


class BackendTest(unittest.TestCase):
    def setUp(self):
        registered.clear()
        log.clear()
        made = {}
        for name, content in modules().items():
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                made.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
            vars(made[name]).update(content)
        for name, module in made.items():
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(made[parent], child, module)
        environment = {"FOREST_CASCADE": '{"min_saved_bytes": 0}'}
        for patch in (unittest.mock.patch.dict(sys.modules, made), unittest.mock.patch.dict(os.environ, environment)):
            patch.start()
            self.addCleanup(patch.stop)
        for name in ("forest_cascade.backend", "forest_cascade.flash"):  # imported anew, with these base classes
            sys.modules.pop(name, None)
            self.addCleanup(sys.modules.pop, name, None)
        self.backend = importlib.import_module("forest_cascade.backend")
        self.impl = self.backend.ForestCascadeImpl()
        layers["a"] = types.SimpleNamespace(impl=self.impl)
        self.builder = self.make_builder()

    def make_builder(self):
        return self.backend.ForestCascadeBackend.get_builder_cls()(None, ["a"], None, "cpu")

    def decode(self, batch: Rows, padding: int = 0):
        """Runs a step, checks its results, and returns its metadata; the batch is a token longer then."""
        rows = len(batch.lengths)
        metadata = self.builder.build(0, batch.common(padding=padding))
        query = torch.randn((rows + padding, HEADS, DIM), generator=batch.generator, dtype=torch.float64)
        output = torch.zeros_like(query)
        if padding == 0 or getattr(metadata, "forest", None):
            self.impl.forward(None, query, None, None, batch.cache, metadata, output)
            expected = plain_attention(query[:rows], batch.cache, batch.table, batch.lengths, 0.3)
            torch.testing.assert_close(output[:rows], expected, rtol=1e-12, atol=1e-12)
        batch.lengths = batch.lengths + 1
        return metadata

    def forest(self, metadata):
        return getattr(metadata, "forest", None)

    def test_decode_steps_are_grouped_and_right(self):
        batch = Rows(12)
        for padding in (0, 4, 0):
            step = self.forest(self.decode(batch, padding))
            self.assertEqual(step.prefix_lens.tolist(), [24, 24])
            self.assertEqual(step.max_prefix_queries, 6)
            self.assertEqual((step.rows, step.suffix_splits), (12, 1))
        batch.keep([0, 1, 2, 4, 5, 6, 7, 8, 9, 10])
        self.assertEqual(self.forest(self.decode(batch)).prefix_starts.tolist(), [0, 6, 10])
        batch.keep([0, 1, 2, 3, 4, 5, 6])
        self.assertIsNone(self.forest(self.decode(batch)))
        self.assertEqual(self.backend.counters, {"forest": 4, "parent": 1})

    def test_long_suffixes_may_be_split(self):
        with unittest.mock.patch.dict(os.environ, {"FOREST_CASCADE": '{"min_saved_bytes": 0, "unsplit_tokens": 2}'}):
            self.builder = self.make_builder()
        self.assertEqual(self.forest(self.decode(Rows(12))).suffix_splits, 0)

    def test_prefill_mixed_and_drafting_steps_are_the_parents(self):
        batch = Rows(12)
        self.assertIsNone(self.forest(self.builder.build(0, batch.common(max_query_len=3))))
        self.assertIsNone(self.forest(self.builder.build(0, batch.common(), True)))
        self.assertIsNone(self.forest(self.builder.build_for_drafting(batch.common(), 1)))
        common = batch.common()
        common.causal = False
        self.assertIsNone(self.forest(self.builder.build(0, common)))
        common.causal, common.seq_lens_cpu_upper_bound = True, None
        self.assertIsNone(self.forest(self.builder.build(0, common)))
        self.assertIsNotNone(self.forest(self.decode(batch)))

    def test_captures_are_not_observed(self):
        batch = Rows(12)
        self.assertIsNone(self.forest(self.builder.build_for_cudagraph_capture(batch.common())))
        self.assertIsNone(self.builder._tracker)
        self.assertEqual(self.builder.get_cudagraph_support(None, None), AttentionCGSupport.NEVER)

    def test_nothing_shared_and_too_few_bytes(self):
        self.assertIsNone(self.forest(self.decode(Rows(12, shared_pages=0))))
        with unittest.mock.patch.dict(os.environ, {"FOREST_CASCADE": ""}):
            self.builder = self.make_builder()
        self.assertIsNone(self.forest(self.decode(Rows(12))))

    def test_layers_that_are_vllms(self):
        for name, value in {"sliding_window": (7, 0), "alibi_slopes": [1.0], "sinks": [1.0], "attn_type": "x"}.items():
            with unittest.mock.patch.object(self.impl, name, value, create=True):
                self.builder = self.make_builder()
                self.assertIsNone(self.forest(self.builder.build(0, Rows(12).common())), name)
        self.assertEqual(len(log), 4)
        sys.modules["vllm.envs"].VLLM_BATCH_INVARIANT = True
        self.builder = self.make_builder()
        self.assertIsNone(self.forest(self.decode(Rows(12))))

    def test_quantized_outputs_are_refused(self):
        batch = Rows(12)
        metadata = self.decode(batch)
        query = torch.zeros((12, HEADS, DIM), dtype=torch.float64)
        with self.assertRaises(NotImplementedError):
            self.impl.forward(None, query, None, None, batch.cache, metadata, query, torch.ones(1))

    def test_registration(self):
        from forest_cascade.register import register

        register()
        register()
        path = "forest_cascade.backend.ForestCascadeBackend"
        self.assertEqual(registered, [(Registry.CUSTOM, path)] * 2)
        registered.append((Registry.CUSTOM, "other.Backend"))
        with self.assertRaisesRegex(RuntimeError, "other.Backend"):
            register()
        with unittest.mock.patch.dict(os.environ, {"FOREST_CASCADE": "{"}), self.assertRaises(ValueError):
            register()


if __name__ == "__main__":
    unittest.main()
