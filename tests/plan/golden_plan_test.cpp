// One example worked by hand. Page size 16; requests A, B, C, D (rows, slots and queries 0 to 3). All share 32 tokens;
// A, B and C share 64 more; then A has 10, B 26, C 0 and D 48 tokens of their own. The forest in pre-order:
//
//   0: [0, 32)    A B C D
//   1: [32, 96)   A B C      C ends here
//   2: [96, 106)  A
//   3: [96, 122)  B
//   4: [32, 80)   D
//
// In depth-first order the requests are C, A, B, D: those that end in a node come before those of its children.
// 404 tokens in all (106 + 122 + 96 + 80), 180 of them distinct (32 + 64 + 10 + 26 + 48).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "plan/test_cases.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int32_t kA = 0, kB = 1, kC = 2, kD = 3;

Forest example_forest() {
  // Pages 1, 2: all. Pages 3 to 6: A, B, C. A has 7; B has 8 and 9; D has 10 to 12. 999 is never read.
  static const std::vector<std::int32_t> pages = {1, 2, 3,  4,  5,  6,   7,   999,  //
                                                  1, 2, 3,  4,  5,  6,   8,   9,    //
                                                  1, 2, 3,  4,  5,  6,   999, 999,  //
                                                  1, 2, 10, 11, 12, 999, 999, 999};
  static const std::vector<std::int32_t> kv_lens = {106, 122, 96, 80};
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(pages), 4, 8, 16);
  batch.kv_lens = kv_lens;
  batch.num_pages = 13;
  return build_forest(batch, IdCheck::kAllPages);
}

/// Heads 32/8: 4 rows a query; 512 bytes a token and head, so 4,096 a token. One microsecond a token and head.
Plan example_plan(Policy policy) {
  PlanOptions options;
  options.policy = policy;
  const Forest forest = example_forest();
  Plan plan = make_plan(forest, testing::shape_of(32, 8), testing::memory_only_profile(1), options);
  EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
  return plan;
}

KvSpan closed(std::int32_t slot, std::int32_t begin, std::int32_t end) {
  return {slot, 0, begin, end, -1, kSpanAbsolute};
}
KvSpan open(std::int32_t slot, std::int32_t begin, std::int32_t mask = -1) {
  return {slot, 0, begin, 0, mask, kSpanEndFromEnd};
}

TEST(GoldenPlan, QueriesAreTheRows) {
  const Plan plan = example_plan(Policy::kFlat);
  EXPECT_THAT(plan.queries,
              ElementsAre(Query{kA, 0, 0, 0}, Query{kB, 0, 0, 0}, Query{kC, 0, 0, 0}, Query{kD, 0, 0, 0}));
}

TEST(GoldenPlan, FlatReadsEveryRequestByItself) {
  const Plan plan = example_plan(Policy::kFlat);
  const TileShape tile = {16, 32};  // 4 rows
  EXPECT_THAT(plan.items, ElementsAre(WorkItem{{0, 1}, {0, 1}, tile}, WorkItem{{1, 2}, {1, 2}, tile},
                                      WorkItem{{2, 3}, {2, 3}, tile}, WorkItem{{3, 4}, {3, 4}, tile}));
  EXPECT_THAT(plan.item_queries, ElementsAre(kC, kA, kB, kD));
  EXPECT_THAT(plan.item_outputs, ElementsAre(kDirect, kDirect, kDirect, kDirect));
  EXPECT_THAT(plan.spans, ElementsAre(open(kC, 0), open(kA, 0), open(kB, 0), open(kD, 0)));
  EXPECT_THAT(plan.masks, IsEmpty());
  EXPECT_THAT(plan.merge_queries, IsEmpty());
  EXPECT_THAT(plan.merge_begin, ElementsAre(0));
  EXPECT_THAT(plan.merge_slots, IsEmpty());
  EXPECT_EQ(plan.partials, 0);
  EXPECT_THAT(plan.schedule, ElementsAre(2, 1, 0, 3));  // 122, 106, 96, 80 tokens
}

TEST(GoldenPlan, FlatStatistics) {
  const PlanStatistics statistics = example_plan(Policy::kFlat).statistics;
  EXPECT_EQ(statistics.kv_tokens_total, 404);
  EXPECT_EQ(statistics.kv_tokens_distinct, 180);
  EXPECT_EQ(statistics.kv_tokens_read, 404);
  EXPECT_EQ(statistics.kv_bytes_distinct, 180 * 4096);
  EXPECT_EQ(statistics.kv_bytes_read, 404 * 4096);
  EXPECT_EQ(statistics.kv_bytes_reread, 224 * 4096);
  EXPECT_EQ(statistics.qo_bytes, 65536);  // 4 queries x 32 heads x 128 elements x 2 bytes, in and out
  EXPECT_EQ(statistics.partials, 0);
  EXPECT_EQ(statistics.partial_bytes, 0);
  EXPECT_DOUBLE_EQ(statistics.flops, 4.0 * 128 * 32 * 404);
  EXPECT_DOUBLE_EQ(statistics.flops_padded, 4.0 * 128 * 32 * 404);  // 4 rows are not padded
  EXPECT_DOUBLE_EQ(statistics.predicted_us, 404 * 8 + 5);
  EXPECT_DOUBLE_EQ(statistics.bound_us, (180 * 4096 + 65536) / 512.0 + 5);
  EXPECT_EQ(statistics.fallbacks, 0);
}

