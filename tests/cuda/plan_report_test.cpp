// Reports of planning on the device: resolve publishes the report of the plan in its workspace to the host.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "cuda/device_case.hpp"
#include "exec/executor_cases.hpp"
#include "kv/paged_batch.hpp"
#include "support/policies.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::testing {
namespace {

class CudaPlanReports : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    executor_ = std::make_unique<CudaExecutor>();
    planner_ = make_planner(memory_);
    workspace_ = std::make_unique<DeviceMemory>(executor_->workspace_bytes(*planner_));
    batch_ = std::make_unique<DeviceBatch>(paged_.view());
  }
  std::unique_ptr<CudaPlanner> make_planner(std::unique_ptr<DeviceMemory>& memory) const {
    auto planner = std::make_unique<CudaPlanner>(cuda_profile(0, shape_), shape_,
                                                 CudaPlannerOptions{.rows = kRows, .capacity = {64, 512, 2048, 1024}});
    memory = std::make_unique<DeviceMemory>(planner->memory_bytes());
    planner->bind(memory->data(), memory->size(), nullptr);
    return planner;
  }
  void plan(CudaPlanner& planner) {
    executor_->plan(planner, batch_->view(), workspace_->data(), workspace_->size(), nullptr);
  }
  void resolve() {
    executor_->resolve(batch_->view(), workspace_->data(), nullptr);
    check(cudaDeviceSynchronize());
  }

  static constexpr std::int32_t kRows = 8;
  AttentionShape shape_ = on_cuda(make_shape(2, 8, 128, 16));
  PagedBatch paged_ = lay_out_pages(tree_from_levels("1,8/512,100"), 16, 3);
  std::unique_ptr<CudaExecutor> executor_;
  std::unique_ptr<DeviceMemory> memory_;  ///< the planner's
  std::unique_ptr<CudaPlanner> planner_;
  std::unique_ptr<DeviceMemory> workspace_;
  std::unique_ptr<DeviceBatch> batch_;
};

TEST_F(CudaPlanReports, AreToldByResolve) {
  plan(*planner_);
  check(cudaDeviceSynchronize());
  EXPECT_EQ(planner_->report().planned, 0U) << "not before that";
  resolve();
  EXPECT_EQ(planner_->report().planned, 1U);
  EXPECT_GT(planner_->report().items, 0);
  EXPECT_EQ(planner_->report().bad_lengths, 0);
  plan(*planner_);
  plan(*planner_);
  resolve();
  EXPECT_EQ(planner_->report().planned, 1U);
  EXPECT_EQ(planner_->report().reused, 2U);
}

TEST_F(CudaPlanReports, AreOfThePlanThatIsThere) {
  plan(*planner_);
  const Plan uploaded = make_plan(build_forest(paged_.view()), shape_, cuda_profile(0, shape_),
                                  options_of(Policy::kFlat, KvSplit::kNone));
  executor_->upload(uploaded, paged_.view(), workspace_->data(), workspace_->size(), nullptr);
  resolve();
  EXPECT_EQ(planner_->report().planned, 0U) << "the plan that is there was uploaded";
}

// A workspace may be resolved as long as it holds a plan, whichever planner made it.
TEST_F(CudaPlanReports, MayBeToldOnceThePlannerIsGone) {
  std::unique_ptr<DeviceMemory> other_memory;
  const auto other = make_planner(other_memory);
  plan(*planner_);
  planner_.reset();
  resolve();
  plan(*other);
  resolve();
  EXPECT_EQ(other->report().planned, 1U);
}

}  // namespace
}  // namespace trunkline::testing
