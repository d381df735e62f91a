// An old plan on a batch that has grown since, joined in any row order, is still right.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/executor_cases.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"

namespace trunkline::testing {
namespace {

TEST(Growth, AnOldPlanRunsOnALongerBatch) {
  for (int round = 0; round < scaled(150); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 5000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    GrowingBatch batch(seed);
    std::vector<Plan> plans;
    for (const Policy policy : packing_policies()) {
      const PlanOptions options = options_of(policy, batch.next_split());
      plans.push_back(make_plan(batch.before(), batch.shape(), generic_cpu_profile(4), options));
    }
    const AttentionCase& test = batch.grow();
    for (const Plan& plan : plans) {
      SCOPED_TRACE(name_of(plan.policy));
      ASSERT_TRUE(test.matches(test.run_cpu(plan, test_workers()), kFloatTolerance));
      ASSERT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << "reference";
    }
  }
}

TEST(Growth, AnOldPlanRunsOnReorderedRows) {
  std::mt19937_64 random(9);
  RandomBatchOptions options;
  options.max_rows = 12;
  const RandomBatch random_batch = make_random_batch(random, options);
  const Batch batch = random_batch.view();
  const AttentionShape shape = make_shape(2, 4, 64, 16);
  PlanOptions node;
  node.policy = Policy::kNode;
  const Plan plan = make_plan(build_forest(batch), shape, generic_cpu_profile(2), node);

  const RandomBatch reversed = with_reversed_rows(random_batch);
  const Batch view = reversed.view();
  const AttentionCase test(shape, view);
  EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers()), kFloatTolerance));
  EXPECT_TRUE(test.matches(test.run_reference(plan), 1e-6));
}

// The classic bug of caches keyed by page: a request leaves, and its pages and slot go to another in the next step.
TEST(Growth, LeaveAndJoinWithReusedPagesAndSlot) {
  RandomBatchOptions options;
  options.max_rows = 8;
  options.max_tokens = 150;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    RandomBatch batch = make_random_batch(random, options);
    const AttentionShape shape = make_shape(1, 4, 64, 16);
    const Plan before = make_plan(build_forest(batch.view()), shape, generic_cpu_profile(2), {});

    const auto row = static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(batch.kv_lens.size()) - 1));
    std::reverse(batch.row_pages[row].begin(), batch.row_pages[row].end());
    batch.generations[row] += 1;
    batch.lay_out_table();
    const Batch view = batch.view();
    const AttentionCase test(shape, view);
    const CpuExecutor executor(test_workers());
    AlignedWorkspace workspace(executor.workspace_bytes(before, view.rows()));
    expect_error(ErrorCode::kStale, "generation", [&] { executor.resolve(before, view, workspace.bytes()); });
    const Plan after = make_plan(test.forest(), shape, generic_cpu_profile(2), {});
    EXPECT_TRUE(test.matches(test.run_cpu(after, test_workers()), kFloatTolerance));
  }
}

}  // namespace
}  // namespace trunkline::testing
