"""The plug-in in a real vLLM, without a GPU: registration, and that what it stands on is there as it knows it.

python -m unittest tests/vllm/test_with_vllm.py, in an environment with vLLM and the trunkline wheel (make python-vllm).
Models are run by engine_check.py, on a GPU.
"""

import dataclasses
import inspect
import os
import subprocess
import sys
import types
import unittest
from unittest import mock

import torch
import vllm
from trunkline.integrations.vllm import versions
from vllm.config import CUDAGraphMode
from vllm.plugins import load_general_plugins
from vllm.v1.attention.backend import AttentionCGSupport, CommonAttentionMetadata
from vllm.v1.attention.backends import flash_attn
from vllm.v1.attention.backends.registry import AttentionBackendEnum

# A process that loads vLLM's plug-ins. It prints the paths of both slots, and whether CUDA was initialised.
SHOW = """
import torch
from vllm.plugins import load_general_plugins
from vllm.v1.attention.backends.registry import AttentionBackendEnum as Backend
{before}
load_general_plugins()
from trunkline.integrations.vllm import register
register()
print("FOUND", Backend.CUSTOM.get_path() if Backend.CUSTOM.is_overridden() else None, Backend.FLASH_ATTN.get_path(),
      torch.cuda.is_initialized())
"""
FLASH = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
PACKAGE = "trunkline.integrations.vllm.backend."


