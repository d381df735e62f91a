"""The port of Forest Cascade Attention on the host: groups against all partitions, layouts, batches that change."""

import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench/vllm"))
try:
    import numpy as np
except ImportError:
    if __name__ == "__main__":
        sys.exit(77)  # skipped, to ctest
    raise unittest.SkipTest("numpy is not installed") from None

from forest_cascade.groups import Group, find_groups, paying, shareable_pages  # noqa: E402
from forest_cascade.layout import lay_out  # noqa: E402
from forest_cascade.limits import Limits, limits_from  # noqa: E402
from forest_cascade.tracker import GroupTracker, follow, renumber  # noqa: E402

PAGE = 16


def random_table(rng, rows: int, columns: int, ids: int = 3) -> np.ndarray:
    """Rows that often share a first part: each row copies a random earlier one up to a random column."""
    table = rng.integers(1, 1 + ids, (rows, columns)).astype(np.int32) + 10 * np.arange(columns, dtype=np.int32)
    for row in range(1, rows):
        cut = rng.integers(0, columns + 1)
        table[row, :cut] = table[rng.integers(row), :cut]
    return table


def common_pages(table, pages, rows) -> int:
    """Naively: the first columns in which all of these rows agree."""
    depth = min(pages[row] for row in rows)
    for column in range(depth):
        if len({int(table[row, column]) for row in rows}) > 1:
            return column
    return int(depth)


def partitions(rows: list[int]):
    if not rows:
        yield []
        return
    first, *rest = rows
    for parts in partitions(rest):
        yield [[first], *parts]
        for i in range(len(parts)):
            yield [*parts[:i], [first, *parts[i]], *parts[i + 1 :]]


def most_saved(table, pages) -> int:
    return max(
        sum((len(part) - 1) * common_pages(table, pages, part) for part in parts)
        for parts in partitions(list(range(len(table))))
    )


class GroupsTest(unittest.TestCase):
    def test_no_partition_of_the_rows_saves_more(self):
        for seed in range(150):
            rng = np.random.default_rng(seed)
            rows, columns = int(rng.integers(1, 8)), int(rng.integers(1, 9))
            table = random_table(rng, rows, columns)
            pages = rng.integers(0, columns + 1, rows)
            found = find_groups(table, pages)
            self.assertEqual(sum(g.saved_pages() for g in found), most_saved(table, pages), f"seed {seed}")

    def test_groups_are_disjoint_and_share_what_they_say(self):
        for seed in range(30):
            rng = np.random.default_rng(seed)
            rows = int(rng.integers(2, 200))
            table = random_table(rng, rows, 20)
            pages = rng.integers(0, 21, rows)
            found = find_groups(table, pages)
            grouped = [row for group in found for row in group.rows]
            self.assertEqual(len(grouped), len(set(grouped)), f"seed {seed}")
            for group in found:
                self.assertGreaterEqual(common_pages(table, pages, group.rows), group.pages, f"seed {seed}")
                self.assertEqual(list(group.rows), sorted(group.rows))
            self.assertEqual([g.rows[0] for g in found], sorted(g.rows[0] for g in found))

    def test_one_level_of_a_forest(self):
        # Two questions of 8 samples on one system prompt of 4 pages, one of them with a document of 10 pages.
        table = np.arange(16 * 20, dtype=np.int32).reshape(16, 20) + 100
        table[:, :4] = [1, 2, 3, 4]
        table[:8, :14] = table[0, :14]
        found = find_groups(table, np.full(16, 20))
        self.assertEqual(found, [Group(tuple(range(8)), 14), Group(tuple(range(8, 16)), 4)])

    def test_a_deeper_group_that_saves_less_is_not_formed(self):
        table = np.arange(4 * 10, dtype=np.int32).reshape(4, 10) + 100
        table[:, :6] = table[0, :6]
        table[1, :8] = table[0, :8]  # 2 rows share 8: 3 * 6 = 18 saved by all four, 8 + 6 = 14 by two pairs
        self.assertEqual(find_groups(table, np.full(4, 10)), [Group((0, 1, 2, 3), 6)])

    def test_one_row_and_nothing_shared(self):
        table = np.arange(1, 41, dtype=np.int32).reshape(4, 10)
        self.assertEqual(find_groups(table[:1], np.array([10])), [])
        self.assertEqual(find_groups(table, np.full(4, 10)), [])
        self.assertEqual(find_groups(np.ones((4, 3), np.int32), np.zeros(4, int)), [])
        self.assertEqual(find_groups(np.empty((4, 0), np.int32), np.zeros(4, int)), [])

    def test_a_chain_of_many_depths_ends(self):
        rows = 1000
        table = np.ones((rows, rows), dtype=np.int32)
        table[np.arange(rows), np.arange(rows)] = 2  # row i shares i pages with each later one
        best = [0] * (rows + 1)  # of the rows from one on: those up to the next group share its first one's pages
        for row in range(rows - 1, -1, -1):
            best[row] = max((end - row - 1) * row + best[end] for end in range(row + 1, rows + 1))
        self.assertEqual(sum(g.saved_pages() for g in find_groups(table, np.full(rows, rows))), best[0])

    def test_small_and_short_groups_are_left_out(self):
        table = np.arange(6 * 10, dtype=np.int32).reshape(6, 10) + 100
        table[:4, :2], table[4:, :5] = [1, 2], [5, 6, 7, 8, 9]
        pages = np.full(6, 10)
        self.assertEqual(find_groups(table, pages, 3, 2), [Group((4, 5), 5)])
        self.assertEqual(find_groups(table, pages, 1, 3), [Group((0, 1, 2, 3), 2)])

    def test_pages_that_may_be_shared(self):
        table = np.array([[7, 8, 9], [7, 0, 9], [0, 0, 0], [7, 8, 9]], dtype=np.int32)
        # 33 tokens leave the last one to the suffix; 32 do not fill two pages before their last token.
        self.assertEqual(shareable_pages(table, np.array([33, 48, 0, 32]), PAGE).tolist(), [2, 1, 0, 1])


