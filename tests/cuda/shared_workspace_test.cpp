// Executors and planners that share device memory: own attention, or a refusal.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>

#include "cuda/device_case.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::testing {
namespace {

constexpr const char* kTaken = "holds another executor's plan since";

struct Step {
  explicit Step(std::uint64_t seed)
      : paged(lay_out_pages(tree_from_levels("1,3/40,20"), 16, seed)),
        test(make_shape(2, 4, 64, 16), paged.view(), {.seed = seed}),
        plan(make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(4),
                       options_of(Policy::kNode, KvSplit::kOwn))),
        on_device(test.batch()),
        tensors(test) {}

  void begin(CudaExecutor& executor, std::byte* workspace, std::size_t bytes) const {
    executor.upload(plan, test.batch(), workspace, bytes, nullptr);
    executor.resolve(on_device.view(), workspace, nullptr);
  }
  ::testing::AssertionResult runs_right(CudaExecutor& executor, std::byte* workspace) {
    tensors.poison();
    executor.run(tensors.args(), workspace, nullptr);
    return test.matches(tensors.download(), tolerance_of(DType::kF16));
  }
  void expect_refused(CudaExecutor& executor, std::byte* workspace) const {
    expect_error(ErrorCode::kWorkspace, kTaken, [&] { executor.run(tensors.args(), workspace, nullptr); });
    expect_error(ErrorCode::kWorkspace, kTaken, [&] { executor.resolve(on_device.view(), workspace, nullptr); });
  }

  PagedBatch paged;
  AttentionCase test;
  Plan plan;
  DeviceBatch on_device;
  DeviceTensors tensors;
};

class CudaSharedWorkspace : public CudaTest {};

TEST_F(CudaSharedWorkspace, TheLastToUploadRuns) {
  Step a(1);
  Step b(2);
  CudaExecutor first({.kernels = CudaKernels::kPortable});
  std::optional<CudaExecutor> second(std::in_place, CudaOptions{.kernels = CudaKernels::kPortable});
  const std::size_t bytes = first.workspace_bytes(a.plan);
  const DeviceMemory memory(2 * bytes + 1024);
  auto* const base = memory.as<std::byte>();
  for (const std::size_t offset : {std::size_t{0}, std::size_t{256}, std::size_t{1024}}) {
    a.begin(first, base, bytes);
    b.begin(*second, base + offset, bytes);
    a.expect_refused(first, base);
    EXPECT_TRUE(b.runs_right(*second, base + offset));
    a.begin(first, base, bytes);
    b.expect_refused(*second, base + offset);
    EXPECT_TRUE(a.runs_right(first, base));
  }
  b.begin(*second, base, bytes);
  second.reset();
  a.expect_refused(first, base);
  // Apart, both run.
  CudaExecutor third({.kernels = CudaKernels::kPortable});
  const std::size_t behind = (bytes + 255) / 256 * 256;
  a.begin(first, base, bytes);
  b.begin(third, base + behind, bytes);
  EXPECT_TRUE(a.runs_right(first, base));
  EXPECT_TRUE(b.runs_right(third, base + behind));
}

TEST_F(CudaSharedWorkspace, PlannersThatShareMemory) {
  Step step(1);
  const AttentionShape shape = on_cuda(step.test.shape());
  const CudaPlannerOptions options{.rows = 8, .capacity = {.queries = 8, .items = 64, .spans = 256, .partials = 64}};
  CudaPlanner a(cuda_profile(0, shape), shape, options);
  CudaPlanner b(cuda_profile(0, shape), shape, options);
  CudaExecutor executor;
  const DeviceMemory memory(a.memory_bytes());
  const DeviceMemory workspace(executor.workspace_bytes(a));
  const auto plan = [&](CudaPlanner& planner) {
    executor.plan(planner, step.on_device.view(), workspace.data(), workspace.size(), nullptr);
    executor.resolve(step.on_device.view(), workspace.data(), nullptr);
  };
  a.bind(memory.data(), memory.size(), nullptr);
  plan(a);
  b.bind(memory.data(), memory.size(), nullptr);
  expect_error(ErrorCode::kWorkspace, "planned in the planner's memory since", [&] { plan(a); });
  plan(b);
  EXPECT_TRUE(step.runs_right(executor, workspace.as<std::byte>()));
  a.bind(memory.data(), memory.size(), nullptr);
  plan(a);
  EXPECT_TRUE(step.runs_right(executor, workspace.as<std::byte>()));
}

}  // namespace
}  // namespace trunkline::testing
