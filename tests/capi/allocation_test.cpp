// Steps through the C interface take no memory once warm. Counts every operator new of the process, the library's too.
#include <gtest/gtest.h>

#include "c_case.hpp"
#include "exec/attention_case.hpp"
#include "support/count_allocations.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

TEST(CAllocation, AStepTakesNoMemory) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,4,16/100,40,20"), 16, 1);
  const AttentionCase test(make_shape(2, 4, 64, 16), paged.view());
  CBatch batch(test.batch());
  batch.batch.has_null_page = 1;
  batch.batch.null_page = batch.batch.num_pages - 1;
  const long at_first = allocation_count();
  const CServing serving(&batch.batch);
  ASSERT_GT(allocation_count(), at_first) << "the library's allocations are not counted";
  const trunkline_shape shape = c_shape(test.shape());
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape, nullptr, &plan));
  std::size_t bytes = 0;
  ASSERT_OK(trunkline_cpu_workspace_bytes(serving.cpu, plan, batch.batch.rows, &bytes));
  AlignedWorkspace workspace(bytes);
  test.collect([&](const AttentionArgs& args) {
    const CLayer layer(test.shape(), test.batch(), args);
    const auto step = [&] {
      trunkline_forest_build(serving.forest, &batch.batch, TRUNKLINE_TRUST_IDS);
      trunkline_planner_plan(serving.planner, serving.forest, &shape, nullptr, &plan);
      trunkline_cpu_resolve(serving.cpu, plan, &batch.batch, workspace.bytes().data(), bytes);
      return trunkline_cpu_run(serving.cpu, &layer.layer, workspace.bytes().data(), bytes);
    };
    for (int i = 0; i < 3; ++i) ASSERT_OK(step());
    const long before = allocation_count();
    trunkline_status status = step();
    EXPECT_EQ(allocation_count(), before);
    EXPECT_OK(status);
  });
}

}  // namespace
}  // namespace trunkline::testing