class PayingTest(unittest.TestCase):
    LIMITS = Limits(min_saved_bytes=100)
    GROUPS = [Group(tuple(range(8)), 5)]

    def test_each_threshold(self):
        self.assertTrue(paying(self.GROUPS, 8, 10, self.LIMITS))
        self.assertFalse(paying([], 8, 10, self.LIMITS))
        self.assertFalse(paying([Group(tuple(range(7)), 50)], 7, 10, self.LIMITS))  # requests
        self.assertTrue(paying(self.GROUPS, 32, 10, self.LIMITS))
        self.assertFalse(paying(self.GROUPS, 33, 10, self.LIMITS))  # a quarter
        self.assertFalse(paying(self.GROUPS, 8, 2, self.LIMITS))  # 70 bytes
        many = [Group((2 * i, 2 * i + 1), 50) for i in range(257)]
        self.assertTrue(paying(many[:256], 512, 10, self.LIMITS))
        self.assertFalse(paying(many, 514, 10, self.LIMITS))

    def test_limits_of_the_environment(self):
        self.assertEqual(limits_from(None), Limits())
        self.assertEqual(limits_from('{"min_group_size": 4}').min_group_size, 4)
        self.assertEqual(limits_from('{"min_grouped_fraction": 0.5}').min_grouped_fraction, 0.5)
        for wrong in (
            '{"groups": 4}',
            "[1]",
            "{",
            '{"min_requests": "8"}',
            '{"max_groups": -1}',
            '{"max_groups": 0.5}',
        ):
            with self.assertRaisesRegex(ValueError, "FOREST_CASCADE", msg=wrong):
                limits_from(wrong)
        self.assertEqual(json.loads('{"min_requests": 8}')["min_requests"], Limits().min_requests)


class LayoutTest(unittest.TestCase):
    def test_neighbours_stay_where_they_are(self):
        made = lay_out([Group((6, 7), 2), Group((1, 2, 3), 5)], 10)
        self.assertIsNone(made.order)
        self.assertEqual(made.starts.tolist(), [0, 1, 4, 6, 8, 10])
        self.assertEqual(made.pages.tolist(), [0, 5, 0, 2, 0])
        self.assertEqual(made.leader.tolist(), [0, 1, 4, 6, 8])
        self.assertEqual(made.sequence.tolist(), [0, 1, 1, 1, 2, 2, 3, 3, 4, 4])
        self.assertEqual(made.prefix_pages.tolist(), [0, 5, 5, 5, 0, 0, 2, 2, 0, 0])
        self.assertEqual((made.max_queries, made.max_pages), (3, 5))

    def test_others_are_packed(self):
        made = lay_out([Group((0, 2), 4), Group((1, 5), 3)], 6)
        self.assertEqual(made.order.tolist(), [0, 2, 1, 5, 3, 4])
        self.assertEqual(made.starts.tolist(), [0, 2, 4, 6])
        self.assertEqual(made.leader.tolist(), [0, 1, 3])
        self.assertEqual(made.prefix_pages.tolist(), [4, 3, 4, 0, 0, 3])

    def test_one_group_of_all_rows(self):
        made = lay_out([Group(tuple(range(4)), 9)], 4)
        self.assertEqual((made.starts.tolist(), made.pages.tolist(), made.order), ([0, 4], [9], None))


class FakeCopies:
    """Copies that come after so many questions."""

    def __init__(self, delay: int):
        self.delay, self.left, self.kept, self.begun = delay, 0, None, 0

    def begin(self, table, lengths, rows, columns):
        assert self.kept is None
        self.kept, self.left = (table[:rows, :columns].copy(), lengths[:rows].copy()), self.delay
        self.begun += 1

    def take(self):
        if self.left > 0:
            self.left -= 1
            return None
        kept, self.kept = self.kept, None
        return kept


