"""On a GPU, with torch: what shares a workspace, scales of 0, merges, and FlashInfer's cascades.

Skipped without a GPU. Needs neither pytest nor hypothesis: python tests/python/test_cuda_sharing.py
"""

import unittest

import numpy as np
import trunkline
from cuda_steps import DIM, HEADS, KV_HEADS, PAGE, PAGES, CudaTest, Step, made, reason, torch, usable

SHAPE = (HEADS, KV_HEADS, DIM, PAGE)


@unittest.skipUnless(usable(), reason())
class CudaSharing(CudaTest):
    def steps(self):
        return Step([300, 280, 17], 10, seed=1), Step([260, 33, 250], 4, seed=2)

    def begin(self, attention, step, on_gpu):
        tables = torch.from_numpy(step.table), torch.from_numpy(step.lengths)
        attention.plan(*(values.cuda() for values in tables) if on_gpu else tables)

    def test_two_objects_on_one_workspace(self):
        for on_gpu in (False, True):
            planning = trunkline.DevicePlanning(3) if on_gpu else None
            for offset in (0, 1024):
                memory = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
                steps = self.steps()
                a, b = (
                    made(step, workspace=memory[skipped:], device_planning=planning)
                    for step, skipped in zip(steps, (0, offset))
                )
                self.begin(a, steps[0], on_gpu)
                self.begin(b, steps[1], on_gpu)
                self.compare(b.run(steps[1].q, steps[1].kv), steps[1].right())
                with self.assertRaises(trunkline.WorkspaceError):
                    a.run(steps[0].q, steps[0].kv)
                for _ in range(2):  # in turns
                    for attention, step in ((a, steps[0]), (b, steps[1])):
                        self.begin(attention, step, on_gpu)
                        self.compare(attention.run(step.q, step.kv), step.right())

    def test_flashinfers_wrappers_share_a_float_workspace(self):
        from trunkline.integrations.flashinfer import BatchDecodeWithPagedKVCacheWrapper

        buffer = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        for place in ("cpu", "cuda"):
            wrappers, steps = [BatchDecodeWithPagedKVCacheWrapper(buffer) for _ in range(2)], self.steps()
            for wrapper, step in zip(wrappers, steps):
                wrapper.plan(*(values.to(place) for values in step.csr()), *SHAPE)
            for wrapper, step in zip(wrappers, steps):
                self.compare(wrapper.run(step.q, step.kv), step.right())

    def test_flashinfers_own_shapes(self):
        """Plans of more than the 32 MiB that FlashInfer's tests give."""
        from trunkline.integrations.flashinfer import BatchDecodeWithPagedKVCacheWrapper

        for heads, dim in ((4, 128), (32, 128), (32, 256)):
            rows, length, kv_heads = 128, 54, 4
            indptr = torch.arange(0, rows + 1, dtype=torch.int32, device="cuda") * 4
            indices = torch.arange(0, rows * 4, dtype=torch.int32, device="cuda")
            last = torch.full((rows,), (length - 1) % PAGE + 1, dtype=torch.int32, device="cuda")
            wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(32 << 20, dtype=torch.int8, device="cuda"))
            wrapper.plan(indptr, indices, last, heads, kv_heads, dim, PAGE, data_type=torch.float16)
            q = torch.randn(rows, heads, dim, device="cuda").half()
            kv = torch.randn(rows * 4, 2, PAGE, kv_heads, dim, device="cuda").half()
            k, v = (kv[:, i].reshape(rows, 4 * PAGE, kv_heads, dim)[:, :length].float() for i in range(2))
            k, v = (each.repeat_interleave(heads // kv_heads, 2) for each in (k, v))
            weights = torch.softmax(torch.einsum("bhd,bthd->bht", q.float(), k) * dim**-0.5, -1)
            right = torch.einsum("bht,bthd->bhd", weights, v)
            torch.testing.assert_close(wrapper.run(q, kv).float(), right, rtol=2e-3, atol=2e-3)

    def test_scales_of_zero(self):
        from trunkline.integrations.flashinfer import BatchDecodeWithPagedKVCacheWrapper

        step = self.steps()[0]
        attention = made(step)
        attention.plan(step.table, step.lengths)
        out, lse = attention.run(step.q, step.kv, return_lse=True, scale=0.0)
        self.compare(out, step.right(scale=0.0), lse)
        wrapper = BatchDecodeWithPagedKVCacheWrapper(torch.empty(1, device="cuda"))
        wrapper.plan(*step.csr(), *SHAPE, sm_scale=0.0)
        self.compare(wrapper.run(step.q, step.kv), step.right(scale=0.0))

    def test_merges(self):
        from trunkline.integrations import flashinfer

        v, s = torch.randn(7, 3, HEADS, DIM, device="cuda"), torch.randn(7, 3, HEADS, device="cuda")
        weights = torch.softmax(s * np.log(2), 1)
        right = (v * weights[..., None]).sum(1), torch.logsumexp(s * np.log(2), 1) / np.log(2)
        torch.testing.assert_close(flashinfer.merge_states(v, s), right, rtol=1e-4, atol=1e-4)
        into = v[:, 0].clone(), s[:, 0].clone()
        for i in (1, 2):
            flashinfer.merge_state_in_place(*into, v[:, i].contiguous(), s[:, i].contiguous())
        torch.testing.assert_close(into, right, rtol=1e-4, atol=1e-4)
        begin = torch.arange(8, dtype=torch.int32, device="cuda")
        flat = v[:, 0].contiguous(), s[:, 0].contiguous()
        for name, given in (("out", flat[0]), ("lse", flat[1])):
            with self.assertRaisesRegex(ValueError, f"^{name} overlaps"):
                trunkline.merge_states(*flat, begin, **{name: given})

    def test_merges_are_captured(self):
        from trunkline.integrations import flashinfer

        v, s = torch.randn(2, 7, HEADS, DIM, device="cuda"), torch.randn(2, 7, HEADS, device="cuda")
        mask = torch.zeros(7, dtype=torch.bool, device="cuda")
        right = flashinfer.merge_state(v[0], s[0], v[1], s[1])
        flashinfer.merge_state_in_place(v[0], s[0], v[1], s[1], mask)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            flashinfer.merge_state_in_place(v[0], s[0], v[1], s[1], mask)
        mask.fill_(True)
        graph.replay()
        torch.testing.assert_close((v[0], s[0]), right, rtol=1e-5, atol=1e-5)

    def test_cascades(self):
        from trunkline.integrations.flashinfer import MultiLevelCascadeAttentionWrapper

        q = torch.randn(5, HEADS, DIM, device="cuda").half()
        kv = torch.randn(PAGES, 2, PAGE, KV_HEADS, DIM, device="cuda").half()
        for trunk_last in (PAGE, 3):
            for place in ("cpu", "cuda"):
                levels = ([0, 5], [0, 20], range(20), [trunk_last]), (range(6), range(0, 12, 2), range(20, 30), [7] * 5)
                given = [
                    [torch.tensor(list(level[i]), dtype=torch.int32, device=place) for level in levels]
                    for i in range(4)
                ]
                wrapper = MultiLevelCascadeAttentionWrapper(2, torch.empty(1, device="cuda"))
                wrapper.plan(*given, *SHAPE)
                out = wrapper.run(q, kv)
                for row in range(5):
                    tokens = [page * PAGE + place for page in range(20) for place in range(PAGE)]
                    tokens = tokens[: 19 * PAGE + trunk_last]
                    tokens += [(20 + 2 * row) * PAGE + place for place in range(PAGE + 7)]
                    k, v = (kv[:, i].reshape(-1, KV_HEADS, DIM)[tokens].float() for i in range(2))
                    k, v = (each.repeat_interleave(HEADS // KV_HEADS, 1) for each in (k, v))
                    weights = torch.softmax(torch.einsum("hd,thd->ht", q[row].float(), k) * DIM**-0.5, -1)
                    right = torch.einsum("ht,thd->hd", weights, v)
                    torch.testing.assert_close(out[row].float(), right, rtol=1e-2, atol=2e-3)


if __name__ == "__main__":
    unittest.main()