def slots(before: str = "", **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(before=before)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return next(line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FOUND"))


class Registration(unittest.TestCase):
    def test_this_version_is_supported(self):
        self.assertIsNone(versions.refusal(vllm.__version__))

    def test_by_flag(self):
        self.assertEqual(slots(), [PACKAGE + "TrunklineBackend", FLASH, "False"])

    def test_without_a_flag(self):
        self.assertEqual(slots(TRUNKLINE_VLLM="override"), ["None", PACKAGE + "TrunklineFlashBackend", "False"])

    def test_off(self):
        self.assertEqual(slots(TRUNKLINE_VLLM="off"), ["None", FLASH, "False"])

    def test_another_plugin_was_first(self):
        before = (
            "from vllm.v1.attention.backends.registry import register_backend; "
            "register_backend(Backend.CUSTOM, 'other.Backend')"
        )
        self.assertEqual(slots(before), ["other.Backend", FLASH, "False"])


class WhatItStandsOn(unittest.TestCase):
    """Parts of the engine that the plug-in depends on: a change there fails here, and not in the middle of serving."""

    @classmethod
    def setUpClass(cls):
        load_general_plugins()
        cls.backend = AttentionBackendEnum.CUSTOM.get_class()

    def test_classes(self):
        self.assertEqual(self.backend.get_name(), "CUSTOM")
        self.assertTrue(issubclass(self.backend, flash_attn.FlashAttentionBackend))
        self.assertTrue(issubclass(self.backend.get_impl_cls(), flash_attn.FlashAttentionImpl))
        self.assertTrue(issubclass(self.backend.get_builder_cls(), flash_attn.FlashAttentionMetadataBuilder))
        self.assertFalse(torch.cuda.is_initialized())

    def test_metadata(self):
        from trunkline.integrations.vllm.builder import _NO_CASCADE, TrunklineMetadata

        required = {
            field.name
            for field in dataclasses.fields(flash_attn.FlashAttentionMetadata)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        known = {
            *("num_actual_tokens", "max_query_len", "query_start_loc", "max_seq_len", "seq_lens", "block_table"),
            "slot_mapping",
        }
        self.assertLessEqual(required, known | set(_NO_CASCADE))
        names = {field.name for field in dataclasses.fields(TrunklineMetadata)}
        self.assertLessEqual(known | {"steps", "decode_tokens", "rest", "theirs"}, names)

    def test_batches(self):
        names = {field.name for field in dataclasses.fields(CommonAttentionMetadata)}
        self.assertLessEqual(
            {
                *("query_start_loc", "query_start_loc_cpu", "seq_lens", "num_reqs", "num_actual_tokens"),
                *("max_query_len", "max_seq_len", "block_table_tensor", "slot_mapping", "causal"),
                *("is_prefilling", "seq_lens_cpu_upper_bound", "mm_req_doc_ranges"),
            },
            names,
        )
        self.assertTrue(callable(CommonAttentionMetadata.replace))

    def test_signatures(self):
        build = inspect.signature(flash_attn.FlashAttentionMetadataBuilder.build).parameters
        self.assertEqual(list(build)[:4], ["self", "common_prefix_len", "common_attn_metadata", "fast_build"])
        forward = inspect.signature(flash_attn.FlashAttentionImpl.forward).parameters
        self.assertEqual(
            list(forward)[:8],
            ["self", "layer", "query", "key", "value", "kv_cache", "attn_metadata", "output"],
        )
        init = inspect.signature(flash_attn.FlashAttentionMetadataBuilder.__init__).parameters
        self.assertEqual(list(init), ["self", "kv_cache_spec", "layer_names", "vllm_config", "device"])
        self.assertEqual(AttentionCGSupport.UNIFORM_BATCH.value, 2)
        self.assertTrue(CUDAGraphMode.FULL_AND_PIECEWISE.has_full_cudagraphs())
        self.assertFalse(CUDAGraphMode.PIECEWISE.has_full_cudagraphs())

    def test_layers_tell_what_is_asked_of_them(self):
        source = inspect.getsource(flash_attn.FlashAttentionImpl.__init__)
        for name in (
            *("num_heads", "num_kv_heads", "head_size", "kv_cache_dtype", "attn_type", "sliding_window"),
            *("logits_soft_cap", "alibi_slopes", "sinks", "scale"),
        ):
            self.assertIn(f"self.{name} =", source)

    def test_layers_have_scales(self):
        """On the device, in the module of vLLM's Attention."""
        from vllm.model_executor.layers.attention import Attention

        source = inspect.getsource(sys.modules[Attention.__module__])
        for name in ("_q_scale", "_k_scale", "_v_scale"):
            self.assertIn(f'layer.register_buffer("{name}"', source)


class MixedSteps(unittest.TestCase):
    """Three decode rows before one with 20 tokens of a prompt."""

    def build(self, ours, shadow=None):
        from trunkline.integrations.vllm.builder import TrunklineMetadataBuilder

        self.asked, self.planned, self.built = [], [], []
        steps = types.SimpleNamespace(
            takes=lambda *rows, **step: self.asked.append((rows, step)) or ours,
            plan=lambda tables, rows, starts, tokens, counted: self.planned.append((rows, tokens, counted)),
            several=False,
            shadow=shadow,
        )
        starts = torch.tensor([0, 1, 2, 3, 23], dtype=torch.int32)
        common = CommonAttentionMetadata(
            query_start_loc=starts,
            query_start_loc_cpu=starts,
            seq_lens=torch.tensor([100, 200, 300, 400], dtype=torch.int32),
            num_reqs=4,
            num_actual_tokens=23,
            max_query_len=20,
            max_seq_len=400,
            block_table_tensor=torch.arange(8, dtype=torch.int32).reshape(4, 2),
            slot_mapping=torch.arange(23),
            causal=True,
        )
        builder = TrunklineMetadataBuilder.__new__(TrunklineMetadataBuilder)
        builder.steps, builder.reorder_batch_threshold = steps, 1
        builder._capturing, builder._replays = False, True

        def theirs(builder, prefix, common, fast=False):
            self.built.append((common, fast))
            return common

        with mock.patch.object(flash_attn.FlashAttentionMetadataBuilder, "build", theirs):
            return builder.build(0, common), common

    def test_those_that_do_not_pay_are_the_engines(self):
        found, common = self.build(ours=False)
        self.assertIs(found, common)
        # Steps beside prefill replay no graph of all of the step.
        self.assertEqual(self.asked, [((3, 4), {"prefill_tokens": 20, "replayed": False})])
        self.assertEqual(self.planned, [])

    def test_others_keep_their_query_tokens_where_they_are(self):
        found, common = self.build(ours=True)
        self.assertEqual((self.planned, found.decode_tokens, found.theirs), ([(3, 3, True)], 3, None))
        [(rest, fast)] = self.built
        self.assertIs(found.rest, rest)
        self.assertEqual((rest.num_reqs, rest.num_actual_tokens, fast), (1, 23, False))
        self.assertEqual(rest.query_start_loc.tolist(), [3, 23])
        self.assertEqual((rest.seq_lens.tolist(), rest.block_table_tensor.tolist()), ([400], [[6, 7]]))

    def test_shadow_mode_schedules_them_as_they_are_served(self):
        found, common = self.build(ours=True, shadow=types.SimpleNamespace(whole=lambda tokens: None))
        self.assertEqual([fast for _, fast in self.built], [True, False])
        self.assertIs(found.theirs, common)
        self.assertEqual(found.rest.num_reqs, 1)


class ShadowMode(unittest.TestCase):
    def test_both_run_and_theirs_is_served(self):
        from trunkline.integrations.vllm.builder import _NO_CASCADE, TrunklineMetadata
        from trunkline.integrations.vllm.impl import TrunklineImpl

        compared = []
        steps = types.SimpleNamespace(
            run=lambda query, kv_cache, output, scale, tokens, **variant: output[:tokens].fill_(1),
            shadow=types.SimpleNamespace(compare=lambda ours, theirs: compared.append((ours, theirs))),
        )
        names = [field.name for field in dataclasses.fields(flash_attn.FlashAttentionMetadata)]
        whole, rest = object(), object()
        metadata = TrunklineMetadata(
            **dict.fromkeys(names) | _NO_CASCADE, steps=steps, decode_tokens=2, rest=rest, theirs=whole
        )
        impl = TrunklineImpl.__new__(TrunklineImpl)
        impl.head_size, impl.scale, impl.kv_cache_dtype = 64, 1.0, "auto"
        impl.logits_soft_cap, impl.sinks = 0, None
        new = torch.zeros(3, 2, 64)
        output = torch.empty_like(new)

        def theirs(self, layer, query, key, value, kv_cache, metadata, output):
            (output if metadata is whole else output[2:]).fill_({whole: 2, rest: 3}[metadata])
            return output

        with mock.patch.object(flash_attn.FlashAttentionImpl, "forward", theirs):
            found = impl.forward(None, new, new, new, torch.zeros(1, 2, 16, 128), metadata, output)
        self.assertIs(found, output)
        [(by_ours, by_theirs)] = compared
        self.assertIs(by_theirs, output)
        self.assertEqual(by_ours[:, 0, 0].tolist(), [1, 1, 3])
        self.assertEqual(by_theirs[:, 0, 0].tolist(), [2, 2, 2])


if __name__ == "__main__":
    unittest.main()
