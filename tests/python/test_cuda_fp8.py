"""On a GPU of compute capability 9.0, with torch: the engine layer's steps with K and V of 8 bits, in engines' forms.

Skipped elsewhere. Needs neither pytest nor hypothesis: python tests/python/test_cuda_fp8.py
"""

import logging
import unittest

from cuda_steps import DIM, HEADS, KV_HEADS, PAGE, PAGES, CudaTest, Step, reason, torch, usable
from trunkline.integrations import engine

WORDS = {"fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2"}
LENGTHS = [300, 280, 17, 260, 1, 250]


def has_kernels():
    return usable() and torch.cuda.get_device_capability()[0] == 9


class Layer:
    """Requests that share a trunk, a cache, and scales on the device. packed: a cache [pages, Hkv, P, 2 d], as vLLM has
    it; else two tensors [pages, P, Hkv, d], as SGLang has them."""

    def __init__(self, word, dtype, *, packed, device="cuda"):
        self.step, kind = Step(LENGTHS, 10, dtype), getattr(torch, WORDS[word])
        self.scales = {name: torch.ones((), device=device) for name in ("q_scale", "k_scale", "v_scale")}
        rounded = self.step.kv.to(kind)
        self.values = rounded.float()
        k, v = rounded.view(torch.uint8).unbind(1)
        pair = torch.cat([k, v], -1).transpose(1, 2) if packed else torch.stack([k, v])
        cache = pair.contiguous().view(kind)
        self.cache = cache if packed else tuple(cache)
        self.query = self.step.q.to(torch.float8_e4m3fn)
        self.out = torch.full_like(self.step.q, torch.nan)
        settings, logger = engine.Settings("on", False, 0), logging.getLogger("engine.tests")
        layout = "HND" if packed else "NHD"
        facts = engine.LayerFacts(HEADS, KV_HEADS, DIM, PAGE, dtype, kv_cache_dtype=word, device=device)
        self.steps = engine.DecodeSteps(
            engine.Engine("Toy", logger, settings, kv_layout=layout),
            facts,
            ["l0"],
            engine.TorchArrays(torch.device(device, 0) if device == "cuda" else device),
            max_rows=8,
            max_tokens=8,
            num_pages=PAGES,
        )
        table, lengths = (torch.from_numpy(array).to(device) for array in (self.step.table, self.step.lengths))
        self.tables = engine.DenseTables(table, lengths)

    def plan(self):
        self.steps.plan(self.tables, len(LENGTHS))

    def run(self):
        self.steps.run(self.query.to(self.out.dtype), self.cache, self.out, None, len(LENGTHS), **self.scales)

    def right(self):
        """Of scales of a head, or of all."""
        factors = torch.stack([self.scales[name].expand(KV_HEADS) for name in ("k_scale", "v_scale")])
        self.step.kv = self.values * factors[:, None, :, None]
        return self.step.right(self.query.float() * self.scales["q_scale"])


@unittest.skipUnless(has_kernels(), reason() or "the GPU is not of compute capability 9.0")
class CudaFp8(CudaTest):
    def test_scales_that_are_written_after_a_capture(self):
        for word in WORDS:
            for dtype in ("float16", "bfloat16"):
                for packed in (False, True):
                    with self.subTest(word=word, dtype=dtype, packed=packed):
                        self.replays(Layer(word, dtype, packed=packed))

    def replays(self, layer):
        layer.plan()
        layer.run()  # once before, so that nothing is loaded while capturing
        self.compare(layer.out, layer.right())
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            layer.run()
        for q_scale, k_scale, v_scale in ((1.0, 1.0, 1.0), (0.5, 0.25, 0.125), (0.25, 2.0, 0.5)):
            for scale, value in zip(layer.scales.values(), (q_scale, k_scale, v_scale), strict=True):
                scale.fill_(value)
            layer.out.fill_(torch.nan)
            layer.plan()
            graph.replay()
            self.compare(layer.out, layer.right())

    def test_scales_of_heads(self):
        layer = Layer("fp8_e4m3", "bfloat16", packed=True)
        for name, first, last in (("k_scale", 0.25, 1.0), ("v_scale", 1.0, 0.125)):
            layer.scales[name] = torch.linspace(first, last, KV_HEADS, device="cuda")
        layer.plan()
        layer.run()
        self.compare(layer.out, layer.right())


if __name__ == "__main__":
    unittest.main()
