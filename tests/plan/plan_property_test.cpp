// Thousands of random forests through every policy, split and group size.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
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

constexpr KvSplit kSplits[] = {KvSplit::kOwn, KvSplit::kBalance, experimental::kSplitMean, experimental::kSplitLong,
                               KvSplit::kNone};
constexpr std::int32_t kGroupSizes[] = {1, 3, 4, 5, 7, 8, 16};

Forest random_forest(std::mt19937_64& random, std::int32_t max_rows, std::int32_t max_tokens) {
  testing::RandomBatchOptions options;
  options.max_rows = max_rows;
  options.max_tokens = max_tokens;
  options.page_size = std::vector<std::int32_t>{1, 2, 16, 24}[static_cast<std::size_t>(uniform(random, 0, 3))];
  options.max_queries = uniform(random, 0, 2) == 0 ? 5 : 1;
  options.trees = uniform(random, 0, 1) == 0;
  if (options.trees) options.max_queries = uniform(random, 2, 40);
  options.null_pages = uniform(random, 0, 4) == 0;
  return build_forest(testing::make_random_batch(random, options).view());
}

std::vector<std::int32_t> random_growth(std::mt19937_64& random, const Forest& forest) {
  std::vector<std::int32_t> growth;
  for (const ForestRequest& request : forest.requests) {
    const std::int32_t tokens = uniform(random, 0, 20);
    growth.push_back(request.kv_len == 0 && tokens < request.queries ? 0 : tokens);
  }
  return growth;
}

TEST(PlanProperty, EveryPolicySplitAndGroupSizeIsValidAndStaysSo) {
  Planner planner(testing::cpu_like_profile(3));
  Planner wide_planner(testing::cpu_like_profile(64));
  for (int seed = 0; seed < testing::scaled(3000); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const Forest forest = random_forest(random, 16, 96);
    const std::int32_t group = kGroupSizes[seed % 7];
    for (const Policy policy : testing::all_policies()) {
      for (const KvSplit split : kSplits) {
        SCOPED_TRACE(concat("seed ", seed, ", g ", group, ", ", name_of(policy), ", ", name_of(split)));
        const Plan& plan = (seed % 2 == 0 ? planner : wide_planner)
                               .plan(forest, testing::shape_of(group * 2, 2), testing::options_of(policy, split));
        ASSERT_EQ(find_plan_violation(plan, forest), std::nullopt);
        ASSERT_EQ(testing::play_plan(plan, forest, random_growth(random, forest)), std::nullopt);
      }
    }
  }
}

// Long enough to be cut along KV by `balance`, wide enough to be cut by queries.
TEST(PlanProperty, LongAndWideForestsAreValid) {
  MachineProfile profile = testing::cpu_like_profile(40);
  profile.tiles = {{16, 16}, {16, 64}, {64, 32}};
  Planner planner(profile);
  std::int64_t cut_plans = 0;
  for (int seed = 0; seed < testing::scaled(200); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 1'000'000);
    const Forest forest = random_forest(random, uniform(random, 1, 60), 6000);
    const std::int32_t group = kGroupSizes[seed % 7];
    for (const Policy policy : testing::all_policies()) {
      for (const KvSplit split : kSplits) {
        SCOPED_TRACE(concat("seed ", seed, ", g ", group, ", ", name_of(policy), ", ", name_of(split)));
        const Plan& plan = planner.plan(forest, testing::shape_of(group * 2, 2), testing::options_of(policy, split));
        ASSERT_EQ(find_plan_violation(plan, forest), std::nullopt);
        if (policy == Policy::kFlat && split == KvSplit::kBalance && plan.items.size() > forest.requests.size())
          ++cut_plans;
      }
    }
  }
  EXPECT_GT(cut_plans, 0);
}

/// Whether the counts from which `auto` chooses tell what the plans will be.
TEST(PlanProperty, AutoIsCloseToTheBestCandidate) {
  double regrets = 0;
  int forests = 0;
  // Not scaled down: the mean of a few forests says little, and planning 300 is cheap.
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 2'000'000);
    const Forest forest = random_forest(random, 40, 2000);
    Planner planner(seed % 2 == 0 ? testing::cpu_like_profile(uniform(random, 1, 30))
                                  : testing::hopper_like_profile(uniform(random, 1, 200)));
    const auto max_queries = std::max_element(forest.requests.begin(), forest.requests.end(),
                                              [](const auto& a, const auto& b) { return a.queries < b.queries; });
    if (max_queries == forest.requests.end() || max_queries->queries > 8)
      continue;  // how packs of those are spread is not counted
    const bool chained = max_queries->queries > 1;
    const AttentionShape shape = testing::shape_of(8, 2);
    const Plan automatic = planner.plan(forest, shape);
    double least = std::numeric_limits<double>::max();
    for (const PolicyEstimate& estimate : planner.estimate(forest, shape)) {
      SCOPED_TRACE(concat("seed ", seed, ", ", name_of(estimate.policy)));
      const Plan& plan = planner.plan(forest, shape, testing::options_of(estimate.policy, KvSplit::kOwn));
      // Where requests bring several queries, packs are spread between requests, not quite evenly.
      const auto read = static_cast<double>(plan.statistics.kv_tokens_read);
      EXPECT_NEAR(static_cast<double>(estimate.kv_tokens_read), read, chained ? 0.2 * read : 0);
      EXPECT_NEAR(estimate.predicted_us, plan.statistics.predicted_us, 0.3 * plan.statistics.predicted_us);
      least = std::min(least, plan.statistics.predicted_us);
    }
    const double regret = automatic.statistics.predicted_us / least - 1;
    EXPECT_LT(regret, 0.25) << "seed " << seed;
    regrets += regret;
    ++forests;
  }
  EXPECT_LT(regrets / forests, 0.01);
}

TEST(PlanProperty, SameInputsGiveTheSamePlan) {
  std::mt19937_64 random(7);
  const Forest forest = random_forest(random, 40, 2000);
  const AttentionShape shape = testing::shape_of(8, 2);
  Planner used(testing::cpu_like_profile(8));
  used.plan(testing::star_forest(1000, 200, 30), shape);
  Plan second = used.plan(forest, shape);
  const Plan first = make_plan(forest, shape, testing::cpu_like_profile(8));
  EXPECT_EQ(second.epoch, first.epoch + 1);
  second.epoch = first.epoch;
  EXPECT_EQ(plan_to_json(second), plan_to_json(first));
}

}  // namespace
}  // namespace trunkline
