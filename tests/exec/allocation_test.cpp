// resolve() and run() do not allocate: serving steps must not meet a lock or a system call in the allocator.
#include <gtest/gtest.h>

#include "attention_case.hpp"
#include "support/count_allocations.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

TEST(Allocation, NeitherResolveNorRunAllocates) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,4,16/200,64,30"), 16, 3);
  const Batch batch = paged.view();
  const AttentionCase test(make_shape(2, 4, 64, 16), batch);
  PlanOptions options;
  options.policy = Policy::kNode;
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), options);
  ASSERT_GT(plan.partials, 0);
  const CpuExecutor executor(test_workers());
  AlignedWorkspace workspace(executor.workspace_bytes(plan, batch.rows()));
  executor.resolve(plan, batch, workspace.bytes());
  executor.run(test.args(), workspace.bytes());
  const long before = allocation_count();
  executor.resolve(plan, batch, workspace.bytes());
  for (int layer = 0; layer < 10; ++layer) executor.run(test.args(), workspace.bytes());
  EXPECT_EQ(allocation_count(), before);
}

}  // namespace
}  // namespace trunkline::testing
