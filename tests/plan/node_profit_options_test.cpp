// DeFT's node chunks and PAT-compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "plan/policy_packs.hpp"
#include "plan/test_cases.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using ::testing::ElementsAre;
using testing::PolicyPacks;

PolicyOptions chunks_of(std::int32_t tokens) {
  PolicyOptions options;
  options.node_chunk = tokens;
  return options;
}

Plan chunked(const Forest& forest, std::int32_t chunk) {
  return testing::valid_plan(forest, testing::shape_of(8, 8), testing::cpu_like_profile(4), Policy::kNode,
                             chunks_of(chunk));
}

// A root of 300 tokens in chunks of 128, 128 and 44, and two leaves of 140 in chunks of 128 and 12.
TEST(NodeChunks, NodesAreCutFromTheirFirstToken) {
  const PolicyPacks node(Policy::kNode, testing::star_forest(300, 2, 140), testing::shape_of(8, 8),
                         testing::cpu_like_profile(4), chunks_of(128));
  EXPECT_THAT(node.first_segments(), ElementsAre(Range{0, 128}, Range{128, 256}, Range{256, 300}, Range{300, 428},
                                                 Range{428, 440}, Range{300, 428}, Range{428, 440}));
  const Plan plan = chunked(testing::star_forest(300, 2, 140), 128);
  EXPECT_EQ(plan.statistics.kv_tokens_read, 300 + 280);
  EXPECT_EQ(plan.partials, 2 * 5);
}

TEST(NodeChunks, AFullLastChunkEndsTheNode) {
  const Plan plan = chunked(testing::unshared_forest(1, 256), 128);
  EXPECT_THAT(plan.spans,
              ElementsAre(KvSpan{0, 0, 0, 128, -1, kSpanAbsolute}, KvSpan{0, 0, 128, 0, -1, kSpanEndFromEnd}));
}

TEST(NodeChunks, TailsRideWithTheLastChunk) {
  const Plan plan = chunked(testing::star_forest(300, 3, 0), 128);
  ASSERT_EQ(plan.items.size(), 3u);
  EXPECT_EQ(plan.items[0].spans.size(), 1);
  EXPECT_EQ(plan.items[1].spans.size(), 1);
  EXPECT_EQ(plan.items[2].spans.size(), 1 + 3);
}

TEST(NodeChunks, LongerThanAnyNodeIsWholeNodes) {
  const Forest forest = testing::star_forest(300, 2, 140);
  EXPECT_EQ(chunked(forest, std::numeric_limits<std::int32_t>::max()).spans, chunked(forest, 0).spans);
}

PolicyOptions cost_by(experimental::ProfitCost cost) {
  PolicyOptions options;
  options.study = std::make_shared<experimental::PolicyStudy>(experimental::PolicyStudy{.profit_cost = cost});
  return options;
}

/// A root with two children, in each of which so many requests end.
Forest two_children(std::int32_t root_tokens, std::int32_t requests) {
  const std::vector<std::int32_t> parent = {-1, 0, 0};
  const std::vector<std::int32_t> tokens = {root_tokens, 64, 64};
  std::vector<std::int32_t> ends(static_cast<std::size_t>(requests), 1);
  ends.insert(ends.end(), static_cast<std::size_t>(requests), 2);
  return build_forest(ExplicitTree{parent, tokens, ends});
}

// 8 queries each on 32 tokens: 4 x 8 partials' worth of tokens pay for reading 32 once more; but 16 queries fill a tile
// of 64 rows (g = 4), and 8 pad 8, for the first child and for those that stay.
TEST(ProfitCosts, MemoryMergesWhatComputeLeaves) {
  const Forest forest = two_children(32, 8);
  const PolicyPacks memory(Policy::kProfit, forest, testing::shape_of(32, 8), testing::cpu_like_profile(4),
                           cost_by(experimental::ProfitCost::kMemory));
  EXPECT_THAT(memory.first_segments(), ElementsAre(Range{0, 96}, Range{0, 96}));
  const PolicyPacks compute(Policy::kProfit, forest, testing::shape_of(32, 8), testing::cpu_like_profile(4),
                            cost_by(experimental::ProfitCost::kCompute));
  EXPECT_THAT(compute.first_segments(), ElementsAre(Range{0, 32}, Range{32, 96}, Range{32, 96}));
}

// 16 queries each on 320 tokens: tiles are full either way, so the partials decide; but reading 320 tokens again costs
// more than 4 x 16.
TEST(ProfitCosts, ComputeMergesWhatMemoryLeaves) {
  const Forest forest = two_children(320, 16);
  const PolicyPacks memory(Policy::kProfit, forest, testing::shape_of(32, 8), testing::cpu_like_profile(4),
                           cost_by(experimental::ProfitCost::kMemory));
  EXPECT_THAT(memory.first_segments(), ElementsAre(Range{0, 320}, Range{320, 384}, Range{320, 384}));
  const PolicyPacks compute(Policy::kProfit, forest, testing::shape_of(32, 8), testing::cpu_like_profile(4),
                            cost_by(experimental::ProfitCost::kCompute));
  EXPECT_THAT(compute.first_segments(), ElementsAre(Range{0, 384}, Range{0, 384}));
  testing::valid_plan(forest, testing::shape_of(32, 8), testing::cpu_like_profile(4), Policy::kProfit,
                      cost_by(experimental::ProfitCost::kCompute), KvSplit::kBalance);
}

}  // namespace
}  // namespace trunkline
