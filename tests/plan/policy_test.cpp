#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "base/check.hpp"
#include "plan/policies/policy_table.hpp"
#include "plan/query_order.hpp"
#include "plan/test_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;

Plan plan_with(const Forest& forest, Policy policy, KvSplit split = KvSplit::kNone, std::int32_t q_heads = 32) {
  Plan plan = make_plan(forest, testing::shape_of(q_heads, 8), testing::cpu_like_profile(4),
                        testing::options_of(policy, split));
  EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
  return plan;
}

std::vector<std::int32_t> item_sizes(const Plan& plan) {
  std::vector<std::int32_t> sizes;
  for (const WorkItem& item : plan.items) sizes.push_back(item.queries.size());
  return sizes;
}

std::vector<std::int32_t> span_lengths(const Plan& plan, std::int32_t kv_len) {
  std::vector<std::int32_t> lengths;
  for (const KvSpan& span : plan.spans) lengths.push_back(span.at(kv_len).size());
  return lengths;
}

/// A root of 32 tokens; `members` requests go on with 64 shared ones and end there; one request has 10 of its own.
Forest two_branches(std::int32_t members) {
  const std::vector<std::int32_t> parent = {-1, 0, 0};
  const std::vector<std::int32_t> tokens = {32, 64, 10};
  std::vector<std::int32_t> end_node(static_cast<std::size_t>(members), 1);
  end_node.push_back(2);
  return build_forest(ExplicitTree{parent, tokens, end_node});
}

TEST(ProfitPolicy, EqualityMerges) {
  const Plan split = plan_with(two_branches(7), Policy::kProfit);  // 4 x 7 = 28 < 32
  EXPECT_THAT(item_sizes(split), ElementsAre(8, 7, 1));
  EXPECT_EQ(split.statistics.kv_tokens_read, 32 + 64 + 10);

  const Plan merged = plan_with(two_branches(8), Policy::kProfit);  // 4 x 8 = 32
  EXPECT_THAT(item_sizes(merged), ElementsAre(1, 8, 1));  // the root keeps its tokens for the request that is left
  EXPECT_EQ(merged.statistics.kv_tokens_read, 32 + (32 + 64) + 10);
  EXPECT_EQ(merged.partials, 2);
}

// Nodes of 8, 8 and 40 tokens under each other, 4 requests in the last, 1 ending in the second. At the first, L = 8 and
// 5 queries merge; the second carries L = 16 and 4 queries merge at equality; what is left is the request that ends
// there.
TEST(ProfitPolicy, LengthsAccumulateAlongMerges) {
  const std::vector<std::int32_t> parent = {-1, 0, 1};
  const std::vector<std::int32_t> tokens = {8, 8, 40};
  const std::vector<std::int32_t> end_node = {2, 2, 2, 2, 1, 0};
  const Forest forest = build_forest(ExplicitTree{parent, tokens, end_node});
  const Plan plan = plan_with(forest, Policy::kProfit);
  EXPECT_THAT(item_sizes(plan), ElementsAre(1, 1, 4));
  EXPECT_EQ(plan.statistics.kv_tokens_read, 8 + 16 + 56);
  EXPECT_EQ(plan.partials, 0);
}

TEST(ProfitPolicy, QueriesCountNotRequests) {
  Forest forest = two_branches(2);
  std::int32_t begin = 0;
  for (ForestRequest& request : forest.requests) {
    request.queries = request.kv_len == 96 ? 4 : 1;  // 8 queries of two requests
    request.query_begin = begin;
    begin += request.queries;
  }
  EXPECT_THAT(item_sizes(plan_with(forest, Policy::kProfit)), ElementsAre(1, 8, 1));
}

TEST(NodePolicy, WideNodesAreSpreadEvenly) {
  const Plan narrow =
      plan_with(testing::star_forest(64, 300, 16), Policy::kNode, KvSplit::kNone, 8);  // g = 1: 128 queries
  EXPECT_EQ(item_sizes(narrow)[0], 100);
  EXPECT_EQ(item_sizes(narrow)[1], 100);
  EXPECT_EQ(item_sizes(narrow)[2], 100);
  EXPECT_EQ(narrow.items.size(), 303u);

  const Plan grouped = plan_with(testing::star_forest(64, 33, 16), Policy::kNode);  // g = 4: 128 rows are 32 queries
  EXPECT_EQ(item_sizes(grouped)[0], 17);
  EXPECT_EQ(item_sizes(grouped)[1], 16);
  EXPECT_EQ(grouped.statistics.kv_tokens_read, 2 * 64 + 33 * 16);
}

