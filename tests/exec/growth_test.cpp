// An old plan on a batch that has grown since, joined in any row order, is still right.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention_case.hpp"
#include "support/expect_error.hpp"
#include "support/paged_growth.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"

namespace trunkline::testing {
namespace {

TEST(Growth, AnOldPlanRunsOnALongerBatch) {
  for (int round = 0; round < scaled(150); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 5000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    RandomBatchOptions options;
    options.page_size = std::int32_t{1} << uniform(random, 0, 5);
    options.max_rows = 10;
    options.max_tokens = 200;
    options.growth_tokens = 70;
    options.trees = uniform(random, 0, 1) == 0;
    options.max_queries = options.trees ? 20 : uniform(random, 1, 2);
    RandomBatch batch = make_random_batch(random, options);
    const AttentionShape shape = make_shape(1, uniform(random, 1, 6), 64, options.page_size);
    const Forest before = build_forest(batch.view());
    std::vector<Plan> plans;
    for (const Policy policy : packing_policies()) {
      PlanOptions plan_options;
      plan_options.policy = policy;
      plan_options.split = uniform(random, 0, 1) == 0 ? KvSplit::kMean : KvSplit::kNone;
      plans.push_back(make_plan(before, shape, generic_cpu_profile(4), plan_options));
    }
    const std::vector<PageCopy> copies = grow(batch, uniform(random, 1, 35));
    const Batch view = batch.view();
    // A page that all its sharers have left is used by nobody, but is what their copies are made from: it must hold
    // numbers.
    SyntheticOptions cache_options;
    cache_options.poison_unused = false;
    AttentionCase test(shape, view, cache_options);
    for (const PageCopy& copy : copies) test.copy_page(copy);
    test.recompute_expected();
    for (const Plan& plan : plans) {
      SCOPED_TRACE(name_of(plan.policy));
      ASSERT_TRUE(test.matches(test.run_cpu(plan, test_workers()), kFloatTolerance));
      ASSERT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << "reference";
    }
  }
}

// Slots tie a plan to requests, not to rows: an engine may reorder its batch between steps.
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

  RandomBatch reversed = random_batch;
  std::reverse(reversed.row_pages.begin(), reversed.row_pages.end());
  std::reverse(reversed.kv_lens.begin(), reversed.kv_lens.end());
  std::reverse(reversed.slots.begin(), reversed.slots.end());
  std::reverse(reversed.generations.begin(), reversed.generations.end());
  reversed.lay_out_table();
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
