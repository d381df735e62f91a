"""Tests of a rival backend inside an engine, and of new weights, without vLLM."""

import contextlib
import pathlib
import sys
import types
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vllm"), str(HERE.parent), str(HERE)]
import fake_rival  # noqa: E402
import rank_sides  # noqa: E402
import rival  # noqa: E402
import weights  # noqa: E402


class Steps:
    """Of Trunkline: takes steps of which at least half are decode rows."""

    def takes(self, decode_rows, rows, *, prefill_tokens=0, replayed=False):
        return 2 * decode_rows >= rows


class RivalTest(unittest.TestCase):
    def group(self, **special):
        present = types.SimpleNamespace(
            num_heads=32, head_size=128, scale=0.1, num_kv_heads=8, alibi_slopes=None, sliding_window=(-1, -1),
            kv_cache_dtype="auto", logits_soft_cap=0, attn_type="decoder", kv_sharing_target_layer_name=None,
        )  # fmt: skip
        vars(present).update(special)
        layers = {"layer.0": types.SimpleNamespace(impl=present)}
        builder = types.SimpleNamespace(kv_cache_spec="spec", layer_names=["layer.0"], device="cuda", steps=Steps())
        group = types.SimpleNamespace(
            backend=fake_rival.Backend, layer_names=["layer.0"], metadata_builders=[builder],
            get_metadata_builder=lambda _: group.metadata_builders[0],
        )  # fmt: skip
        config = types.SimpleNamespace(compilation_config=types.SimpleNamespace(static_forward_context=layers))
        return group, config, layers["layer.0"]

    def test_builders_and_implementations_change_and_come_back(self):
        group, config, layer = self.group()
        before = group.metadata_builders[0], layer.impl
        made = rival.Rival("fake_rival:Backend", [group], config)
        self.assertEqual((group.metadata_builders[0], layer.impl), before)
        made.install(True)
        self.assertIsInstance(group.metadata_builders[0], fake_rival.Builder)
        self.assertEqual(group.metadata_builders[0].kv_cache_spec, "spec")
        self.assertEqual(layer.impl.arguments, (32, 128, 0.1, 8, None, None, "auto", None, "decoder", None))
        made.install(False)
        self.assertEqual((group.metadata_builders[0], layer.impl), before)

    def test_what_cannot_run_there_is_refused(self):
        for name, special, what in (
            ("fake_rival", {}, "not MODULE:CLASS"),
            ("fake_rival:Nothing", {}, "has no Nothing"),
            ("fake_rival:SplitBackend", {}, r"shape \(2, 7, 16, 8, 128\), supported is \(7, 8, 16, 256\)"),
            ("fake_rival:EagerBackend", {}, "graphs of NEVER"),
            ("fake_rival:Backend", {"sliding_window": (511, 0)}, "a sliding window"),
        ):
            group, config, _ = self.group(**special)
            with self.assertRaisesRegex((ValueError, ImportError), what):
                rival.Rival(name, [group], config)

    def test_each_side_captures_graphs_with_its_own_builder(self):
        group, config, layer = self.group()
        captured = []

        def capture():
            kind = type(group.metadata_builders[0]).__name__, getattr(group.metadata_builders[0], "steps", None)
            captured.append((kind[0], kind[1] is not None))
            manager.graphs["size"] = len(captured)

        manager = types.SimpleNamespace(_capture_descs={"full": [1], "piecewise": [2]}, graphs={})
        runner = types.SimpleNamespace(
            cudagraph_manager=manager, attn_groups=[[group]], vllm_config=config, capture_model=capture
        )
        module = types.SimpleNamespace(
            CUDAGraphMode=types.SimpleNamespace(FULL="full"),
            set_current_vllm_config=lambda _: contextlib.nullcontext(),
        )
        with unittest.mock.patch.dict(sys.modules, {"vllm": types.ModuleType("vllm"), "vllm.config": module}):
            names = ["default", "trunkline", "rival"]
            worker = types.SimpleNamespace(model_runner=runner)
            rank_sides.capture(worker, names, "fake_rival:Backend")
        expected = [("SimpleNamespace", False), ("SimpleNamespace", True), ("Builder", False)]
        self.assertEqual(captured, expected)
        rank_sides.use(worker, "rival")
        self.assertEqual((manager.graphs, type(layer.impl)), ({"size": 3}, fake_rival.Implementation))
        rank_sides.use(worker, "default")
        self.assertEqual((manager.graphs, type(layer.impl)), ({"size": 1}, types.SimpleNamespace))
        self.assertEqual(manager._capture_descs, {"full": [1], "piecewise": [2]})
        steps = worker.sides.steps[0]
        for decode_rows, rows in ((0, 2), (3, 4), (4, 4), (1, 4), (2, 4)):  # prefill, mixed, decode, mixed, mixed
            steps.takes(decode_rows, rows, prefill_tokens=7)
        self.assertEqual(rank_sides.choices(worker), ["101"])


class WeightsTest(unittest.TestCase):
    def test_weights_are_the_first_ones_and_a_change(self):
        """A tensor is the list of the draws that it sums, each (seed, deviation)."""

        class Tensor(list):
            dimensions = 2

            def dim(self):
                return self.dimensions

            @property
            def data(self):
                return self

            def normal_(self, mean, std, generator):
                self[:] = [(generator, std)]
                return self

        class Norm(Tensor):
            dimensions = 1

        torch = types.SimpleNamespace(
            Generator=lambda device: types.SimpleNamespace(manual_seed=lambda seed: seed),
            ones_like=lambda _: Tensor(["one"]), empty_like=lambda _: Tensor(), no_grad=contextlib.nullcontext,
        )  # fmt: skip
        model = types.SimpleNamespace(named_parameters=lambda: [("matrix", Tensor()), ("norm", Norm())])
        loaded = {}

        def reload_weights(weights_iterator, is_checkpoint_format):
            self.assertFalse(is_checkpoint_format)
            loaded.update(weights_iterator)

        runner = types.SimpleNamespace(get_model=lambda: model)
        worker = types.SimpleNamespace(model_runner=runner, reload_weights=reload_weights, rank=0)
        with unittest.mock.patch.dict(sys.modules, {"torch": torch}):
            weights.reload_drawn(worker, 0.02, 5, 0.5)
            self.assertEqual(loaded, {"matrix": [(1, 0.02), (1005, 0.01)], "norm": ["one"]})
            weights.reload_drawn(types.SimpleNamespace(**vars(worker) | {"rank": 2}), 0.02, 5, 0.5)
        self.assertEqual(loaded["matrix"], [(2000001, 0.02), (2001005, 0.01)])


if __name__ == "__main__":
    unittest.main()