TEST(NodePolicy, DuplicatesKeepTheirOwnTailsInTheirOwnChunk) {
  const Plan plan = plan_with(testing::star_forest(100, 150, 0), Policy::kNode, KvSplit::kNone, 8);
  EXPECT_THAT(item_sizes(plan), ElementsAre(75, 75));
  EXPECT_EQ(plan.items[0].spans.size(), 1 + 75);
  EXPECT_EQ(plan.items[1].spans.size(), 1 + 75);
  EXPECT_EQ(plan.partials, 0);
}

// 100 + 100 + 30 queries of three requests, at most 128 an item: no request is torn.
TEST(NodePolicy, RequestsStayWholeWhereTheyFit) {
  Forest forest = testing::star_forest(200, 3, 0);
  forest.requests[0].queries = 100;
  forest.requests[1].queries = 100;
  forest.requests[2].queries = 30;
  forest.requests[1].query_begin = 100;
  forest.requests[2].query_begin = 200;
  EXPECT_THAT(item_sizes(plan_with(forest, Policy::kNode, KvSplit::kNone, 8)), ElementsAre(100, 100, 30));
  forest.requests[0].queries = 170;  // too wide for one item
  forest.requests[1].query_begin = 170;
  forest.requests[1].queries = 30;
  EXPECT_THAT(item_sizes(plan_with(forest, Policy::kNode, KvSplit::kNone, 8)), ElementsAre(128, 102));
}

TEST(EveryPolicy, DeepChainsAndManyRoots) {
  const Forest chain = testing::chain_forest(5000, 1);
  const Forest forest_of_roots = testing::unshared_forest(3000, 7);
  for (const Policy policy : testing::all_policies()) {
    SCOPED_TRACE(name_of(policy));
    const Plan deep = make_plan(chain, testing::shape_of(32, 8), testing::cpu_like_profile(4),
                                testing::options_of(policy, KvSplit::kBalance));
    EXPECT_EQ(deep.queries.size(), 5000u);
    plan_with(forest_of_roots, policy);
  }
  plan_with(testing::chain_forest(1000, 1), Policy::kNode);
  plan_with(chain, Policy::kProfit);
}

TEST(EveryPolicy, BatchesOfNothing) {
  const std::vector<std::int32_t> nothing;
  const std::vector<std::int32_t> empty_requests = {-1, -1, -1};
  for (const Policy policy : testing::all_policies()) {
    SCOPED_TRACE(name_of(policy));
    for (const KvSplit split : {KvSplit::kBalance, experimental::kSplitMean, KvSplit::kNone}) {
      EXPECT_TRUE(plan_with(build_forest(ExplicitTree{nothing, nothing, nothing}), policy, split).items.empty());
      const Plan plan = plan_with(build_forest(ExplicitTree{nothing, nothing, empty_requests}), policy, split);
      EXPECT_THAT(item_sizes(plan), ElementsAre(1, 1, 1));
      EXPECT_THAT(plan.item_outputs, Each(kDirect));
    }
  }
}

// Lengths 1000, 100 and 100: the mean is 400, so the first is cut into ceil(1000 / 400) = 3 parts of at most the mean.
TEST(KvSplitMean, CutsWhatIsLongerThanTheMeanIntoEqualParts) {
  const std::vector<std::int32_t> parent = {-1, -1, -1};
  const std::vector<std::int32_t> tokens = {1000, 100, 100};
  const std::vector<std::int32_t> end_node = {0, 1, 2};
  const Forest forest = build_forest(ExplicitTree{parent, tokens, end_node});
  const Plan plan = plan_with(forest, Policy::kFlat, experimental::kSplitMean);
  ASSERT_EQ(plan.items.size(), 5u);
  EXPECT_EQ(plan.spans[0], (KvSpan{0, 0, 0, 333, -1, kSpanAbsolute}));
  EXPECT_EQ(plan.spans[1], (KvSpan{0, 0, 333, 666, -1, kSpanAbsolute}));
  EXPECT_EQ(plan.spans[2], (KvSpan{0, 0, 666, 0, -1, kSpanEndFromEnd}));
  EXPECT_EQ(plan.partials, 3);
}

