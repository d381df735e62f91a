// Plans by a team are the host planner's, bit for bit.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/check.hpp"
#include "plan/team_plan_case.hpp"
#include "plan/test_cases.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using testing::TeamOptions;
using testing::uniform;
using testing::UploadedPlan;

constexpr PlanCapacity kRoomy = {1 << 14, 1 << 14, 1 << 18, 1 << 16};

/// \return status of the team's plan
TeamPlanStatus expect_same(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                           const PlanCapacity& capacity = kRoomy, const TeamOptions& team = {}) {
  PlanOptions options;
  options.policy = Policy::kTrunk;
  options.capacity = capacity;
  const Plan plan = make_plan(forest, shape, profile, options);
  TeamPlanStatus status{};
  const UploadedPlan actual = testing::team_plan(forest, shape, profile, capacity, team, &status);
  EXPECT_EQ(testing::find_difference(testing::uploaded(plan, forest), actual), std::nullopt);
  EXPECT_EQ(status.fallbacks, plan.statistics.fallbacks);
  EXPECT_EQ(status.unplanned, 0);
  EXPECT_EQ(status.read_tokens, plan.statistics.kv_tokens_read);
  return status;
}

MachineProfile any_profile(std::mt19937_64& random) {
  const std::int32_t workers = uniform(random, 1, 200);
  return testing::hopper_like_profile(workers);
}

TEST(TeamPlan, RandomForests) {
  std::int64_t cut = 0;
  std::int64_t masked = 0;
  for (int seed = 0; seed < testing::scaled(3000); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 9'000'000);
    testing::RandomBatchOptions batch;
    batch.max_rows = uniform(random, 1, 80);
    batch.max_tokens = uniform(random, 1, 3) == 1 ? 5000 : uniform(random, 1, 400);
    batch.page_size = uniform(random, 0, 1) == 0 ? 1 : 16;
    batch.max_queries = uniform(random, 0, 2) == 0 ? uniform(random, 2, 40) : 1;
    const Forest forest = build_forest(testing::make_random_batch(random, batch).view());
    const std::int32_t group = uniform(random, 1, 16);
    TeamOptions team;
    team.seed = seed % 2 == 0 ? 0 : random();
    team.histograms = uniform(random, 1, 7);
    team.spare_rows = uniform(random, 0, 3);
    const TeamPlanStatus status =
        expect_same(forest, testing::shape_of(2 * group, 2), any_profile(random), kRoomy, team);
    cut += status.partials > 0 ? 1 : 0;
    masked += status.masks > 0 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(cut, 0);
  EXPECT_GT(masked, 0);
}

}  // namespace
}  // namespace trunkline
