// Random forests through the options of single policies, which the property tests of all policies leave at their
// defaults, and through profiles with measured costs and odd weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "base/check.hpp"
#include "plan/plan_oracle.hpp"
#include "plan/test_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using testing::uniform;

Forest random_forest(std::mt19937_64& random) {
  testing::RandomBatchOptions options;
  options.max_rows = uniform(random, 1, 40);
  options.max_tokens = uniform(random, 0, 1) == 0 ? 60 : 700;
  options.page_size = uniform(random, 1, 24);
  options.max_queries = uniform(random, 0, 1) == 0 ? 1 : 8;
  return build_forest(testing::make_random_batch(random, options).view());
}

MachineProfile random_profile(std::mt19937_64& random) {
  MachineProfile profile = testing::cpu_like_profile(uniform(random, 0, 1) == 0 ? 2 : 200);
  if (uniform(random, 0, 2) == 0) profile.tiles = {{16, 32}, {64, 32}};
  if (uniform(random, 0, 2) == 0) profile.padding = {1, 2, 10};
  if (uniform(random, 0, 1) == 0) {
    profile.cost_table = {64, {1, 8, 64}, {16, 256}, {}};
    for (int point = 0; point < 6; ++point) profile.cost_table.us.push_back(uniform(random, 1, 50));
  }
  return profile;
}

PlanOptions random_options(std::mt19937_64& random) {
  constexpr Policy kPolicies[] = {Policy::kNode,    Policy::kProfit,   Policy::kGreedy,
                                  Policy::kFlatten, Policy::kBalanced, Policy::kInvariant};
  constexpr KvSplit kSplits[] = {KvSplit::kOwn, KvSplit::kBalance, experimental::kSplitMean, experimental::kSplitLong,
                                 KvSplit::kNone};
  PlanOptions options = testing::options_of(kPolicies[uniform(random, 0, 5)], kSplits[uniform(random, 0, 4)]);
  options.policies.node_chunk = uniform(random, 0, 3) == 0 ? 128 : uniform(random, 1, 40);
  options.policies.study = std::make_shared<experimental::PolicyStudy>(experimental::PolicyStudy{
      .profit_cost = experimental::ProfitCost::kCompute, .greedy_phases = uniform(random, 0, 1) == 0});
  options.policies.flatten_block = uniform(random, 1, 150);
  options.policies.invariant_chunk = uniform(random, 1, 150);
  return options;
}

TEST(PolicyOptionsProperty, PlansAreValidAndStaySo) {
  for (int seed = 0; seed < testing::scaled(3000); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const Forest forest = random_forest(random);
    const std::int32_t group = uniform(random, 1, 16);
    const PlanOptions options = random_options(random);
    SCOPED_TRACE(concat("seed ", seed, ", g ", group, ", ", name_of(options.policy), ", ", name_of(options.split)));
    const Plan plan = make_plan(forest, testing::shape_of(group * 2, 2), random_profile(random), options);
    ASSERT_EQ(find_plan_violation(plan, forest), std::nullopt);
    std::vector<std::int32_t> growth(forest.requests.size());
    std::generate(growth.begin(), growth.end(), [&random] { return uniform(random, 0, 20); });
    for (std::size_t row = 0; row < growth.size(); ++row) {
      if (forest.requests[row].kv_len == 0) growth[row] = 0;
    }
    ASSERT_EQ(testing::play_plan(plan, forest, growth), std::nullopt);
    // Apart from `greedy`, PAT-compute and `invariant`, which read shared tokens again on purpose, nothing is read
    // twice but by tiles that are too narrow.
    constexpr Policy kReadAgain[] = {Policy::kGreedy, Policy::kProfit, Policy::kInvariant};
    if (std::find(std::begin(kReadAgain), std::end(kReadAgain), options.policy) == std::end(kReadAgain)) {
      ASSERT_EQ(plan.statistics.kv_tokens_grouped, forest.distinct_tokens);
    }
  }
}

}  // namespace
}  // namespace trunkline
