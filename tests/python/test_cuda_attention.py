"""On a GPU, with torch: tables in all forms, streams, graphs, compilation, FlashInfer's wrapper, live batches.

Skipped without a GPU. Needs neither pytest nor hypothesis: python tests/python/test_cuda_attention.py
"""

import unittest

import numpy as np
import trunkline
from cuda_steps import DIM, HEADS, KV_HEADS, PAGE, PAGES, CudaTest, Step, made, reason, torch, usable
from oracle import attention as oracle


@unittest.skipUnless(usable(), reason())
class CudaAttention(CudaTest):
    def test_tables_from_the_host(self):
        for dtype in ("float16", "bfloat16"):
            step = Step([300, 280, 17, 260, 1, 250], 10, dtype)
            attention = made(step)
            attention.plan(step.table, step.lengths, num_pages=PAGES)
            out, lse = attention.run(step.q, step.kv, return_lse=True)
            self.assertEqual((out.dtype, out.device, lse.dtype), (step.q.dtype, step.q.device, torch.float32))
            self.compare(out, step.right(), lse)
            self.compare(attention.run(step.q, (step.kv[:, 0], step.kv[:, 1])), step.right())

    def test_every_policy(self):
        step = Step([300, 280, 17, 260, 1, 250], 10)
        for policy in trunkline.POLICIES:
            attention = made(step, policy=policy)
            attention.plan(step.table, step.lengths)
            self.compare(attention.run(step.q, step.kv), step.right())

    def test_tables_on_the_device(self):
        step = Step([200, 210, 190], 8)
        lengths = torch.from_numpy(step.lengths).cuda()
        for kind in (torch.int32, torch.int64):
            table = torch.from_numpy(step.table).cuda().to(kind)
            attention = made(step)
            tables = trunkline.DeviceTables(lengths, page_table=table)
            attention.plan(step.table, step.lengths, device_tables=tables)
            self.compare(attention.run(step.q, step.kv), step.right())
            attention.plan(table, lengths)  # on the GPU alone: copied to the host
            self.compare(attention.run(step.q, step.kv), step.right())

    def test_csr_tables_hnd_and_base_two(self):
        step = Step([200, 210, 190, 64], 8, "bfloat16")
        attention = made(step, kv_layout="HND", lse_base="two")
        attention.plan_csr(*step.csr())
        kv = step.kv.transpose(2, 3).contiguous()
        out, lse = attention.run(step.q, kv, return_lse=True, scale=0.1)
        self.compare(out, step.right(scale=0.1, base_two=True), lse)

    def test_token_level_tables(self):
        torch.manual_seed(1)
        lengths, pool = [70, 90], np.random.default_rng(1).permutation(400)[:200].reshape(2, 100).astype(np.int32)
        pool[1, :64] = pool[0, :64]
        q = torch.randn(2, HEADS, DIM, device="cuda").half()
        k, v = torch.randn(2, 400, 1, KV_HEADS, DIM, device="cuda").half()
        attention = trunkline.DecodeAttention(HEADS, KV_HEADS, DIM, 1, device="cuda")
        attention.plan_token_level(pool, [0, 1], lengths)
        right = oracle(*(x.float().cpu().numpy() for x in (q, k, v)), pool.tolist(), lengths)
        self.compare(attention.run(q, (k, v)), right)

    def test_several_query_tokens(self):
        step = Step([40, 50], 2)
        q = torch.randn(5, HEADS, DIM, device="cuda").half()
        starts, parents = [0, 3, 5], [-1, 0, 0, -1, 0]
        attention = made(step)
        attention.plan(step.table, step.lengths, query_start_loc=starts, query_parents=parents)
        self.compare(attention.run(q, step.kv), step.right(q, query_start=starts, parents=parents))

    def test_streams(self):
        step = Step([300, 280, 17], 10)
        attention = made(step)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            attention.plan(step.table, step.lengths)
            torch.cuda._sleep(20_000_000)
            late = step.q + 0  # ready only after the sleep: a run on another stream would miss it
            out = attention.run(late, step.kv)
        side.synchronize()
        self.compare(out, step.right())
        out = torch.empty_like(step.q)
        attention.run(step.q, step.kv, out=out, stream=side.cuda_stream)
        side.synchronize()
        self.compare(out, step.right())

    def test_graphs(self):
        steps = [Step([100, 130, 160], 5, seed=1), Step([150, 135, 170], 6, seed=2), Step([20, 100, 33], 1, seed=3)]
        table = torch.zeros(3, 64, dtype=torch.int32, device="cuda")
        lengths = torch.zeros(3, dtype=torch.int32, device="cuda")
        q, kv = torch.empty_like(steps[0].q), torch.empty_like(steps[0].kv)
        out = torch.empty_like(q)
        attention = made(steps[0], use_cuda_graph=True, max_queries=3)

        def begin(step):
            table[:, : step.table.shape[1]].copy_(torch.from_numpy(step.table))
            lengths.copy_(torch.from_numpy(step.lengths))
            q.copy_(step.q)
            kv.copy_(step.kv)
            tables = trunkline.DeviceTables(lengths, page_table=table)
            attention.plan(step.table, step.lengths, num_pages=PAGES, device_tables=tables)

        begin(steps[0])
        attention.run(q, kv, out=out)  # once before, so that nothing is loaded while capturing
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(2):
                attention.run(q, kv, out=out)
        for step in (steps[1], steps[2], steps[0]):
            begin(step)
            out.zero_()
            graph.replay()
            self.compare(out, step.right())
        with self.assertRaisesRegex(ValueError, "the same memory"):
            tables = trunkline.DeviceTables(lengths, page_table=table.clone())
            attention.plan(steps[0].table, steps[0].lengths, device_tables=tables)
        with self.assertRaisesRegex(ValueError, "device_tables is missing"):
            attention.plan(steps[0].table, steps[0].lengths)

    def test_lengths_that_grow_on_the_device_alone(self):
        step = Step([100, 101], 3)
        table, lengths = torch.from_numpy(step.table).cuda(), torch.from_numpy(step.lengths).cuda()
        attention = made(step)
        attention.plan(step.table, step.lengths, device_tables=trunkline.DeviceTables(lengths, page_table=table))
        step.lengths = step.lengths + 5
        lengths += 5
        attention.resolve()
        self.compare(attention.run(step.q, step.kv), step.right())

    def test_compiled(self):
        from trunkline.integrations import torch as operators

        step = Step([300, 280, 17], 10, "bfloat16")
        attention = made(step)
        attention.plan(step.table, step.lengths)
        key = operators.register(attention)

        def model(q, kv):
            return torch.ops.trunkline.decode(q * 1, kv, None, key) + 0

        for backend in ("aot_eager", "inductor"):
            torch._dynamo.reset()
            try:
                out = torch.compile(model, backend=backend, fullgraph=True)(step.q, step.kv)
            except Exception as error:
                if backend == "inductor" and ("triton" in str(error).lower() or "compiler" in str(error).lower()):
                    continue  # this machine cannot compile kernels
                raise
            self.compare(out, step.right())

    def test_flashinfers_wrapper(self):
        from trunkline.integrations.flashinfer import BatchDecodeWithPagedKVCacheWrapper

        step = Step([100, 130, 160], 5)
        workspace = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        shape = (HEADS, KV_HEADS, DIM, PAGE)
        for place in ("cpu", "cuda"):
            wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD")
            wrapper.plan(*(values.to(place) for values in step.csr()), *shape, q_data_type=torch.float16)
            out, lse = wrapper.run(step.q, step.kv, return_lse=True)
            self.compare(out, step.right(base_two=True), lse)
            if place == "cuda":
                self.assertEqual(wrapper.plan_report().planned, 1)
                many = Step([PAGE] * 65, 1)  # more requests than the first planner has room for
                wrapper.plan(*(values.cuda() for values in many.csr()), *shape, q_data_type=torch.float16)
                self.compare(wrapper.run(many.q, many.kv), many.right())
        buffers = [torch.zeros(count, dtype=torch.int32, device="cuda") for count in (4, 1000, 3)]
        wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", True, False, *buffers)
        wrapper.plan(*step.csr(), *shape, q_data_type=torch.float16)
        out = torch.empty_like(step.q)
        wrapper.run(step.q, step.kv, out=out)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            wrapper.run(step.q, step.kv, out=out)
        other = Step([90, 140, 100], 4)
        wrapper.plan(*other.csr(), *shape, q_data_type=torch.float16)
        step.q.copy_(other.q)
        step.kv.copy_(other.kv)
        graph.replay()
        self.compare(out, other.right())

    def test_live_batches(self):
        for asynchronous in (False, True):
            live = trunkline.LiveBatch(page_size=PAGE, num_pages=PAGES)
            step = Step([20, 20], 1)
            a = live.join(20, [5, 6])
            live.fork(a)
            live.replace_page(live.request_at(1), 1, 7)
            attention = made(step, async_planning=asynchronous)
            step.rows = [[5, 6], [5, 7]]
            for length in range(21, 30):
                live.advance([length, length])
                if asynchronous:
                    attention.submit(live)
                attention.plan_live(live)
                step.lengths = np.array([length, length])
                self.compare(attention.run(step.q, step.kv), step.right())
            live.reorder([1, 0])
            attention.plan_live(live)
            step.rows.reverse()
            self.compare(attention.run(step.q, step.kv), step.right())

    def test_merging(self):
        states = torch.randn(6, HEADS, DIM, device="cuda").half()
        lse = torch.randn(6, HEADS, device="cuda")
        begin = torch.tensor([0, 2, 6], dtype=torch.int32, device="cuda")
        out, merged = trunkline.merge_states(states, lse, begin)
        right = trunkline.merge_states(states.cpu(), lse.cpu(), begin.cpu())
        np.testing.assert_allclose(out.float().cpu(), right[0].float(), atol=2e-3)
        np.testing.assert_allclose(merged.cpu(), right[1], atol=1e-4)
        out, _ = trunkline.merge_state(states[:3], lse[:3], states[3:], lse[3:])
        right, _ = trunkline.merge_state(*(x.cpu() for x in (states[:3], lse[:3], states[3:], lse[3:])))
        np.testing.assert_allclose(out.float().cpu(), right.float(), atol=2e-3)

    def test_simple_level(self):
        step = Step([100, 130, 160], 5)
        k, v = step.kv[:, 0], step.kv[:, 1]
        out, lse = trunkline.decode_attention(step.q, k, v, step.table, step.lengths, return_lse=True)
        self.compare(out, step.right(), lse)

    def test_bad_input(self):
        step = Step([100, 130, 160], 5)
        attention = made(step)
        with self.assertRaisesRegex(RuntimeError, "there is no plan"):
            attention.run(step.q, step.kv)
        attention.plan(step.table, step.lengths)
        for wrong, text in (
            (dict(q=step.q.cpu(), out=step.q.clone()), "q is on cpu; expected: cuda:0"),
            (dict(kv=step.kv.cpu()), "k is on cpu; expected: cuda:0"),
            (dict(out=step.q.cpu()), "out is on cpu; expected: cuda:0"),
            (dict(lse=torch.zeros(3, HEADS)), "lse is on cpu; expected: cuda:0"),
            (dict(q=step.q.bfloat16()), "q has dtype bf16; expected: f16"),
            (dict(q=step.q[:2]), "q has shape"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                attention.run(**(dict(q=step.q, kv=step.kv) | wrong))
        with self.assertRaisesRegex(RuntimeError, "cannot grow, as it is the caller's"):
            made(step, workspace=torch.empty(100, dtype=torch.uint8, device="cuda")).plan(step.table, step.lengths)
        with self.assertRaisesRegex(ValueError, "workspace is on cpu; expected: cuda:0"):
            made(step, workspace=torch.empty(100, dtype=torch.uint8))
        with self.assertRaisesRegex(NotImplementedError, "f32|dtype"):
            trunkline.DecodeAttention(HEADS, KV_HEADS, DIM, PAGE, dtype="float32", device="cuda")
        attention.close()
        with self.assertRaises(trunkline.ClosedError):
            attention.run(step.q, step.kv)


if __name__ == "__main__":
    unittest.main()
