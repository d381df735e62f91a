"""generate_batch of Transformers on Trunkline, beside its own attention, with tiny models of random weights in fp32."""

import importlib
import inspect
import logging
import types

import pytest
import trunkline

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("psutil", reason="psutil is not installed, without which generate_batch finds no memory on a CPU")
batching = importlib.import_module("trunkline.integrations.transformers")
tiny_models = importlib.import_module("tiny_models")
continuous_api = importlib.import_module("transformers.generation.continuous_batching.continuous_api")
initialization = importlib.import_module("transformers.generation.continuous_batching.initialization")
model_runner = importlib.import_module("transformers.generation.continuous_batching.model_runner")
releases = batching.versions.RELEASES
if releases.refusal(releases.installed()):
    pytest.skip(releases.refusal(releases.installed()), allow_module_level=True)

ModelRunner = model_runner.ModelRunner
model_of, prompt_of = tiny_models.model_of, tiny_models.prompt_of
ARCHITECTURES = ["llama", "qwen3", "mistral"]
PAGE = 16
_OPTIONS = inspect.signature(transformers.ContinuousBatchingConfig).parameters
_PAGE_SIZE = "page_size" if "page_size" in _OPTIONS else "block_size"  # up to 5.17
TRUNK = prompt_of(5 * PAGE + 3)
PROMPTS = [TRUNK + prompt_of(size, seed=size) for size in (1, 9, 17)] + [prompt_of(21, seed=9), TRUNK]


def engine_config(**changes):
    options = {_PAGE_SIZE: PAGE, "num_blocks": 96, "max_batch_tokens": 128}
    return transformers.ContinuousBatchingConfig(**(options | changes))


def generation(**changes):
    return transformers.GenerationConfig(
        **({"max_new_tokens": 12, "do_sample": False, "eos_token_id": -1, "pad_token_id": 0} | changes)
    )


def run(model, prompts, lengths=None, *, config=None, options=None, late=()):
    """The results by the index of their prompt; those of prompts in `late` join once another has ended."""
    options = options or generation()
    names, found = {}, {}
    with model.continuous_batching_context_manager(options, continuous_batching_config=config or engine_config()) as to:

        def add(i):
            length = options.max_new_tokens if lengths is None else lengths[i]
            names[to.add_request(prompts[i], max_new_tokens=length, eos_token_id=-1)] = i

        for i in range(len(prompts)):
            if i not in late:
                add(i)
        waiting, wanted = list(late), len(prompts) * (options.num_return_sequences or 1)
        for result in to:
            assert result.error is None, result.error
            found.setdefault(names[result.request_id.partition("__child")[0]], []).append(result)
            if waiting:
                add(waiting.pop(0))
            if sum(map(len, found.values())) == wanted:
                break
    return [found[i] for i in range(len(prompts))]


def tokens_of(results):
    return [[one.generated_tokens for one in of_prompt] for of_prompt in results]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tokens_are_the_engines(name, attention):
    model = model_of(name)
    model.set_attn_implementation(attention)
    expected = tokens_of(run(model, PROMPTS))
    with batching.enable() as batches:
        assert batching.supports_batches(model)
        assert tokens_of(run(model, PROMPTS)) == expected
    counts = batches.statistics()[type(model).__name__]
    assert counts["layers"] == 2
    assert counts["decode_rows"] >= len(PROMPTS) * 11
    assert counts["engine_steps"] == 0
    assert counts["plans_made"] <= counts["decode_steps"] + len(PROMPTS)  # once a step, prefill steps as well
    assert (
        counts["kv_tokens"] - counts["kv_tokens_read"] >= 11 * 5 * PAGE
    )  # two prompts that share five pages, at least
    assert model.config._attn_implementation == attention


@pytest.mark.parametrize("sharing", [True, False])
def test_requests_that_come_and_go(sharing):
    model, config = model_of("llama"), engine_config(allow_block_sharing=sharing)
    lengths = [1, 30, 5, 17, 9]
    expected = tokens_of(run(model, PROMPTS, lengths, config=config, late=(2, 3, 4)))
    assert [len(of_prompt[0]) for of_prompt in expected] == lengths
    with batching.enable() as batches:
        assert tokens_of(run(model, PROMPTS, lengths, config=config, late=(2, 3, 4))) == expected
    counts = batches.statistics()["LlamaForCausalLM"]
    assert (counts["kv_tokens_read"] < counts["kv_tokens"]) == sharing
    assert (counts["shared_steps"] > 0) == sharing


def test_prompts_in_chunks_beside_decoding():
    model, config = model_of("qwen3"), engine_config(max_batch_tokens=24)
    expected = tokens_of(run(model, PROMPTS, config=config))
    with batching.enable() as batches:
        assert tokens_of(run(model, PROMPTS, config=config)) == expected
    assert batches.statistics()["Qwen3ForCausalLM"]["mixed_steps"] > 0


