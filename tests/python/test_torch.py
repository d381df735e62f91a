"""torch tensors on the CPU, the operators, FlashInfer's wrapper. Skipped without torch."""

import copy

import numpy as np
import pytest
import trunkline
from batches import TOLERANCE, cases
from hypothesis import given
from oracle import attention as oracle

torch = pytest.importorskip("torch", reason="torch is not installed")
from trunkline.integrations import torch as operators  # noqa: E402
from trunkline.integrations.flashinfer import BatchDecodeWithPagedKVCacheWrapper  # noqa: E402


def on_torch(array, dtype):
    return torch.from_numpy(np.asarray(array, np.float32)).to(getattr(torch, dtype))


@given(case=cases(several_queries=False))
def test_tensors_are_read_in_place(case):
    q, k, v = (on_torch(x, case.dtype) for x in case.tensors())
    attention = trunkline.DecodeAttention(
        case.q_heads, case.kv_heads, case.head_dim, case.page_size, dtype=q.dtype, device=torch.device("cpu")
    )
    attention.plan(torch.from_numpy(case.table(np.int64)), torch.tensor(case.kv_lens))
    out, lse = attention.run(q, (k, v), return_lse=True)
    assert out.dtype == q.dtype and isinstance(out, torch.Tensor) and lse.dtype == torch.float32
    right = oracle(q.float().numpy(), k.float().numpy(), v.float().numpy(), case.rows, case.kv_lens)
    np.testing.assert_allclose(out.float(), right[0], atol=TOLERANCE[case.dtype], rtol=1e-2)
    np.testing.assert_allclose(lse, right[1], atol=2e-3, rtol=1e-3)


@given(case=cases(several_queries=False, dtypes=("float16", "bfloat16")))
def test_flashinfers_wrapper(case):
    q, k, v = (on_torch(x, case.dtype) for x in case.tensors())
    wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(1 << 24, dtype=torch.uint8), "NHD")
    indptr, indices, last = (torch.from_numpy(values) for values in case.csr())
    wrapper.plan(
        indptr,
        indices,
        last,
        case.q_heads,
        case.kv_heads,
        case.head_dim,
        case.page_size,
        q_data_type=q.dtype,
        sm_scale=0.2,
    )
    out, lse = wrapper.run(q, torch.stack([k, v], 1), return_lse=True)
    right = oracle(
        q.float().numpy(), k.float().numpy(), v.float().numpy(), case.rows, case.kv_lens, scale=0.2, base_two=True
    )
    np.testing.assert_allclose(out.float(), right[0], atol=TOLERANCE[case.dtype], rtol=1e-2)
    np.testing.assert_allclose(lse, right[1], atol=2e-3, rtol=1e-3)
    # Scales of Q and K multiply; the older names are the same.
    again = wrapper.forward_return_lse(q, (k, v), q_scale=0.5, k_scale=2.0)
    assert torch.equal(again[0], out) and torch.equal(again[1], lse)


@pytest.fixture
def step():
    attention = trunkline.DecodeAttention(8, 2, 64, 16, dtype=torch.bfloat16)
    attention.plan(torch.tensor([[3, 8, 1], [3, 8, 4]], dtype=torch.int32), torch.tensor([40, 37]))
    torch.manual_seed(0)
    return attention, torch.randn(2, 8, 64).bfloat16(), torch.randn(10, 2, 16, 2, 64).bfloat16()


def test_operators_are_what_torch_expects(step):
    attention, q, kv = step
    key = operators.register(attention)
    assert operators.register(attention) == key
    ops = torch.ops.trunkline
    torch.library.opcheck(ops.decode, (q, kv, None, key))
    torch.library.opcheck(ops.decode_lse, (q, kv[:, 0], kv[:, 1], key))
    torch.library.opcheck(ops.decode_out, (q, kv, None, torch.empty_like(q), torch.empty(2, 8), key))


def test_compiled(step):
    attention, q, kv = step
    key = operators.register(attention)

    def model(q, kv):
        out, lse = torch.ops.trunkline.decode_lse(q * 2, kv, None, key, 0.3)
        mine = torch.empty_like(out)
        torch.ops.trunkline.decode_out(out, kv, None, mine, None, key)
        return torch.ops.trunkline.decode(mine, kv[:, 0], kv[:, 1], key) + 1, lse

    plain = model(q, kv)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert all(torch.equal(a, b) for a, b in zip(plain, compiled(q, kv)))
    # Another plan needs no other compilation.
    attention.plan([[3, 8, 1], [3, 8, 4]], [33, 48])
    assert torch.equal(compiled(q, kv)[0], model(q, kv)[0])
    with pytest.raises(trunkline.ClosedError, match="attention is 999999"):
        torch.ops.trunkline.decode(q, kv, None, 999999)


def test_a_parameter_and_a_slice(step):
    attention, q, kv = step
    right = attention.run(q, kv)
    fused = torch.zeros(2, 12, 64, dtype=torch.bfloat16)
    fused[:, :8] = q
    assert torch.equal(attention.run(fused[:, :8], kv), right)
    with torch.no_grad():
        assert torch.equal(attention.run(torch.nn.Parameter(q), torch.nn.Parameter(kv)), right)