// 3 tokens, 1 token and 1,000 empty requests: the mean over what is read is 2 tokens.
TEST(KvSplitMean, EmptyRequestsDoNotCountInTheMean) {
  const std::vector<std::int32_t> parent = {-1, -1};
  const std::vector<std::int32_t> tokens = {3, 1};
  std::vector<std::int32_t> end_node(1002, -1);
  end_node[0] = 0;
  end_node[1] = 1;
  const Plan plan =
      plan_with(build_forest(ExplicitTree{parent, tokens, end_node}), Policy::kFlat, experimental::kSplitMean);
  EXPECT_EQ(plan.items.size(), 1003u);
  EXPECT_EQ(plan.partials, 2);

  end_node[1] = -1;
  const std::vector<std::int32_t> root = {-1};
  const std::vector<std::int32_t> ten = {10};
  EXPECT_EQ(
      plan_with(build_forest(ExplicitTree{root, ten, end_node}), Policy::kFlat, experimental::kSplitMean).items.size(),
      1002u);
}

// One request of 1,000 tokens and 999 of one: the mean, just below 2 tokens, is more than most have.
TEST(KvSplitMean, NoPackHasMorePartsThanTokens) {
  const std::vector<std::int32_t> parent(1000, -1);
  std::vector<std::int32_t> tokens(1000, 1);
  tokens[0] = 1000;
  std::vector<std::int32_t> end_node(1000);
  std::iota(end_node.begin(), end_node.end(), 0);
  const Plan plan =
      plan_with(build_forest(ExplicitTree{parent, tokens, end_node}), Policy::kFlat, experimental::kSplitMean);
  EXPECT_EQ(plan.items.size(), 501u + 999u);
}

TEST(KvSplitMean, EqualLengthsAreNotCut) {
  EXPECT_EQ(plan_with(testing::unshared_forest(9, 777), Policy::kFlat, experimental::kSplitMean).items.size(), 9u);
}

TEST(KvSplitBalance, ALongRequestIsCutForIdleWorkers) {
  const Forest forest = testing::unshared_forest(1, 100'000);
  const MachineProfile profile = testing::cpu_like_profile(32);
  const Plan whole =
      make_plan(forest, testing::shape_of(32, 8), profile, testing::options_of(Policy::kFlat, KvSplit::kNone));
  const Plan cut =
      make_plan(forest, testing::shape_of(32, 8), profile, testing::options_of(Policy::kFlat, KvSplit::kBalance));
  EXPECT_EQ(find_plan_violation(cut, forest), std::nullopt);
  EXPECT_EQ(cut.items.size(), 4u);  // 8 heads keep 8 workers busy
  EXPECT_LT(cut.statistics.predicted_us, whole.statistics.predicted_us / 3);
  for (const KvSpan& span : cut.spans) EXPECT_EQ(span.begin % 64, 0);
}

TEST(KvSplitBalance, PiecesAreNotShorterThan128Tokens) {
  const Forest forest = testing::unshared_forest(1, 1000);
  MachineProfile profile = testing::cpu_like_profile(512);
  profile.item_us = 0;
  profile.partial_us_per_kib = 0;
  const Plan plan =
      make_plan(forest, testing::shape_of(8, 8), profile, testing::options_of(Policy::kFlat, KvSplit::kBalance));
  EXPECT_THAT(span_lengths(plan, 1000), ElementsAre(128, 128, 128, 128, 128, 128, 232));
}

TEST(KvSplitBalance, NothingIsCutWhenPartialsCostMoreThanIdleWorkers) {
  MachineProfile profile = testing::cpu_like_profile(32);
  profile.partial_us_per_kib = 100;
  const Plan plan = make_plan(testing::unshared_forest(1, 4000), testing::shape_of(32, 8), profile,
                              testing::options_of(Policy::kFlat, KvSplit::kBalance));
  EXPECT_EQ(plan.items.size(), 1u);
}

TEST(KvSplitBalance, TailsOfACutPackAreInItsLastPiece) {
  const Forest forest = testing::star_forest(50'000, 3, 0);
  const Plan plan = make_plan(forest, testing::shape_of(8, 1), testing::cpu_like_profile(4),
                              testing::options_of(Policy::kNode, KvSplit::kBalance));
  ASSERT_EQ(find_plan_violation(plan, forest), std::nullopt);
  ASSERT_GE(plan.items.size(), 4u);
  for (std::size_t i = 0; i + 1 < plan.items.size(); ++i) EXPECT_EQ(plan.items[i].spans.size(), 1);
  EXPECT_EQ(plan.items.back().spans.size(), 4);
}

}  // namespace
}  // namespace trunkline
