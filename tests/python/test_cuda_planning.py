"""On a GPU, with torch: plans made there, of tables and lengths that the host never reads; in graphs too.

Skipped without a GPU. Needs neither pytest nor hypothesis: python tests/python/test_cuda_planning.py
"""

import contextlib
import unittest

import numpy as np
import trunkline
from cuda_steps import DIM, HEADS, KV_HEADS, PAGE, PAGES, CudaTest, Step, made, reason, torch, usable
from oracle import attention as oracle


@contextlib.contextmanager
def no_synchronisation():
    """Makes each call in which torch would wait for the GPU an error."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@unittest.skipUnless(usable(), reason())
class CudaPlanning(CudaTest):
    def test_tables_in_place(self):
        step = Step([300, 280, 17, 260, 2, 250], 10)
        lengths = torch.from_numpy(step.lengths).cuda()
        for kind in (torch.int32, torch.int64):
            table = torch.from_numpy(step.table).cuda().to(kind)
            attention = made(step, device_planning=trunkline.DevicePlanning(8))
            with no_synchronisation():
                attention.plan(table, lengths)
                out, lse = attention.run(step.q, step.kv, return_lse=True)
            self.compare(out, step.right(), lse)
            lengths -= 1
            step.lengths = step.lengths - 1
            attention.plan(table, lengths, num_pages=PAGES)
            self.compare(attention.run(step.q, step.kv), step.right())
            lengths += 1
            step.lengths = step.lengths + 1
            attention.resolve()
            self.compare(attention.run(step.q, step.kv), step.right())
        report = attention.plan_report()
        self.assertEqual(report.planned + report.reused, 2)
        self.assertEqual((report.unplanned, report.fallbacks, report.bad_lengths, report.bad_queries), (0, 0, 0, 0))
        self.assertLess(report.kv_tokens_distinct, report.kv_tokens_total)
        self.assertLessEqual(report.kv_tokens_distinct, report.kv_tokens_read)
        attention.close()
        with self.assertRaises(trunkline.ClosedError):
            attention.plan(table, lengths)

    def test_a_plan_is_kept(self):
        step = Step([290, 274, 210], 10)
        lengths, table = torch.from_numpy(step.lengths).cuda(), torch.from_numpy(step.table).cuda()
        attention = made(step, device_planning=trunkline.DevicePlanning(3, growth=4))
        for _ in range(8):
            attention.plan(table, lengths)
            self.compare(attention.run(step.q, step.kv), step.right())
            lengths += 1
            step.lengths = step.lengths + 1
        report = attention.plan_report()
        self.assertEqual((report.planned, report.reused), (2, 6))  # made at 0 and at 5 tokens of growth

    def test_other_tables(self):
        step = Step([200, 210, 190, 0, 64], 8, "bfloat16")
        attention = made(step, lse_base="two", device_planning=trunkline.DevicePlanning(5))
        tables = [values.cuda() for values in step.csr()]
        with no_synchronisation():
            attention.plan_csr(*tables)
            out, lse = attention.run(step.q, step.kv, return_lse=True)
        self.compare(out, step.right(base_two=True), lse)

        torch.manual_seed(1)
        lengths, pool = [70, 90], np.random.default_rng(1).permutation(400)[:200].reshape(2, 100).astype(np.int32)
        pool[1, :64] = pool[0, :64]
        q = torch.randn(2, HEADS, DIM, device="cuda").half()
        k, v = torch.randn(2, 400, 1, KV_HEADS, DIM, device="cuda").half()
        attention = trunkline.DecodeAttention(
            HEADS, KV_HEADS, DIM, 1, device="cuda", device_planning=trunkline.DevicePlanning(2)
        )
        places, known = (torch.tensor(values, dtype=torch.int32, device="cuda") for values in ([1, 0], lengths))
        attention.plan_token_level(torch.from_numpy(pool).cuda(), places, known)
        right = oracle(*(x.float().cpu().numpy() for x in (q, k, v)), pool[::-1].tolist(), lengths)
        self.compare(attention.run(q, (k, v)), right)

    def test_several_query_tokens_on_the_device(self):
        step = Step([40, 50], 2)
        starts = [0, 3, 5]
        q = torch.randn(8, HEADS, DIM, device="cuda").half()
        attention = made(step, device_planning=trunkline.DevicePlanning(2, max_queries=8))
        attention.plan(
            torch.from_numpy(step.table).cuda(),
            torch.from_numpy(step.lengths).cuda(),
            query_start_loc=torch.tensor(starts, dtype=torch.int32, device="cuda"),
        )
        out = attention.run(q, step.kv, out=torch.full_like(q, 7))
        self.compare(out[:5], step.right(q[:5], query_start=starts))
        self.assertTrue(bool((out[5:] == 7).all()))
        with self.assertRaisesRegex(ValueError, r"q has shape \[5, 8, 128\]; expected: .* = \[8, 8, 128\]"):
            attention.run(q[:5], step.kv)
        table, lengths = torch.from_numpy(step.table).cuda(), torch.from_numpy(step.lengths).cuda()
        for last, bad in ((5, 0), (6, 1)):  # beyond num_queries no request has a query, and nothing is written
            counts = torch.tensor([0, 3, last], dtype=torch.int32, device="cuda")
            attention.plan(table, lengths, query_start_loc=counts, num_queries=5)
            out = attention.run(q[:5], step.kv, out=torch.full_like(q[:5], 7))
            torch.cuda.synchronize()
            self.assertEqual(attention.plan_report().bad_queries, bad)
            if bad:
                self.assertTrue(bool((out == 7).all()))
            else:
                self.compare(out, step.right(q[:5], query_start=starts))

    def test_a_prepared_step(self):
        step = Step([300, 280, 17, 260], 10)
        lengths, table = torch.from_numpy(step.lengths).cuda(), torch.from_numpy(step.table).cuda()
        attention = made(step, device_planning=trunkline.DevicePlanning(4))
        prepared = attention.prepare(table, lengths)
        for _ in range(3):
            with no_synchronisation():
                attention.plan_prepared(prepared)
            self.compare(attention.run(step.q, step.kv), step.right())
            lengths -= 1
            step.lengths = step.lengths - 1

    def test_what_a_joined_stream_wrote_is_read(self):
        """The kernel is launched while the one before ends; here that is a copy of another stream."""
        step = Step([300, 280, 17], 10)
        lengths, table = torch.from_numpy(step.lengths).cuda(), torch.from_numpy(step.table).cuda()
        attention = made(step, device_planning=trunkline.DevicePlanning(3))
        attention.plan(table, lengths)
        source, q, out = step.q.clone(), torch.empty_like(step.q), torch.empty_like(step.q)
        attention.run(step.q, step.kv, out=out)
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(graph):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                q.copy_(source)
            torch.cuda.current_stream().wait_stream(side)
            attention.run(q, step.kv, out=out)
            q.zero_()
        for factor in (1, 2, -1):
            source.copy_(step.q * factor)
            graph.replay()
            self.compare(out, step.right(step.q * factor))

    def test_on_a_stream(self):
        step = Step([300, 280, 17], 10)
        table, lengths = torch.zeros(3, 64, dtype=torch.int32, device="cuda"), torch.zeros(3, dtype=torch.int32).cuda()
        right = [torch.from_numpy(values).cuda() for values in (step.table, step.lengths)]
        attention = made(step, device_planning=trunkline.DevicePlanning(3))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            table[:, : step.table.shape[1]].copy_(right[0])  # ready only after the sleep
            lengths.copy_(right[1])
            attention.plan(table, lengths)
            out = attention.run(step.q, step.kv)
        side.synchronize()
        self.compare(out, step.right())

    def test_graphs_that_plan(self):
        steps = [
            Step([100, 130, 160, 90], 5, seed=1),
            Step([150, 135, 170, 100], 6, seed=2),
            Step([20, 0, 33, 100], 1, seed=3),
        ]
        table = torch.zeros(4, 64, dtype=torch.int32, device="cuda")
        lengths = torch.zeros(4, dtype=torch.int32, device="cuda")
        q, kv = torch.empty_like(steps[0].q), torch.empty_like(steps[0].kv)
        out = torch.empty_like(q)
        attention = made(steps[0], device_planning=trunkline.DevicePlanning(4))

        def begin(step):
            table[:, : step.table.shape[1]].copy_(torch.from_numpy(step.table))
            lengths.copy_(torch.from_numpy(step.lengths))
            q.copy_(step.q)
            kv.copy_(step.kv)
            out.fill_(float("nan"))

        begin(steps[0])
        attention.plan(table, lengths)
        attention.run(q, kv, out=out)
        self.compare(out, steps[0].right())
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            attention.plan(table, lengths)
            for _ in range(2):
                attention.run(q, kv, out=out)
        for step in (steps[1], steps[2], steps[0], steps[0]):
            begin(step)
            graph.replay()
            self.compare(out, step.right())
        report = attention.plan_report()
        self.assertEqual((report.planned, report.reused), (4, 1))
        begin(steps[1])  # and without the graph, in the same workspace
        attention.plan(table, lengths)
        self.compare(attention.run(q, kv), steps[1].right())

    def test_graphs_of_a_single_row(self):
        """Captured with num_queries=1 by a planner with room for more; rows behind the first stay as they are."""
        steps = [Step([700], 5, seed=1), Step([3], 1, seed=2), Step([699], 4, seed=3), Step([0], 0, seed=4)]
        table = torch.zeros(1, 64, dtype=torch.int32, device="cuda")
        lengths = torch.zeros(1, dtype=torch.int32, device="cuda")
        q = torch.zeros(8, *steps[0].q.shape[1:], dtype=steps[0].q.dtype, device="cuda")
        kv, out = torch.empty_like(steps[0].kv), torch.empty_like(q)
        attention = made(steps[0], device_planning=trunkline.DevicePlanning(8))

        def begin(step):
            table[:, : step.table.shape[1]].copy_(torch.from_numpy(step.table))
            lengths.copy_(torch.from_numpy(step.lengths))
            q[:1].copy_(step.q)
            kv.copy_(step.kv)
            out.fill_(float("nan"))

        begin(steps[0])
        attention.plan(table, lengths)
        attention.run(q, kv, out=out, num_queries=1)
        self.compare(out[:1], steps[0].right())
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            attention.plan(table, lengths)
            attention.run(q, kv, out=out, num_queries=1)
        for step in (*steps, steps[0]):
            begin(step)
            graph.replay()
            self.compare(out[:1], step.right())
            self.assertTrue(bool(torch.isnan(out[1:]).all()))

    def test_graphs_that_plan_csr_tables(self):
        from trunkline.integrations.flashinfer import BatchDecodeWithPagedKVCacheWrapper

        steps = [Step([100, 130, 160], 5, seed=1), Step([90, 140, 0], 4, seed=2), Step([150, 10, 170], 6, seed=3)]
        workspace = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        buffers = [torch.zeros(count, dtype=torch.int32, device="cuda") for count in (4, 1000, 3)]
        given = [torch.zeros_like(buffer) for buffer in buffers]
        q, kv = torch.empty_like(steps[0].q), torch.empty_like(steps[0].kv)
        out = torch.empty_like(q)

        def begin(step):
            for tensor, values in zip(given, step.csr()):
                tensor[: len(values)].copy_(values)
            q.copy_(step.q)
            kv.copy_(step.kv)
            out.fill_(float("nan"))

        attention = made(steps[0], device_planning=trunkline.DevicePlanning(3))
        wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", True, False, *buffers)

        def plan_attention():
            attention.plan_csr(*given)

        def plan_wrapper():
            wrapper.plan(*given, HEADS, KV_HEADS, DIM, PAGE, q_data_type=torch.float16)

        for planned, plan in ((attention, plan_attention), (wrapper, plan_wrapper)):
            begin(steps[0])
            plan()
            planned.run(q, kv, out=out)
            torch.cuda.synchronize()
            whole, alone = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(whole):
                plan()
                planned.run(q, kv, out=out)
            for step in (steps[1], steps[2], steps[0]):
                begin(step)
                whole.replay()
                self.compare(out, step.right())
            # FlashInfer's way: plan() before each replay of run() alone.
            plan()
            torch.cuda.synchronize()
            with torch.cuda.graph(alone):
                planned.run(q, kv, out=out)
            for step in (steps[2], steps[1]):
                begin(step)
                with no_synchronisation():
                    plan()
                alone.replay()
                self.compare(out, step.right())
            self.assertGreaterEqual(planned.plan_report().planned, 5)
        # The first plan has decided where plans are made, so that tables may come from the host.
        begin(steps[2])
        wrapper.plan(*steps[2].csr(), HEADS, KV_HEADS, DIM, PAGE, q_data_type=torch.float16)
        alone.replay()
        self.compare(out, steps[2].right())

    def test_the_first_plan_is_not_captured(self):
        step = Step([100, 130, 160], 5)
        table, lengths = torch.from_numpy(step.table).cuda(), torch.from_numpy(step.lengths).cuda()
        attention = made(step, device_planning=trunkline.DevicePlanning(3))
        torch.cuda.synchronize()
        expected = self.assertRaisesRegex(RuntimeError, r"call plan\(\) once before the capture")
        with expected, torch.cuda.graph(torch.cuda.CUDAGraph()):
            lengths += 0  # so that the graph is not empty
            attention.plan(table, lengths)
        attention.plan(table, lengths)
        self.compare(attention.run(step.q, step.kv), step.right())

    def test_workspaces_and_capacities(self):
        step = Step([300, 280, 17, 260, 1, 250], 10)
        table, lengths = torch.from_numpy(step.table).cuda(), torch.from_numpy(step.lengths).cuda()
        planning = trunkline.DevicePlanning(6)
        nbytes = made(step, device_planning=planning).workspace_bytes()
        workspaces = [torch.empty(nbytes + 256, dtype=torch.uint8, device="cuda") for _ in range(2)]
        attention = made(step, device_planning=planning, workspace=workspaces[0])
        attention.plan(table, lengths)
        self.compare(attention.run(step.q, step.kv), step.right())
        attention.set_workspace(workspaces[1])
        workspaces[0].fill_(255)
        attention.plan(table, lengths)
        self.compare(attention.run(step.q, step.kv), step.right())
        small = torch.empty(nbytes // 2, dtype=torch.uint8, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "cannot grow, as it is the caller's"):
            made(step, device_planning=planning, workspace=small).plan(table, lengths)
        tight = trunkline.DevicePlanning(6, capacity_items=6, capacity_spans=6, capacity_partials=1)
        attention = made(step, device_planning=tight)
        attention.plan(table, lengths)
        self.compare(attention.run(step.q, step.kv), step.right())
        self.assertEqual(attention.plan_report().unplanned, 0)

    def test_draft_trees(self):
        step = Step([70, 90, 75, 60], 3)
        starts, parents = [0, 5, 6, 10, 12], [-1, 0, 0, 1, 1, -1, -1, 0, 0, 2, -1, 0]
        q = torch.randn(12, HEADS, DIM, device="cuda").half()
        table, lengths = torch.from_numpy(step.table).cuda(), torch.from_numpy(step.lengths).cuda()
        counts, trees = (torch.tensor(values, dtype=torch.int32, device="cuda") for values in (starts, parents))
        attention = made(step, device_planning=trunkline.DevicePlanning(4, max_queries=12))
        with no_synchronisation():
            attention.plan(table, lengths, query_start_loc=counts, query_parents=trees)
            out = attention.run(q, step.kv)
        self.compare(out, step.right(q, query_start=starts, parents=parents))
        trees[3] = 7  # no token of its request comes before it, so that no request has a query
        attention.plan(table, lengths, query_start_loc=counts, query_parents=trees)
        torch.cuda.synchronize()
        self.assertEqual(attention.plan_report().bad_queries, 1)

    def test_invariant_plans_of_the_device_are_those_of_the_host(self):
        whole = Step([300, 280, 17, 260, 2, 250], 10)
        options = trunkline.PlanOptions("invariant", invariant_chunk=64)
        host = made(whole, options=options)
        host.plan(whole.table, whole.lengths)
        table, lengths = torch.from_numpy(whole.table).cuda(), torch.from_numpy(whole.lengths).cuda()
        there = made(whole, options=options, device_planning=trunkline.DevicePlanning(6))
        there.plan(table, lengths)
        out = there.run(whole.q, whole.kv)
        self.assertTrue(torch.equal(out, host.run(whole.q, whole.kv)))
        for row in range(6):  # alone, each request has the bits that it has among others
            there.plan(table[row : row + 1], lengths[row : row + 1])
            alone = there.run(whole.q[row : row + 1], whole.kv)
            self.assertTrue(torch.equal(alone[0], out[row]))

    def test_refusals(self):
        step = Step([100, 130, 160], 5)
        table, lengths = torch.from_numpy(step.table).cuda(), torch.from_numpy(step.lengths).cuda()
        attention = made(step, use_cuda_graph=True, device_planning=trunkline.DevicePlanning(3))
        for wrong, kind, text in (
            (dict(page_table=step.table), ValueError, "page_table is on cpu; expected: cuda:0"),
            (dict(kv_lens=lengths.cpu()), ValueError, "kv_lens is on cpu; expected: cuda:0"),
            (dict(kv_lens=lengths.long()), TypeError, "kv_lens has dtype int64; expected: int32"),
            (dict(forest=trunkline.Forest()), ValueError, "forest is given"),
            (dict(null_page=0), ValueError, "null_page is 0; expected: that of device_planning, None"),
            (dict(num_pages=2**64), ValueError, "num_pages is 18446744073709551616; expected: at most"),
            (dict(num_pages="all"), TypeError, "num_pages is 'all'; expected: an int"),
            (
                dict(page_table=table.repeat(2, 1), kv_lens=lengths.repeat(2)),
                ValueError,
                "the step has 6 requests; expected: at most device_planning.max_rows = 3",
            ),
        ):
            with self.assertRaisesRegex(kind, text):
                attention.plan(**(dict(page_table=table, kv_lens=lengths) | wrong))
            with self.assertRaisesRegex(RuntimeError, "there is no plan"):
                attention.run(step.q, step.kv)
        attention.plan(table, lengths)
        self.compare(attention.run(step.q, step.kv), step.right())
        with self.assertRaisesRegex(ValueError, "the page table is elsewhere than with the first plan"):
            attention.plan(table.clone(), lengths)
        live = trunkline.LiveBatch(page_size=PAGE, num_pages=PAGES)
        for use in (
            lambda: attention.statistics,
            lambda: attention.current,
            attention.explain,
            lambda: attention.plan_live(live),
        ):
            with self.assertRaisesRegex(NotImplementedError, "with device_planning; supported: plan"):
                use()
        with self.assertRaisesRegex(
            ValueError, "expected with device_planning: none, policy='trunk', or policy='invariant'"
        ):
            made(step, policy="flat", device_planning=trunkline.DevicePlanning(3))
        with self.assertRaisesRegex(TypeError, "device_planning is 3; expected: a DevicePlanning"):
            made(step, device_planning=3)


if __name__ == "__main__":
    unittest.main()
