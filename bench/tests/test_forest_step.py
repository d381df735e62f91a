"""A step of the port of Forest Cascade Attention, with kernels on the CPU, against plain attention in float64."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench/vllm"), str(ROOT / "bench/tests")]
try:
    import numpy as np
    import torch
except ImportError:
    if __name__ == "__main__":
        sys.exit(77)  # skipped, to ctest
    raise unittest.SkipTest("torch is not installed") from None

from forest_cascade.cascade import Call, attend, prefix_call, suffix_call  # noqa: E402
from forest_cascade.groups import Group, find_groups, shareable_pages  # noqa: E402
from forest_cascade.layout import lay_out  # noqa: E402
from forest_cascade.step import DeviceLayout, TorchCopies  # noqa: E402
from forest_kernels import TorchKernels, plain_attention  # noqa: E402

torch.set_num_threads(1)  # tensors are tiny
PAGE, HEADS, KV_HEADS, DIM = 4, 6, 2, 8


class Batch:
    """Random decode rows: shared first pages at several depths, then pages of their own. Unused pages are NaN, and
    so is the rest of each row's last page."""

    def __init__(self, seed: int, rows: int | None = None, shared: bool = True):
        rng = np.random.default_rng(seed)
        self.rows = int(rng.integers(1, 24)) if rows is None else rows
        self.columns = 12
        self.lengths = rng.integers(1, self.columns * PAGE + 1, self.rows).astype(np.int32)
        count = self.rows * self.columns + 1
        self.table = (1 + rng.permutation(self.rows * self.columns)).reshape(self.rows, -1).astype(np.int32)
        if shared:
            self.share(rng)
        self.lengths[rng.random(self.rows) < 0.1] = 0  # padding
        self.cache = torch.full((count, KV_HEADS, PAGE, 2 * DIM), float("nan"), dtype=torch.float64)
        drawn = torch.from_numpy(rng.standard_normal(tuple(self.cache.shape)))
        for row, length in zip(self.table, self.lengths, strict=True):
            tokens = np.arange(length)
            page, offset = row[tokens // PAGE], tokens % PAGE
            self.cache[page, :, offset] = drawn[page, :, offset]
        self.query = torch.from_numpy(rng.standard_normal((self.rows + 3, HEADS, DIM)))

    def share(self, rng) -> None:
        """Each row takes first pages of an earlier one, or of its neighbour, all before both rows' last tokens."""
        for row in range(1, self.rows):
            other = row - 1 if rng.random() < 0.5 else int(rng.integers(row))
            limit = (min(self.lengths[row], self.lengths[other]) - 1) // PAGE
            cut = int(rng.integers(limit + 1))
            self.table[row, :cut] = self.table[other, :cut]

    def groups(self) -> list[Group]:
        return find_groups(self.table, shareable_pages(self.table, self.lengths, PAGE))

    def step(self, groups: list[Group]):
        """A step laid out for these groups, which may be of another batch."""
        made = DeviceLayout(lay_out(groups, self.rows), PAGE, "cpu")
        table, lengths = torch.from_numpy(self.table), torch.from_numpy(self.lengths)
        return made.step(table, lengths, max(int(self.lengths.max()), 1), suffix_splits=0)

    def run(self, groups: list[Group]):
        step = self.step(groups)
        kernels = TorchKernels(self.cache, scale=0.3)
        output = torch.full_like(self.query, 77)
        attend(step, self.query, output, kernels)
        return step, kernels, output

    def expected(self):
        return plain_attention(self.query[: self.rows], self.cache, self.table, self.lengths, scale=0.3)


class StepTest(unittest.TestCase):
    def check(self, batch: Batch, output, what) -> None:
        torch.testing.assert_close(output[: batch.rows], batch.expected(), rtol=1e-12, atol=1e-12, msg=str(what))
        self.assertTrue(bool((output[batch.rows :] == 77).all()), what)

    def test_random_batches_are_as_plain_attention_has_them(self):
        packed = in_place = 0
        for seed in range(60):
            batch = Batch(seed)
            groups = batch.groups()
            if not groups:
                continue
            step, kernels, output = batch.run(groups)
            self.check(batch, output, f"seed {seed}")
            packed += step.order is not None
            in_place += step.order is None
            # All prefixes hold, and the prefix call reads each once.
            self.assertEqual(kernels.keys_read[0], sum(group.pages * PAGE for group in groups), f"seed {seed}")
            saved = sum(group.saved_pages() * PAGE for group in groups)
            self.assertEqual(sum(kernels.keys_read), int(batch.lengths.sum()) - saved, f"seed {seed}")
        self.assertGreater(packed, 10)
        self.assertGreater(in_place, 10)

    def test_groups_of_another_batch_are_not_believed(self):
        fallen = held = 0
        for seed in range(50):
            batch, other = Batch(seed, rows=12), Batch(seed + 1000, rows=12)
            groups = other.groups()
            if not groups:
                continue
            step, _, output = batch.run(groups)
            self.check(batch, output, f"seed {seed}")
            fallen += int((step.prefix_lens == 0).any())
            # Some of the batch's own groups, with a row that is not theirs, or too many pages.
            own = [Group(g.rows, g.pages + int(seed % 2)) for g in batch.groups()[:2]]
            if own and max(g.pages for g in own) <= batch.columns:
                step, _, output = batch.run(own)
                self.check(batch, output, f"seed {seed}, own")
                held += int((step.prefix_lens > 0).any())
        self.assertGreater(fallen, 20)
        self.assertGreater(held, 10)

    def test_one_row_in_a_group_that_differs_takes_its_prefix_alone(self):
        batch = Batch(7, rows=8, shared=False)
        batch.lengths[:] = 40
        batch.cache.copy_(torch.randn(batch.cache.shape, generator=torch.Generator().manual_seed(1)))
        batch.table[:4, :6], batch.table[4:, :6] = batch.table[0, :6], batch.table[4, :6]
        groups = [Group((0, 1, 2, 3), 6), Group((4, 5, 6, 7), 6)]
        batch.table[2, 3] += 1
        step, _, output = batch.run(groups)
        self.check(batch, output, "a page differs")
        self.assertEqual(step.prefix_lens.tolist(), [0, 6 * PAGE])
        self.assertEqual(step.suffix_lens.tolist(), [40] * 4 + [16] * 4)
        batch.lengths[5] = 6 * PAGE  # its last token would be in the prefix
        step, _, output = batch.run(groups)
        self.check(batch, output, "too short")
        self.assertEqual(step.prefix_lens.tolist(), [0, 0])

    def test_a_layout_serves_many_steps(self):
        batch = Batch(3, rows=8, shared=False)
        batch.lengths[:] = 30
        batch.cache.copy_(torch.randn(batch.cache.shape, generator=torch.Generator().manual_seed(1)))
        batch.table[::2, :5] = batch.table[0, :5]
        made = DeviceLayout(lay_out(batch.groups(), 8), PAGE, "cpu")
        for length in range(30, 48):
            batch.lengths[:] = length
            step = made.step(torch.from_numpy(batch.table), torch.from_numpy(batch.lengths), length, 1)
            output = torch.full_like(batch.query, 77)
            attend(step, batch.query, output, TorchKernels(batch.cache, scale=0.3))
            self.check(batch, output, f"length {length}")
            self.assertEqual(step.prefix_lens.tolist(), [5 * PAGE, 0])

    def test_calls_have_the_types_and_bounds_that_flash_attention_asks_for(self):
        batch = next(batch for batch in (Batch(seed, rows=16) for seed in range(50)) if len(batch.groups()) > 2)
        step = batch.step(batch.groups())
        for call in (prefix_call(step), suffix_call(step)):
            for tensor in (call.starts, call.lens, call.table):
                self.assertEqual(tensor.dtype, torch.int32)
                self.assertEqual(tensor.stride(-1), 1)
            self.assertEqual(len(call.starts), len(call.lens) + 1)
            self.assertEqual(len(call.table), len(call.lens))
            self.assertLessEqual(int(call.starts.diff().max()), call.max_queries)
            self.assertLessEqual(int(call.lens.max()), min(call.max_tokens, call.table.shape[1] * PAGE))
        self.assertEqual((prefix_call(step).causal, suffix_call(step).causal), (False, True))


class KernelsTest(unittest.TestCase):
    """The stand-in itself: it must notice what FlashAttention may not be given."""

    def call(self, **changes) -> Call:
        given = {
            "starts": torch.tensor([0, 1, 3], dtype=torch.int32),
            "lens": torch.tensor([4, 0], dtype=torch.int32),
            "table": torch.tensor([[1], [0]], dtype=torch.int32),
            "max_queries": 2, "max_tokens": 4, "causal": False, "splits": 0, "schedule": None,
        }  # fmt: skip
        return Call(**(given | changes))

    def test_queries_without_keys_and_bounds(self):
        batch = Batch(1, rows=2, shared=False)
        batch.cache[:] = 1.0
        kernels = TorchKernels(batch.cache, scale=1.0)
        output, lse = kernels.attend(batch.query[:3], self.call())
        torch.testing.assert_close(output[0], torch.ones_like(output[0]))
        self.assertEqual((float(output[1:].abs().max()), bool((lse[:, 1:] == -torch.inf).all())), (0.0, True))
        for wrong in ({"max_queries": 1}, {"max_tokens": 3}, {"lens": torch.tensor([5, 0], dtype=torch.int32)}):
            with self.assertRaises(AssertionError, msg=str(wrong)):
                kernels.attend(batch.query[:3], self.call(**wrong))


class CopiesTest(unittest.TestCase):
    def test_a_copy_is_of_the_moment_and_given_once(self):
        copies = TorchCopies()
        self.assertIsNone(copies.take())
        for rows, columns in ((3, 4), (2, 2), (7, 5)):
            table = torch.randint(1, 100, (9, 8), dtype=torch.int32)
            lengths = torch.arange(9, dtype=torch.int32)
            expected = table[:rows, :columns].numpy().copy()
            copies.begin(table, lengths, rows, columns)
            table.zero_()
            found, longest = copies.take()
            np.testing.assert_array_equal(found, expected)
            self.assertEqual(longest.tolist(), list(range(rows)))
            self.assertIsNone(copies.take())


if __name__ == "__main__":
    unittest.main()