def test_a_cache_that_is_too_small_for_all():
    """Requests are given up by the engine and computed again."""
    model, config = model_of("llama"), engine_config(num_blocks=12, allow_block_sharing=False)
    prompts = [prompt_of(40, seed=i) for i in range(6)]
    expected = tokens_of(run(model, prompts, [40] * 6, config=config))
    with batching.enable():
        assert tokens_of(run(model, prompts, [40] * 6, config=config)) == expected


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_samples_of_a_prompt_share_it(name):
    """Log-probabilities of the drawn tokens are those of the whole sequences by the model alone."""
    model = model_of(name)
    options = generation(do_sample=True, num_return_sequences=4, top_k=0)
    with batching.enable() as batches:
        found = run(model, PROMPTS[1:4], config=engine_config(return_logprobs=True), options=options)
    for prompt, samples in zip(PROMPTS[1:4], found):
        assert len(samples) == 4 and len({tuple(sample.generated_tokens) for sample in samples}) > 1
        for sample in samples:
            with torch.no_grad():
                logits = model(torch.tensor([prompt + sample.generated_tokens])).logits[0].double().log_softmax(-1)
            expected = logits[len(prompt) - 1 : -1].gather(1, torch.tensor(sample.generated_tokens)[:, None])[:, 0]
            assert torch.allclose(torch.tensor(sample.logprobs).double(), expected, atol=1e-3)
    counts = batches.statistics()[type(model).__name__]
    # Of 12 rows, 8 begin with the five pages of the trunk, and 4 with the one of another prompt: 1 and 1 read them.
    assert counts["kv_tokens"] - counts["kv_tokens_read"] > 11 * (7 * 5 + 3) * PAGE * 0.9


@pytest.mark.parametrize("graphs", [False, True])
def test_block_tables(graphs, monkeypatch):
    """Decode steps as they come on a GPU, padded as for graphs: K and V are appended here. A replay stands for a graph:
    it runs again what was captured, with the same tensors."""

    def available(config, cb_config, *_):
        cb_config.max_blocks_per_request = 12

    def padded(runner, num_q_tokens, max_kv_read, use_decode_fast_path):
        runner.pad_inputs = use_decode_fast_path
        runner.use_cuda_graph_decode = graphs
        steps.append("table" if use_decode_fast_path else "index")
        return (8, 0) if use_decode_fast_path else (num_q_tokens, max_kv_read)

    def capture(runner, forward, stream, *given):
        def replay():
            steps.append("replay")
            forward(*given)

        steps.append("capture")
        forward(*given)
        runner.inputs_and_outputs.set_graph(types.SimpleNamespace(replay=replay, reset=lambda: None))

    model, steps = model_of("llama"), []
    expected = tokens_of(run(model, PROMPTS))
    monkeypatch.setattr(initialization, "ensure_decode_fast_path_is_available", available)
    monkeypatch.setattr(ModelRunner, "maybe_pad_inputs", padded)
    monkeypatch.setattr(ModelRunner, "_capture_graph", capture)
    with batching.enable() as batches:
        found = run(model, PROMPTS, config=engine_config(max_requests_per_batch=8))
    assert tokens_of(found) == expected
    counts = batches.statistics()["LlamaForCausalLM"]
    assert steps.count("table") >= 11
    assert steps.count("capture") == int(graphs)
    assert steps.count("capture") + steps.count("replay") == graphs * steps.count("table")
    assert counts["decode_steps"] >= steps.count("table")
    assert counts["shared_steps"] > 0


def test_graphs_are_captured_anew():
    """By enable() and by disable(), as a graph keeps its kernels: of both pairs of inputs where there are two."""
    pair = types.SimpleNamespace(host_io=types.SimpleNamespace(graphs=[1]), device_io=types.SimpleNamespace(graphs=[2]))
    runner = types.SimpleNamespace(inputs_and_outputs=types.SimpleNamespace(io_pairs=[pair]))
    batching.batches._drop_graphs(runner)
    assert pair.host_io.graphs == pair.device_io.graphs == []


def test_shadow_mode():
    model = model_of("mistral")
    expected = tokens_of(run(model, PROMPTS))
    with batching.enable(shadow=True) as batches:
        assert tokens_of(run(model, PROMPTS)) == expected
        assert batching.statistics() == batches.statistics()
    report = batches.statistics()["MistralForCausalLM"]["shadow"]
    assert report["compared"] >= 2 * 4 * len(PROMPTS) * 11  # layers, heads, tokens
    assert report["beyond"] == report["non_finite"] == 0
    assert batching.statistics() == {}


