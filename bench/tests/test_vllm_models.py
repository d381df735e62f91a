"""Tests of the models' configurations: what they come to, and whether transformers' classes know their fields."""

import importlib.util
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench/vllm"))
import models  # noqa: E402

# Fields that transformers takes beside those that a class declares, or that engines read by a name of their own.
UNDECLARED = {"architectures", "model_type", "torch_dtype", "rope_theta", "head_dim", "hidden_act", "attention_bias"}
WINDOWED = ("gpt-oss-20b", "gemma2-9b")


class ShapesTest(unittest.TestCase):
    def test_key_and_value_bytes(self):
        """Layers with a window are left out: each reads so many tokens of a request at most."""
        expected = {"qwen3-30b-a3b": 2 * 48 * 4 * 128, "gpt-oss-20b": 2 * 12 * 8 * 64, "gemma2-9b": 2 * 21 * 8 * 256}
        for name, elements in expected.items():
            shape = models.shape_of(name)
            self.assertEqual(models.kv_bytes_per_token(shape), 2 * elements, name)
            self.assertEqual(models.kv_bytes_per_token(shape, "fp8"), elements, name)
        for layers, full in ((4, 2), (5, 2)):  # the first of two has the window
            shape = models.shape_of("gemma2-9b", layers)
            self.assertEqual(models.kv_bytes_per_token(shape, "fp8"), 2 * full * 8 * 256)


@unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
class ConfigurationsTest(unittest.TestCase):
    def test_fields_are_those_of_transformers(self):
        from transformers import CONFIG_MAPPING

        for name, shape in models.SHAPES.items():
            kind = CONFIG_MAPPING[shape["model_type"]]
            made = kind(**{key: value for key, value in shape.items() if key != "model_type"})
            with self.subTest(model=name):
                declared = set(kind.__dataclass_fields__) | set(kind.attribute_map)
                self.assertLessEqual(set(shape) - declared, UNDECLARED)
                for key in set(shape) & declared - {"rope_parameters"}:
                    self.assertEqual(getattr(made, key), shape[key], key)
                theta = shape.get("rope_theta") or shape["rope_parameters"]["rope_theta"]
                self.assertEqual(made.rope_parameters["rope_theta"], theta)

    def test_layers_take_turns(self):
        """Also where --layers cuts the model."""
        from transformers import CONFIG_MAPPING

        for name in WINDOWED:
            for layers in (None, 4):
                shape = models.shape_of(name, layers)
                made = CONFIG_MAPPING[shape["model_type"]](**shape)
                kinds = ["sliding_attention", "full_attention"] * (shape["num_hidden_layers"] // 2)
                self.assertEqual(made.layer_types, kinds)


if __name__ == "__main__":
    unittest.main()
