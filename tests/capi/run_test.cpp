// Runs through the C interface: whose a workspace is, what a scale of 0 means, how many pages a batch uses.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "c_case.hpp"
#include "exec/attention_case.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

class CRuns : public ::testing::Test {
 protected:
  CRuns()
      : paged_(lay_out_pages(tree_from_levels("1,3/40,20"), 16, 1)),
        test_(make_shape(2, 4, 64, 16), paged_.view()),
        batch_(test_.batch()),
        serving_(&batch_.batch) {
    const trunkline_shape shape = c_shape(test_.shape());
    EXPECT_OK(trunkline_planner_plan(serving_.planner, serving_.forest, &shape, nullptr, &plan_));
    EXPECT_OK(trunkline_cpu_workspace_bytes(serving_.cpu, plan_, batch_.batch.rows, &bytes_));
  }

  trunkline_status resolve(const trunkline_cpu* cpu, std::byte* workspace) const {
    return trunkline_cpu_resolve(cpu, plan_, &batch_.batch, workspace, bytes_);
  }
  trunkline_status run(const trunkline_cpu* cpu, std::byte* workspace) const {
    trunkline_status status = TRUNKLINE_OK;
    test_.collect([&](const AttentionArgs& args) {
      const CLayer layer(test_.shape(), test_.batch(), args);
      status = trunkline_cpu_run(cpu, &layer.layer, workspace, bytes_);
    });
    return status;
  }

  PagedBatch paged_;
  AttentionCase test_;
  CBatch batch_;
  CServing serving_;
  const trunkline_plan* plan_ = nullptr;
  std::size_t bytes_ = 0;
};

TEST_F(CRuns, AWorkspaceIsOfTheExecutorThatResolvedLast) {
  CCpu second;
  ASSERT_OK(trunkline_cpu_create(serving_.workers, nullptr, second.out()));
  AlignedWorkspace memory(2 * bytes_);
  std::byte* const workspace = memory.bytes().data();
  ASSERT_OK(resolve(serving_.cpu, workspace));
  ASSERT_OK(run(serving_.cpu, workspace));
  for (const std::size_t offset : {std::size_t{0}, std::size_t{64}, std::size_t{512}}) {
    ASSERT_OK(resolve(serving_.cpu, workspace));
    ASSERT_OK(resolve(second, workspace + offset));
    EXPECT_EQ(run(serving_.cpu, workspace), TRUNKLINE_WORKSPACE) << offset;
    EXPECT_OK(run(second, workspace + offset));
  }
  ASSERT_OK(resolve(serving_.cpu, workspace));
  std::fill_n(workspace, bytes_, std::byte{0});
  expect_failure(run(serving_.cpu, workspace), TRUNKLINE_WORKSPACE, "was not resolved");
}

TEST_F(CRuns, AScaleOfZeroIsANumber) {
  AlignedWorkspace memory(bytes_);
  ASSERT_OK(resolve(serving_.cpu, memory.bytes().data()));
  const auto run_with = [&](std::int32_t has_scale) {
    return test_.collect([&](const AttentionArgs& args) {
      CLayer layer(test_.shape(), test_.batch(), args);
      layer.layer.scale = 0;
      layer.layer.has_scale = has_scale;
      EXPECT_OK(trunkline_cpu_run(serving_.cpu, &layer.layer, memory.bytes().data(), bytes_));
    });
  };
  EXPECT_TRUE(test_.matches(run_with(0), kFloatTolerance)) << "the default";
  for (const float lse : run_with(1).lse) EXPECT_NEAR(lse, std::log(60), 1e-5);
}

TEST_F(CRuns, PagesUsed) {
  std::int32_t ids[] = {7, 3, 90, 7, 4, -5};
  const std::int32_t lengths[] = {17, 32};
  auto pages = c_struct<trunkline_page_table>();
  pages.form = TRUNKLINE_DENSE;
  pages.id_dtype = TRUNKLINE_I32;
  pages.ids = ids;
  pages.id_count = 6;
  pages.width = 3;
  pages.rows = 2;
  pages.page_size = 16;
  auto batch = c_struct<trunkline_batch>();
  batch.pages = &pages;
  batch.kv_lens = lengths;
  batch.rows = 2;
  std::int64_t used = 0;
  ASSERT_OK(trunkline_pages_used(&batch, &used));
  EXPECT_EQ(used, 8) << "entries past a length are not read";
  ids[4] = -1;
  trunkline_status status = trunkline_pages_used(&batch, &used);
  expect_failure(status, TRUNKLINE_OUT_OF_RANGE, "page table row 1 entry 1 is -1");
  ids[4] = std::numeric_limits<std::int32_t>::max();
  status = trunkline_pages_used(&batch, &used);
  expect_failure(status, TRUNKLINE_OUT_OF_RANGE, "page table row 1 entry 1 is 2147483647");
  expect_failure(trunkline_pages_used(&batch, nullptr), TRUNKLINE_INVALID_ARGUMENT, "num_pages is NULL");
}

}  // namespace
}  // namespace trunkline::testing