def test_sixteen_bits():
    model = model_of("llama").to(torch.bfloat16)
    with batching.enable(shadow=True) as batches:
        run(model, PROMPTS)
    report = batches.statistics()["LlamaForCausalLM"]["shadow"]
    assert report["compared"] > 0 and report["beyond"] == 0


def test_windows_are_left_to_the_engine(caplog):
    model = model_of("mistral", sliding_window=24)
    config = engine_config(allow_block_sharing=False)
    expected = tokens_of(run(model, PROMPTS, config=config))
    with batching.enable() as batches, caplog.at_level(logging.WARNING, "trunkline.transformers"):
        support = batching.supports_batches(model)
        assert not support and "has sliding windows of 24 tokens; supported: decoders of full-att" in support.reason
        assert tokens_of(run(model, PROMPTS, config=config)) == expected
    assert batches.statistics() == {}
    assert (
        "leaves 2 layers from MistralForCausalLM.0 to Transformers's attention: MistralForCausalLM has" in caplog.text
    )


def test_heads_that_no_kernel_has_are_left_to_the_engine(caplog):
    model = model_of("llama", head_dim=48)
    expected = tokens_of(run(model, PROMPTS))
    with batching.enable() as batches:
        assert not batching.supports_batches(model)
        assert tokens_of(run(model, PROMPTS)) == expected
    assert batches.statistics() == {}
    assert "head_dim" in caplog.text


def test_layers_that_do_not_call_the_interface():
    model = model_of("llama")
    model.model.layers[1].self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
    with batching.enable(), pytest.raises(AssertionError, match="1 layers of LlamaForCausalLM called AttentionInterf"):
        run(model, PROMPTS[:1])


def test_the_engines_own_comes_back(monkeypatch):
    theirs = ModelRunner.compute_batch
    first = batching.enable()
    second = batching.enable()  # begins anew
    assert ModelRunner.compute_batch is not theirs
    first.disable()  # is off already
    assert ModelRunner.compute_batch is not theirs
    second.disable()
    assert ModelRunner.compute_batch is theirs
    batching.disable()
    batches = batching.enable()
    ours = ModelRunner.compute_batch
    monkeypatch.setattr(ModelRunner, "compute_batch", lambda *given: ours(*given))  # as another package might
    batches.disable()
    assert len(run(model_of("llama"), PROMPTS[:1])[0][0].generated_tokens) == 12
    assert batches.statistics() == {}
    monkeypatch.undo()
    ModelRunner.compute_batch = theirs


def test_a_run_goes_on_with_the_engine(monkeypatch):
    """enable() and disable() while requests are being computed; the KV cache is the engine's throughout."""
    model, lengths, turns = model_of("llama"), [60] * len(PROMPTS), []
    expected = tokens_of(run(model, PROMPTS, lengths))
    theirs = continuous_api.ContinuousBatchProcessor._generation_step

    def by_turns(processor, model):
        turns.append(batching.enable() if len(turns) % 10 == 5 else None)
        if len(turns) % 10 == 0:
            batching.disable()
        theirs(processor, model)

    monkeypatch.setattr(continuous_api.ContinuousBatchProcessor, "_generation_step", by_turns)
    try:
        assert tokens_of(run(model, PROMPTS, lengths)) == expected
    finally:
        batching.disable()
    assert [4 <= b.statistics()["LlamaForCausalLM"]["decode_steps"] <= 5 for b in turns if b] == [True] * 6


def test_generate_batch_with_a_manager_that_stays():
    model = model_of("llama")

    def generate():
        found = model.generate_batch(
            PROMPTS, generation(), continuous_batching_config=engine_config(), persistent_manager=True
        )
        return [output.generated_tokens for output in found.values()]

    expected = generate()
    with batching.enable() as batches:
        assert generate() == expected
    assert batches.statistics()["LlamaForCausalLM"]["decode_steps"] >= 11
    assert generate() == expected
    model.destroy_cached_continuous_batching_manager()


def test_releases_that_are_not_known(monkeypatch):
    theirs = ModelRunner.compute_batch
    monkeypatch.setattr(type(releases), "installed", lambda _: "5.18.0")
    with pytest.raises(trunkline.UnsupportedError, match=r"Transformers is 5.18.0; supported: 5.17, 5.24"):
        batching.enable()
    assert ModelRunner.compute_batch is theirs
    assert "5.18.0" in batching.supports_batches(model_of("llama")).reason


def test_options():
    with pytest.raises(trunkline.ArgumentTypeError, match="shadow is 2"):
        batching.enable(shadow=2)
    with pytest.raises(trunkline.InvalidArgumentError, match="log_seconds is -1"):
        batching.enable(log_seconds=-1)
    model = model_of("llama")
    with pytest.raises(trunkline.UnsupportedError, match="runs within a step of generate_batch alone"):
        model.set_attn_implementation("trunkline_batch")
        model(torch.tensor([[1, 2]]))