// In node 1 C's tail is seen by C alone, the first of the item's three queries. The leaves are their requests' open
// ends.
void expect_one_item_a_node(const Plan& plan) {
  const TileShape tile = {16, 32};  // 16, 12, 4, 4 and 4 rows
  EXPECT_THAT(plan.items, ElementsAre(WorkItem{{0, 4}, {0, 1}, tile}, WorkItem{{4, 7}, {1, 3}, tile},
                                      WorkItem{{7, 8}, {3, 4}, tile}, WorkItem{{8, 9}, {4, 5}, tile},
                                      WorkItem{{9, 10}, {5, 6}, tile}));
  EXPECT_THAT(plan.item_queries, ElementsAre(kC, kA, kB, kD, kC, kA, kB, kA, kB, kD));
  EXPECT_THAT(plan.spans, ElementsAre(closed(kA, 0, 32), closed(kA, 32, 96), open(kC, 96, 0), open(kA, 96),
                                      open(kB, 96), open(kD, 32)));
  EXPECT_THAT(plan.masks, ElementsAre(QueryMask{{1, 0}}));
  // Slots query by query: A 0 to 2, B 3 to 5, C 6 and 7, D 8 and 9.
  EXPECT_EQ(plan.partials, 10);
  EXPECT_THAT(plan.item_outputs, ElementsAre(6, 0, 3, 8, 7, 1, 4, 2, 5, 9));
  EXPECT_THAT(plan.merge_queries, ElementsAre(kA, kB, kC, kD));
  EXPECT_THAT(plan.merge_begin, ElementsAre(0, 3, 6, 8, 10));
  EXPECT_THAT(plan.merge_slots, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(plan.schedule, ElementsAre(1, 4, 0, 3, 2));  // 64, 48, 32, 26, 10 tokens
}

TEST(GoldenPlan, NodeReadsEveryNodeOnce) {
  expect_one_item_a_node(example_plan(Policy::kNode));
}

TEST(GoldenPlan, NodeStatistics) {
  const PlanStatistics statistics = example_plan(Policy::kNode).statistics;
  EXPECT_EQ(statistics.kv_tokens_read, 180);
  EXPECT_EQ(statistics.kv_bytes_read, 180 * 4096);
  EXPECT_EQ(statistics.kv_bytes_reread, 0);
  EXPECT_EQ(statistics.partials, 10);
  EXPECT_EQ(statistics.partial_bytes, 2 * 10 * 32 * (128 + 1) * 4);  // written and read
  EXPECT_DOUBLE_EQ(statistics.flops, 4.0 * 128 * 32 * 404);
  // The root has 16 rows; node 1 has 12, padded to 16; leaves have 4. 32 x 16 + 64 x 16 + (10 + 26 + 48) x 4 = 1,872.
  EXPECT_DOUBLE_EQ(statistics.flops_padded, 4.0 * 128 * 8 * 1872);
  EXPECT_DOUBLE_EQ(statistics.predicted_us, 180 * 8 + 2 * 4 * 32 * 128 * 2 / 512.0 + 5);  // KV, Q and O, launch
}

// At the root L = 32: node 1 has 3 queries, 4 x 3 = 12 < 32: split; D has 1, 4 < 32: split. At node 1, which carries
// nothing, L = 64: A and B have 1 each, 4 < 64: split. So nothing merges, and the packs are the nodes.
TEST(GoldenPlan, ProfitSplitsEverywhereHere) {
  const Plan plan = example_plan(Policy::kProfit);
  EXPECT_EQ(plan.policy, Policy::kProfit);
  expect_one_item_a_node(plan);
}

// With 4 tokens at the root instead of 32 (page size 4 serves): at the root L = 4: node 1 has 3 queries, 12 >= 4:
// merge, and D, 4 >= 4: merge. Nobody is left at the root. Node 1 now carries L = 4 + 64: A and B split.
TEST(GoldenPlan, ProfitCarriesAShortRootAlong) {
  const std::vector<std::int32_t> parent = {-1, 0, 1, 1, 0};
  const std::vector<std::int32_t> tokens = {4, 64, 10, 26, 48};
  const std::vector<std::int32_t> end_node = {2, 3, 1, 4};
  const Forest forest = build_forest(ExplicitTree{parent, tokens, end_node});
  PlanOptions options;
  options.policy = Policy::kProfit;
  const Plan plan = make_plan(forest, testing::shape_of(32, 8), testing::memory_only_profile(1), options);
  EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
  EXPECT_THAT(plan.item_queries, ElementsAre(kC, kA, kB, kA, kB, kD));
  EXPECT_THAT(plan.spans, ElementsAre(closed(kA, 0, 68), open(kC, 68, 0), open(kA, 68), open(kB, 68), open(kD, 0)));
  EXPECT_THAT(plan.item_outputs, ElementsAre(kDirect, 0, 2, 1, 3, kDirect));
  EXPECT_EQ(plan.statistics.kv_tokens_read, 68 + 10 + 26 + 52);
}

}  // namespace
}  // namespace trunkline