@pytest.mark.parametrize("name", ["q", "k", "v", "kv", "out", "lse"])
def test_what_requires_grad_is_refused_where_gradients_are_recorded(step, name):
    attention, q, kv = step
    given = {"q": q, "kv": kv, "k": kv[:, 0], "v": kv[:, 1], "out": torch.zeros_like(q), "lse": torch.zeros(2, 8)}
    given[name] = given[name].clone().requires_grad_()

    def run():
        caches = given["kv"] if name == "kv" else (given["k"], given["v"])
        return attention.run(given["q"], caches, out=given["out"], lse=given["lse"])

    right = attention.run(q, kv)
    with pytest.raises(
        trunkline.UnsupportedError, match=rf"{name} requires grad, and .*; supported: {name}.detach\(\)"
    ):
        run()
    assert not given["out"].any() and not given["lse"].any()
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert torch.equal(run(), right)
    given[name] = given[name].detach()
    assert torch.equal(run(), right)


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_operators_refuse_what_requires_grad(step, backend):
    attention, q, kv = step
    key = operators.register(attention)

    def model(q):
        return torch.ops.trunkline.decode(q * 2, kv, None, key)

    called = model if backend is None else torch.compile(model, backend=backend)
    with pytest.raises(Exception, match="q requires grad, and attention here has no backward"):
        called(q.requires_grad_())
    with torch.no_grad():
        assert torch.equal(called(q), attention.run(q * 2, kv))


def test_merging_refuses_what_requires_grad():
    states = torch.ones(2, 8, 64, requires_grad=True)
    with pytest.raises(trunkline.UnsupportedError, match="states requires grad"):
        trunkline.merge_states(states, torch.zeros(2, 8), [0, 2])
    with torch.no_grad():
        assert (trunkline.merge_states(states, torch.zeros(2, 8), [0, 2])[0] == 1).all()


def test_wrappers_are_not_copied():
    wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(1 << 20, dtype=torch.uint8))
    with pytest.raises(trunkline.ArgumentTypeError, match="a BatchDecodeWithPagedKVCacheWrapper is copied or pickled"):
        copy.copy(wrapper)


def test_bad_tensors(step):
    attention, q, kv = step
    with pytest.raises(ValueError, match="q has dtype f16; expected: bf16"):
        attention.run(q.half(), kv)
    with pytest.raises(TypeError, match="q has a dtype of DLPack code"):
        attention.run(q.double(), kv)
    with pytest.raises(ValueError, match=r"q.strides\[2\] is 2"):
        attention.run(q.repeat_interleave(2, -1)[..., ::2], kv, out=torch.empty_like(q))
    with pytest.raises(TypeError, match="kv_lens has dtype float32; expected: int32 or int64"):
        attention.plan(torch.tensor([[3, 8, 1], [3, 8, 4]]), torch.tensor([40.0, 37.0]))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dict(pos_encoding_mode="ROPE_LLAMA"), "pos_encoding_mode is 'ROPE_LLAMA'; supported: \"NONE\""),
        (
            dict(kv_data_type=torch.float16),
            "kv_data_type is torch.float16; supported: that of Q, torch.bfloat16, float8_e4m3fn and float8_e5m2",
        ),
        (dict(head_dim=80), "head_dim_v are 80; supported: 64, 128, 256"),
    ],
)
def test_what_flashinfers_wrapper_refuses(change, text):
    wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(1 << 20, dtype=torch.uint8))
    right = dict(
        indptr=torch.tensor([0, 1]),
        indices=torch.tensor([0]),
        last_page_len=torch.tensor([4]),
        num_qo_heads=4,
        num_kv_heads=2,
        head_dim=64,
        page_size=16,
        q_data_type=torch.bfloat16,
    )
    with pytest.raises(NotImplementedError) as raised:
        wrapper.plan(**(right | change))
    assert text in str(raised.value)
    with pytest.raises(RuntimeError, match="there is no plan"):
        wrapper.run(torch.zeros(1, 4, 64), torch.zeros(1, 2, 16, 2, 64))
    wrapper.plan(**right)
    with pytest.raises(NotImplementedError, match="window_left is 4; supported: None, as plan"):
        wrapper.run(torch.zeros(1, 4, 64).bfloat16(), torch.zeros(1, 2, 16, 2, 64).bfloat16(), window_left=4)


@pytest.mark.parametrize(
    ("planned", "given"),
    [
        (dict(logits_soft_cap=2.0), {}),
        (dict(window_left=5), {}),
        ({}, dict(v_scale=0.5, k_scale=2.0)),
        (dict(logits_soft_cap=2.0), dict(sinks=True, v_scale=0.25)),
        (dict(kv_data_type=torch.float8_e4m3fn), dict(k_scale=0.5)),
    ],
)
def test_flashinfers_wrapper_and_the_variants_of_softmax(planned, given):
    generator = torch.Generator().manual_seed(5)
    q = torch.randn(2, 4, 64, generator=generator).half()
    kv_type = planned.get("kv_data_type", torch.float16)
    k, v = (torch.randn(4, 16, 2, 64, generator=generator).to(kv_type) for _ in range(2))
    wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(1 << 20, dtype=torch.uint8))
    tables = torch.tensor([0, 2, 4]), torch.tensor([1, 2, 1, 3]), torch.tensor([9, 16])
    wrapper.plan(*tables, 4, 2, 64, 16, q_data_type=torch.float16, **planned)
    given = dict(given)
    if given.pop("sinks", None):
        given["sinks"] = torch.tensor([0.0, 1.0, -1.0, 2.0])
    found = wrapper.run(q, (k, v), **given)
    expected = trunkline.decode_attention(
        q, k, v, torch.tensor([[1, 2], [1, 3]]), torch.tensor([25, 32]), scale=given.get("k_scale", 1.0) / 8,
        window_left=planned.get("window_left"), soft_cap=planned.get("logits_soft_cap"), sinks=given.get("sinks"),
        v_scale=given.get("v_scale"),
    )  # fmt: skip
    assert float((found - expected).abs().max()) < 1e-3
