// Divisions by a bound of the makespan, on a machine where a token and head cost one microsecond whatever the rows, and
// with measured costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "plan/policy_packs.hpp"
#include "plan/test_cases.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::PolicyPacks;

/// Roots that nothing shares.
Forest requests_of(const std::vector<std::int32_t>& tokens) {
  const std::vector<std::int32_t> parent(tokens.size(), -1);
  std::vector<std::int32_t> ends;
  for (std::size_t i = 0; i < tokens.size(); ++i) ends.push_back(static_cast<std::int32_t>(i));
  return build_forest(ExplicitTree{parent, tokens, ends});
}

std::vector<std::int32_t> parts_of(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile) {
  return PolicyPacks(Policy::kBalanced, forest, shape, profile).parts();
}

// 1,536 us on 4 workers are 384 each; 1,024 in three parts of 342 keep to that but for rounding.
TEST(BalancedPolicy, WhatIsLongerThanTheBoundIsDivided) {
  const Forest forest = requests_of({1024, 128, 128, 128, 128});
  EXPECT_THAT(parts_of(forest, testing::shape_of(1, 1), testing::memory_only_profile(4)), ElementsAre(3, 1, 1, 1, 1));
  const Plan plan = testing::valid_plan(forest, testing::shape_of(1, 1), testing::memory_only_profile(4),
                                        Policy::kBalanced, {}, KvSplit::kOwn);
  EXPECT_EQ(plan.items.size(), 7u);
  // 320, 320 and 384 tokens, the last 64 of the others beside the shorter ones.
  EXPECT_DOUBLE_EQ(plan.statistics.predicted_us, 5 + 448);
}

TEST(BalancedPolicy, BusyWorkersLeaveNodesWhole) {
  EXPECT_THAT(parts_of(requests_of({1024, 1000, 900}), testing::shape_of(1, 1), testing::memory_only_profile(2)),
              Each(1));
  // 8 heads of one request keep 8 workers busy.
  EXPECT_THAT(parts_of(requests_of({1000}), testing::shape_of(8, 8), testing::memory_only_profile(8)), Each(1));
}

TEST(BalancedPolicy, PartsAreNotShorterThan64Tokens) {
  EXPECT_THAT(parts_of(requests_of({1000}), testing::shape_of(1, 1), testing::memory_only_profile(512)),
              ElementsAre(15));
  EXPECT_THAT(parts_of(requests_of({63}), testing::shape_of(1, 1), testing::memory_only_profile(512)), ElementsAre(1));
}

// No part of the wide task is shorter than 64 tokens, so nobody needs to be faster than those.
TEST(BalancedPolicy, TheSmallestPartBoundsTheMakespan) {
  MachineProfile profile = testing::memory_only_profile(512);
  profile.cost_table = {128, {1, 16}, {64, 1024}, {64, 1024, 512, 8192}};
  const std::vector<std::int32_t> parent = {-1, -1};
  const std::vector<std::int32_t> tokens = {1024, 1024};
  std::vector<std::int32_t> ends(16, 0);
  ends.push_back(1);
  // C(16, 64) = 512 us; the single request's 1,024 in two parts are as long.
  EXPECT_THAT(parts_of(build_forest(ExplicitTree{parent, tokens, ends}), testing::shape_of(1, 1), profile),
              ElementsAre(16, 2));
}

// A root and 16 leaves of 1,024 tokens. By memory alone they are 17 equal tasks. As measured, 16 rows take four times
// as long as one: 4,096 + 16 x 1,024 are 1,280 on each of 16 workers, so the root has four parts, of 1,024 each.
TEST(BalancedPolicy, MeasuredCostsKnowRows) {
  const Forest forest = testing::star_forest(1024, 16, 1024);
  MachineProfile profile = testing::memory_only_profile(16);
  EXPECT_THAT(parts_of(forest, testing::shape_of(1, 1), profile), Each(1));
  profile.cost_table = {128, {1, 16}, {64, 1024}, {64, 1024, 256, 4096}};
  const std::vector<std::int32_t> parts = parts_of(forest, testing::shape_of(1, 1), profile);
  EXPECT_EQ(parts.front(), 4);
  EXPECT_THAT(std::vector<std::int32_t>(parts.begin() + 1, parts.end()), Each(1));
}

// 256 requests of the same 1,024 tokens are two tasks: 512 us on each of 4 workers.
TEST(BalancedPolicy, ChunksOfWideNodesAreTasks) {
  const PolicyPacks balanced(Policy::kBalanced, testing::star_forest(1024, 256, 0), testing::shape_of(1, 1),
                             testing::memory_only_profile(4));
  EXPECT_THAT(balanced.pack_queries(), ElementsAre(128, 128));
  EXPECT_THAT(balanced.parts(), ElementsAre(2, 2));
}

TEST(BalancedPolicy, BatchesOfNothing) {
  const std::vector<std::int32_t> nothing;
  const std::vector<std::int32_t> empty_requests = {-1, -1};
  for (const auto& ends : {nothing, empty_requests}) {
    const Plan plan = testing::valid_plan(build_forest(ExplicitTree{nothing, nothing, ends}), testing::shape_of(8, 8),
                                          testing::cpu_like_profile(4), Policy::kBalanced, {}, KvSplit::kOwn);
    EXPECT_EQ(plan.items.size(), ends.size());
  }
}

}  // namespace
}  // namespace trunkline
