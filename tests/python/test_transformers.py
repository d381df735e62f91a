"""Tree decoding of Transformers models, tiny ones of random weights, beside generate() with eager attention."""

import doctest
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest
import trunkline

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tiny_models = importlib.import_module("tiny_models")
VOCABULARY, model_of, prompt_of = tiny_models.VOCABULARY, tiny_models.model_of, tiny_models.prompt_of

ARCHITECTURES = ["llama", "qwen2", "qwen3", "mistral", "olmo2", "gpt2"]


@pytest.mark.parametrize(
    ("name", "beams"), [*((name, 4) for name in ARCHITECTURES), ("llama", 16), ("qwen3", 16), ("llama", 64)]
)
def test_beam_search_is_generates(name, beams):
    model, prompt = model_of(name), prompt_of(37)
    expected = model.generate(
        torch.tensor([prompt]),
        num_beams=beams,
        num_return_sequences=beams,
        max_new_tokens=12,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        pad_token_id=0,
    )
    generator = trunkline.TreeGenerator(model, None, trunkline.BeamSearch(beams, 12, end_tokens=2), max_tokens=4000)
    found = generator.generate(prompt)
    rows = [[token for token in row[len(prompt) :].tolist() if token != 0] for row in expected.sequences]
    assert [result.tokens for result in found] == rows
    np.testing.assert_allclose([result.score for result in found], expected.sequences_scores.numpy(), atol=1e-4)
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_log_probabilities_of_branches_are_the_models(name):
    model, prompt = model_of(name), prompt_of(21)
    generator = trunkline.TreeGenerator(model, None, trunkline.Samples(5, 9), max_tokens=1000, max_queries=8)
    found = generator.generate(prompt)
    for result in found:
        with torch.no_grad():
            logits = model(torch.tensor([prompt + result.tokens])).logits[0].double().log_softmax(-1)
        scores = logits[len(prompt) - 1 : -1].gather(1, torch.tensor(result.tokens)[:, None])
        assert result.score == pytest.approx(float(scores.sum()), abs=1e-3)


def test_speculation_is_greedy_generate():
    model, prompt = model_of("llama"), prompt_of(9) * 3
    expected = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False, pad_token_id=0)
    controller = trunkline.SpeculativeDecoding(trunkline.PromptLookup(), 24, end_tokens=2)
    (found,) = trunkline.TreeGenerator(model, None, controller, max_tokens=1000).generate(prompt)
    assert found.tokens == expected[0, len(prompt) :].tolist()
    assert controller.drafted > 0


def test_sixteen_bits():
    model, prompt = model_of("llama").to(torch.bfloat16), prompt_of(30)
    (found, *_) = trunkline.TreeGenerator(model, None, trunkline.BeamSearch(2, 8), max_tokens=1000).generate(prompt)
    with torch.no_grad():
        logits = model(torch.tensor([prompt + found.tokens])).logits[0].double().log_softmax(-1)
    scores = logits[len(prompt) - 1 : -1].gather(1, torch.tensor(found.tokens)[:, None])
    assert found.score * 8 == pytest.approx(float(scores.sum()), abs=0.5)


def test_a_saved_branch_comes_back():
    model, prompt = model_of("qwen3"), prompt_of(30)
    session = trunkline.TreeGenerator(model, None, trunkline.Samples(2, 4), max_tokens=600).session
    tree = session.tree
    root = tree.add_root(prompt)
    session.step([root])
    kept, saved = tree.fork(root, 2)
    for leaf, token in ((kept, 5), (saved, 9)):
        tree.append(leaf, [token, 11])
    session.step([kept, saved])
    session.save(saved)
    tree.append(kept, prompt_of(60, seed=3))
    session.step([kept])
    session.restore(saved)
    tree.append(saved, [7])
    with torch.no_grad():
        expected = model(torch.tensor([[*prompt, 9, 11, 7]])).logits[0, -1].numpy()
    np.testing.assert_allclose(session.step([saved])[0], expected, atol=1e-3)


def test_text_by_a_tokenizer():
    class Letters:
        def encode(self, text):
            return [ord(letter) - 30 for letter in text]

        def decode(self, tokens, skip_special_tokens):
            return "".join(chr(token + 30) for token in tokens)

    generator = trunkline.TreeGenerator(model_of("llama"), Letters(), trunkline.BeamSearch(2, 5), max_tokens=1000)
    found = generator.generate("Once upon a time")
    assert found[0].text == "".join(chr(token + 30) for token in found[0].tokens)


def test_models_that_are_not_supported():
    def refused(model, text):
        with pytest.raises(trunkline.UnsupportedError, match=text):
            trunkline.TreeGenerator(model, None, trunkline.BeamSearch(2, 4))

    refused(model_of("mistral", sliding_window=16), "has sliding windows of 16 tokens; supported: decoders of full-att")
    layer_types = ["full_attention", "sliding_attention"]
    refused(
        model_of("qwen3", use_sliding_window=True, sliding_window=8, layer_types=layer_types),
        "has 'sliding_attention' in layer 1",
    )
    refused(model_of("llama", head_dim=48), "head_dim")
    t5 = transformers.T5Config(d_model=32, d_kv=16, d_ff=32, num_layers=1, num_heads=2, vocab_size=VOCABULARY)
    refused(transformers.T5ForConditionalGeneration(t5), "is an encoder-decoder")
    with pytest.raises(trunkline.ArgumentTypeError, match="model is of type object, without num_layers"):
        trunkline.TreeGenerator(object(), None, trunkline.BeamSearch(2, 4))
    model = model_of("llama").train()
    with pytest.raises(trunkline.InvalidArgumentError, match="model is in training mode"):
        trunkline.TreeGenerator(model, None, trunkline.BeamSearch(2, 4)).generate([1, 2])


def test_the_page():
    if "page_size" not in inspect.signature(transformers.ContinuousBatchingConfig).parameters:
        pytest.skip("the page has the names of Transformers 5.24")
    page = Path(__file__).resolve().parents[2] / "docs/guides/runtime.md"
    examples = doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)
    failed, attempted = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(examples)
    assert attempted and not failed
