// DeFT-Flatten: blocks, masks and open ends worked by hand, and the evenness of blocks on random forests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "base/check.hpp"
#include "plan/policy_packs.hpp"
#include "plan/test_cases.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using ::testing::ElementsAre;
using testing::PolicyPacks;
using testing::uniform;

PolicyOptions blocks_of(std::int32_t tokens) {
  PolicyOptions options;
  options.flatten_block = tokens;
  return options;
}

// A root of 100 tokens with leaves of 30 and 30, and another tree of 50: 210 tokens, in blocks of 64, 64, 64 and 18.
// The third has the end of one leaf, the other leaf, and 32 tokens of the second tree.
TEST(FlattenPolicy, BlocksSpanNodesAndTrees) {
  const std::vector<std::int32_t> parent = {-1, 0, 0, -1};
  const std::vector<std::int32_t> tokens = {100, 30, 30, 50};
  const std::vector<std::int32_t> ends = {1, 2, 3};
  const Plan plan = testing::valid_plan(build_forest(ExplicitTree{parent, tokens, ends}), testing::shape_of(8, 8),
                                        testing::cpu_like_profile(4), Policy::kFlatten, blocks_of(64));
  EXPECT_THAT(plan.spans,
              ElementsAre(KvSpan{0, 0, 0, 64, -1, kSpanAbsolute},  //
                          KvSpan{0, 0, 64, 100, -1, kSpanAbsolute}, KvSpan{0, 0, 100, 128, 0, kSpanAbsolute},
                          KvSpan{0, 0, 128, 0, 1, kSpanEndFromEnd}, KvSpan{1, 0, 100, 0, 2, kSpanEndFromEnd},
                          KvSpan{2, 0, 0, 32, 3, kSpanAbsolute},  //
                          KvSpan{2, 0, 32, 0, -1, kSpanEndFromEnd}));
  EXPECT_THAT(plan.masks, ElementsAre(QueryMask{{1, 0}}, QueryMask{{1, 0}}, QueryMask{{2, 0}}, QueryMask{{4, 0}}));
  EXPECT_EQ(plan.items.size(), 4u);
  EXPECT_EQ(plan.statistics.kv_tokens_read, 210);
  EXPECT_EQ(plan.partials, 3 + 3 + 2);
}

// Three requests end at the same 100 tokens: each has a tail behind them, in the second block.
TEST(FlattenPolicy, RequestsThatEndTogetherHaveTheirOwnTails) {
  const Plan plan = testing::valid_plan(testing::star_forest(100, 3, 0), testing::shape_of(8, 8),
                                        testing::cpu_like_profile(4), Policy::kFlatten, blocks_of(64));
  ASSERT_EQ(plan.items.size(), 2u);
  EXPECT_EQ(plan.items[0].spans.size(), 1);
  EXPECT_EQ(plan.items[1].spans.size(), 1 + 3);
  EXPECT_EQ(plan.statistics.kv_tokens_read, 100);
}

// One block holds a root of 28 tokens and 100 leaves of one. DeFT's masks end at 64 queries, its code's groups at 32.
TEST(FlattenPolicy, ABlockMayHaveMoreQueriesThanTheirMasks) {
  const Plan plan = testing::valid_plan(testing::star_forest(28, 100, 1), testing::shape_of(8, 8),
                                        testing::cpu_like_profile(4), Policy::kFlatten, blocks_of(128));
  EXPECT_EQ(plan.items.size(), 1u);
  EXPECT_EQ(plan.masks.size(), 100u);
  EXPECT_EQ(plan.partials, 0);
}

// 328 tokens in blocks of 128, 128 and 72. The first has the root's 300 queries, so three items, of which the first
// alone sees the block's 100 leaves.
TEST(FlattenPolicy, BlocksOfTooManyQueriesAreSpread) {
  const Plan plan = testing::valid_plan(testing::star_forest(28, 300, 1), testing::shape_of(8, 8),
                                        testing::cpu_like_profile(4), Policy::kFlatten, blocks_of(128));
  std::vector<std::int32_t> queries;
  for (const WorkItem& item : plan.items) queries.push_back(item.queries.size());
  EXPECT_THAT(queries, ElementsAre(100, 100, 100, 128, 72));
  EXPECT_EQ(plan.statistics.kv_tokens_grouped, 328);
  EXPECT_EQ(plan.statistics.kv_tokens_read, 28 + 100 + 28 + 28 + 128 + 72);
  EXPECT_EQ(plan.partials, 2 * 200);  // the first 100 are done in their first item
}

TEST(FlattenPolicy, EveryBlockButTheLastIsFull) {
  for (int seed = 0; seed < testing::scaled(1000); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    testing::RandomBatchOptions batch;
    batch.page_size = uniform(random, 1, 24);
    batch.max_queries = uniform(random, 1, 3);
    batch.max_tokens = 200;
    const std::int32_t block = uniform(random, 1, 70);
    SCOPED_TRACE(concat("seed ", seed, ", blocks of ", block));
    // g = 1 and 36 queries at most: no block is spread.
    const PolicyPacks flatten(Policy::kFlatten, build_forest(testing::make_random_batch(random, batch).view()),
                              testing::shape_of(2, 2), testing::cpu_like_profile(3), blocks_of(block));
    std::int64_t left = flatten.forest().distinct_tokens;
    for (const Pack& pack : flatten.packs().packs()) {
      ASSERT_EQ(pack.tokens, std::min<std::int64_t>(left, block));  // empty requests come last
      left -= pack.tokens;
    }
    EXPECT_EQ(left, 0);
  }
}

}  // namespace
}  // namespace trunkline
