#include <gtest/gtest.h>

#include "exec/executor_cases.hpp"

namespace trunkline::testing {
namespace {

TEST(LargePool, OffsetsBeyond32Bits) {
  const LargePool pool;
  if (!pool.reserved()) GTEST_SKIP() << "no " << LargePool::kBytes << " bytes of address space";
  const Batch batch = pool.batch();
  const std::vector<float> expected = pool.expected();
  const Plan plan = make_plan(build_forest(batch), LargePool::shape(), generic_cpu_profile(2), {});
  const CpuExecutor executor(test_workers());
  AlignedWorkspace workspace(executor.workspace_bytes(plan, 1));
  executor.resolve(plan, batch, workspace.bytes());
  std::vector<float> actual(expected.size());
  AttentionArgs args = pool.args();
  args.out = actual.data();
  executor.run(args, workspace.bytes());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-5);
}

}  // namespace
}  // namespace trunkline::testing
