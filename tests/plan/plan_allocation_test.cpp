// A planner that has seen the largest batch allocates nothing. Counts every operator new of this binary.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "plan/test_cases.hpp"
#include "support/count_allocations.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

// The validator, which debug builds run on each plan, allocates as it likes.
#ifdef NDEBUG
TEST(PlanAllocation, NoneWhenWarm) {
  Planner planner(testing::cpu_like_profile(16));
  const Forest large = testing::star_forest(30'000, 400, 700);
  const Forest small = testing::star_forest(5'000, 100, 0);
  const std::vector<PlanOptions> all_options = {testing::options_of(Policy::kAuto, KvSplit::kBalance),
                                                testing::options_of(Policy::kFlat, experimental::kSplitMean),
                                                testing::options_of(Policy::kNode, experimental::kSplitMean),
                                                testing::options_of(Policy::kProfit, KvSplit::kNone),
                                                testing::options_of(Policy::kGreedy, KvSplit::kOwn),
                                                testing::options_of(Policy::kFlatten, KvSplit::kOwn),
                                                testing::options_of(Policy::kBalanced, KvSplit::kOwn)};
  for (const Forest* forest : {&large, &small}) {
    for (const PlanOptions& options : all_options) planner.plan(*forest, testing::shape_of(32, 8), options);
  }
  for (const Forest* forest : {&large, &small, &large}) {
    for (const PlanOptions& options : all_options) {
      const long before = testing::allocation_count();
      planner.plan(*forest, testing::shape_of(32, 8), options);
      EXPECT_EQ(testing::allocation_count() - before, 0) << name_of(options.policy);
    }
  }
}

TEST(PlanAllocation, NoneWhenWarmWithDraftTrees) {
  std::mt19937_64 random(3);
  testing::RandomBatchOptions options;
  options.max_rows = 200;
  options.max_tokens = 1500;
  options.max_queries = 64;
  options.trees = true;
  const testing::RandomBatch batch = testing::make_random_batch(random, options);
  const Forest forest = build_forest(batch.view());
  ASSERT_FALSE(forest.query_parents.empty());
  Planner planner(testing::cpu_like_profile(16));
  for (const Policy policy : testing::all_policies()) {
    const PlanOptions plan_options = testing::options_of(policy, KvSplit::kOwn);
    planner.plan(forest, testing::shape_of(32, 8), plan_options);
    const long before = testing::allocation_count();
    planner.plan(forest, testing::shape_of(32, 8), plan_options);
    EXPECT_EQ(testing::allocation_count() - before, 0) << name_of(policy);
  }
}
#endif

TEST(PlanAllocation, TheCounterCounts) {
  const long before = testing::allocation_count();
  const std::vector<int> memory(1000);
  EXPECT_GT(testing::allocation_count() - before, 0);
}

}  // namespace
}  // namespace trunkline