def batch_of(sizes: list[int], shared: int, own: int) -> tuple[np.ndarray, np.ndarray]:
    """Groups of rows with so many shared pages and own ones. Lengths are different but in a group."""
    rows = sum(sizes)
    table = np.arange(rows * (shared + own), dtype=np.int32).reshape(rows, -1) + 1000
    lengths, at = [], 0
    for i, size in enumerate(sizes):
        table[at : at + size, :shared] = table[at, :shared]
        lengths += [shared * PAGE + 1 + i] * size
        at += size
    return table, np.array(lengths, dtype=np.int32)


class TrackerTest(unittest.TestCase):
    LIMITS = Limits(min_requests=2, min_saved_bytes=0)

    def tracker(self, delay: int, **changes) -> tuple[GroupTracker, FakeCopies]:
        copies = FakeCopies(delay)
        limits = Limits(**{"min_requests": 2, "min_saved_bytes": 0, **changes})
        return GroupTracker(copies, PAGE, 100, limits), copies

    def test_groups_come_with_the_copy_and_stay_without_another(self):
        table, lengths = batch_of([4, 4], 3, 4)
        tracker, copies = self.tracker(delay=1)
        self.assertIsNone(tracker.observe(table, lengths, lengths))
        layouts = [tracker.observe(table, lengths + i, lengths + i) for i in range(1, 20)]
        self.assertEqual(layouts[0].groups, (Group((0, 1, 2, 3), 3), Group((4, 5, 6, 7), 3)))
        self.assertTrue(all(layout is layouts[0] for layout in layouts))  # so that nothing is uploaded again
        self.assertEqual(copies.begun, 1)

    def test_rows_that_end_are_followed_before_the_next_copy_is_there(self):
        table, lengths = batch_of([4, 4], 3, 4)
        tracker, copies = self.tracker(delay=2)
        for i in range(4):
            tracker.observe(table, lengths + i, lengths + i)
        left = [0, 1, 3, 4, 5, 6, 7]
        layout = tracker.observe(table[left], lengths[left] + 4, lengths[left] + 4)
        self.assertEqual(layout.groups, (Group((0, 1, 2), 3), Group((3, 4, 5, 6), 3)))
        self.assertEqual(copies.begun, 2)

    def test_a_copy_of_earlier_rows_is_read_by_the_rows_of_now(self):
        table, lengths = batch_of([4, 4], 3, 4)
        tracker, _ = self.tracker(delay=1)
        self.assertIsNone(tracker.observe(table, lengths, lengths))
        left = [1, 2, 3, 4, 5, 6]
        layout = tracker.observe(table[left], lengths[left] + 1, lengths[left] + 1)
        self.assertEqual(layout.groups, (Group((0, 1, 2), 3), Group((3, 4, 5), 3)))

    def test_another_batch_has_no_groups_before_its_copy(self):
        table, lengths = batch_of([4, 4], 3, 4)
        tracker, _ = self.tracker(delay=1)
        for i in range(3):
            self.assertEqual(tracker.observe(table, lengths + i, lengths + i) is None, i == 0)
        other, longer = batch_of([3, 5], 2, 5)
        self.assertIsNone(tracker.observe(other, longer + 900, longer + 900))
        layout = tracker.observe(other, longer + 901, longer + 901)
        self.assertEqual([g.rows for g in layout.groups], [(0, 1, 2), (3, 4, 5, 6, 7)])

    def test_lengths_that_are_not_known_end_everything(self):
        table, lengths = batch_of([4, 4], 3, 4)
        tracker, _ = self.tracker(delay=2)
        tracker.observe(table, lengths, lengths)
        tracker.forget()
        # The copy that was under way is of rows that may be others now.
        self.assertEqual([tracker.observe(table, lengths, lengths + i) is None for i in range(4)], [True] * 4)
        self.assertIsNotNone(tracker.observe(table, lengths, lengths + 4))

    def test_few_requests_are_not_copied(self):
        table, lengths = batch_of([4, 3], 3, 4)
        tracker, copies = self.tracker(delay=0, min_requests=8)
        self.assertIsNone(tracker.observe(table, lengths, lengths))
        self.assertEqual(copies.begun, 0)

    def test_follow(self):
        self.assertEqual(follow(np.array([5, 9]), np.array([6, 10])).tolist(), [0, 1])
        self.assertEqual(follow(np.array([5, 7, 9]), np.array([6, 10, 3])).tolist(), [0, 2, -1])
        self.assertEqual(follow(np.array([5]), np.array([50, 6])).tolist(), [-1, 0])
        self.assertEqual(follow(np.array([5]), np.array([], dtype=int)).tolist(), [])

    def test_renumber(self):
        groups = [Group((0, 1, 2), 3), Group((3, 4), 2)]
        self.assertEqual(renumber(groups, np.array([1, 2, 4, -1])), [Group((0, 1), 3)])


if __name__ == "__main__":
    unittest.main()
