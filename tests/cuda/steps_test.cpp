// From step to step: plans that outlive the batch they were made for, streams of one's own, and captured graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda/device_case.hpp"
#include "cuda/graph.hpp"
#include "exec/executor_cases.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

class CudaSteps : public CudaTest {};

TEST_F(CudaSteps, AnOldPlanRunsOnALongerBatch) {
  for (int round = 0; round < scaled(60); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 5000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    GrowingBatch batch(seed);
    std::vector<Plan> plans;
    for (const Policy policy : packing_policies()) {
      const PlanOptions options = options_of(policy, batch.next_split());
      plans.push_back(make_plan(batch.before(), on_cuda(batch.shape()), cutting_gpu_profile(4), options));
    }
    const AttentionCase& test = batch.grow();
    const DeviceBatch on_device(test.batch());
    DeviceTensors tensors(test);
    for (const Plan& plan : plans) {
      SCOPED_TRACE(name_of(plan.policy));
      const AttentionOutput output = run_cuda(plan, test.batch(), executor_of(RunWay{}), on_device, tensors);
      ASSERT_TRUE(test.matches(output, tolerance_of(DType::kF16)));
    }
  }
}

TEST_F(CudaSteps, AnOldPlanRunsOnReorderedRows) {
  std::mt19937_64 random(9);
  const RandomBatch random_batch = make_random_batch(random, {});
  const AttentionShape shape = make_shape(2, 4, 64, 16);
  const Plan plan = make_plan(build_forest(random_batch.view()), on_cuda(shape), cutting_gpu_profile(2),
                              options_of(Policy::kNode, KvSplit::kOwn));
  const RandomBatch reversed = with_reversed_rows(random_batch);
  const Batch view = reversed.view();
  const AttentionCase test(shape, view);
  EXPECT_TRUE(test.matches(run_cuda(test, plan), tolerance_of(DType::kF16)));
}

// Filling memory is the default stream's work, which is late where a GPU has other work: a plan that a stream of its
// own had uploaded was overwritten.
TEST_F(CudaSteps, OtherStreamsFindMemoryFilled) {
  const OwnStream stream;
  check(cudaLaunchHostFunc(
      nullptr, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr));
  const DeviceMemory memory(4096);
  check(cudaMemsetAsync(memory.data(), 1, memory.size(), stream));
  std::vector<unsigned char> bytes(memory.size());
  memory.download(bytes.data());
  EXPECT_TRUE(std::ranges::all_of(bytes, [](unsigned char byte) { return byte == 1; }));
}

PagedBatch twelve_requests() {
  return lay_out_pages(tree_from_levels("1,3,12/96,64,100"), 16, 5);
}

PlanOptions with_capacity(Policy policy, KvSplit split) {
  PlanOptions options = options_of(policy, split);
  options.capacity = {.queries = 16, .items = 256, .spans = 512, .partials = 512};
  return options;
}

class CudaGraphs : public CudaTest, public ::testing::WithParamInterface<RunWay> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped() && !runs_here(GetParam(), shape())) GTEST_SKIP() << "no such kernels on this device";
  }
  static AttentionShape shape() { return make_shape(2, 4, GetParam().kernels == CudaKernels::kHopper ? 128 : 64, 16); }
  static MachineProfile profile(std::int32_t workers) { return cutting_gpu_profile(workers, GetParam().kernels); }
};

// One capture serves every plan of the same capacity, whatever its tiles and partials.
TEST_P(CudaGraphs, ReplaysWithChangedPlans) {
  const PagedBatch paged = twelve_requests();
  const AttentionCase test(shape(), paged.view());
  const DeviceBatch on_device(test.batch());
  DeviceTensors tensors(test);
  CudaExecutor executor(GetParam().options());
  const OwnStream stream;

  Planner planner(profile(24));
  const Plan& first =
      planner.plan(test.forest(), on_cuda(shape()), with_capacity(Policy::kNode, experimental::kSplitMean));
  ASSERT_GT(first.partials, 0);
  const DeviceMemory workspace(executor.workspace_bytes(first));
  executor.upload(first, test.batch(), workspace.data(), workspace.size(), stream);
  check(cudaStreamSynchronize(stream));
  Graph graph(stream, [&] {
    executor.resolve(on_device.view(), workspace.data(), stream);
    executor.run(tensors.args(), workspace.data(), stream);
  });
  const auto replay_matches = [&] {
    tensors.poison();
    check(cudaDeviceSynchronize());
    graph.launch(stream);
    check(cudaStreamSynchronize(stream));
    return test.matches(tensors.download(), tolerance_of(DType::kF16));
  };
  for (int replay = 0; replay < 3; ++replay) ASSERT_TRUE(replay_matches()) << "as captured";

  for (const Policy policy : packing_policies()) {
    for (const KvSplit split : {KvSplit::kNone, experimental::kSplitMean}) {
      SCOPED_TRACE(::testing::Message() << name_of(policy) << " split " << name_of(split));
      const Plan& plan = planner.plan(test.forest(), on_cuda(shape()), with_capacity(policy, split));
      executor.upload(plan, test.batch(), workspace.data(), workspace.size(), stream);
      ASSERT_TRUE(replay_matches()) << "another plan";
    }
  }
}

// One capture, one upload: requests grow from half of their final length, through the same table.
TEST_P(CudaGraphs, ReplaysWithChangedLengths) {
  std::mt19937_64 random(3);
  RandomBatchOptions options;
  options.max_rows = 10;
  options.max_tokens = 500;
  const RandomBatch grown = make_random_batch(random, options);
  const auto at_step = [&](std::int32_t step) {
    std::vector<std::int32_t> lens = grown.kv_lens;
    for (std::int32_t& len : lens) len = len / 2 + (len - len / 2) * step / 4;
    return lens;
  };
  std::vector<std::int32_t> lens = at_step(0);
  Batch view = grown.view();
  view.kv_lens = lens;
  const AttentionCase first(shape(), view);
  const Plan plan =
      make_plan(first.forest(), on_cuda(shape()), profile(8), options_of(Policy::kProfit, experimental::kSplitMean));
  DeviceBatch on_device(view);
  DeviceTensors tensors(first);
  CudaExecutor executor(GetParam().options());
  const OwnStream stream;
  const DeviceMemory workspace(executor.workspace_bytes(plan));
  executor.upload(plan, view, workspace.data(), workspace.size(), stream);
  check(cudaStreamSynchronize(stream));
  Graph graph(stream, [&] {
    executor.resolve(on_device.view(), workspace.data(), stream);
    executor.run(tensors.args(), workspace.data(), stream);
  });
  for (std::int32_t step = 0; step <= 4; ++step) {
    std::ranges::copy(at_step(step), lens.begin());
    const AttentionCase now(shape(), view);
    tensors.copy_inputs(now);
    tensors.poison();
    on_device.overwrite(view);
    check(cudaDeviceSynchronize());
    graph.launch(stream);
    ASSERT_TRUE(now.matches(tensors.download(), tolerance_of(DType::kF16))) << "step " << step;
  }
}

TEST_P(CudaGraphs, ACapturedWorkspaceKeepsItsLayout) {
  const PagedBatch small = twelve_requests();
  const PagedBatch other = lay_out_pages(tree_from_levels("1,40/64,90"), 16, 5);
  const AttentionCase test(shape(), small.view());
  CudaExecutor executor(GetParam().options());
  const OwnStream stream;
  const Plan plan = make_plan(test.forest(), on_cuda(shape()), profile(8), {});
  const Plan larger = make_plan(build_forest(other.view()), on_cuda(shape()), profile(8), {});
  const DeviceMemory workspace(std::max(executor.workspace_bytes(plan), executor.workspace_bytes(larger)));
  const DeviceBatch on_device(test.batch());
  DeviceTensors tensors(test);
  executor.upload(plan, test.batch(), workspace.data(), workspace.size(), stream);
  expect_error(ErrorCode::kUnsupported, "being captured", [&] {
    Graph graph(stream, [&] { executor.upload(plan, test.batch(), workspace.data(), workspace.size(), stream); });
  });
  cudaGraph_t abandoned = nullptr;
  check(cudaStreamEndCapture(stream, &abandoned));
  cudaGraphDestroy(abandoned);
  executor.upload(larger, other.view(), workspace.data(), workspace.size(), stream);
  executor.upload(plan, test.batch(), workspace.data(), workspace.size(), stream);
  executor.release(workspace.data());
  executor.upload(plan, test.batch(), workspace.data(), workspace.size(), stream);
  check(cudaStreamSynchronize(stream));
  Graph graph(stream, [&] {
    executor.resolve(on_device.view(), workspace.data(), stream);
    executor.run(tensors.args(), workspace.data(), stream);
  });
  expect_error(ErrorCode::kWorkspace, "which a captured graph uses, has room for 12",
               [&] { executor.upload(larger, other.view(), workspace.data(), workspace.size(), stream); });
  executor.release(workspace.data());
  EXPECT_NO_THROW(executor.upload(larger, other.view(), workspace.data(), workspace.size(), stream));
  check(cudaStreamSynchronize(stream));
}

INSTANTIATE_TEST_SUITE_P(Modes, CudaGraphs, ::testing::ValuesIn(run_ways_of_all_kernels()),
                         [](const auto& way) { return text_of(way.param); });

/// A batch in flight, on a stream and a workspace of its own, on the device that is current.
struct Lane {
  Lane(const AttentionShape& shape, const Batch& batch, CudaExecutor& its_executor, CudaKernels kernels)
      : executor(its_executor),
        test(shape, batch),
        plan(make_plan(test.forest(), on_cuda(shape), cutting_gpu_profile(32, kernels),
                       options_of(Policy::kNode, experimental::kSplitMean))),
        on_device(test.batch()),
        tensors(test),
        workspace(executor.workspace_bytes(plan)) {}

  void step() {
    executor.upload(plan, test.batch(), workspace.data(), workspace.size(), stream);
    executor.resolve(on_device.view(), workspace.data(), stream);
    for (int layer = 0; layer < 3; ++layer) executor.run(tensors.args(), workspace.data(), stream);
  }
  ::testing::AssertionResult is_right() const {
    check(cudaStreamSynchronize(stream));
    return test.matches(tensors.download(), tolerance_of(DType::kF16));
  }

  CudaExecutor& executor;
  AttentionCase test;
  Plan plan;
  DeviceBatch on_device;
  DeviceTensors tensors;
  DeviceMemory workspace;
  OwnStream stream;
};

// Two batches in flight at once, through one executor.
TEST_F(CudaSteps, TwoStreamsWithTwoWorkspaces) {
  const PagedBatch paged[] = {twelve_requests(), lay_out_pages(tree_from_levels("2,16/300,40"), 16, 6)};
  const Batch views[] = {paged[0].view(), paged[1].view()};
  const AttentionShape shape = make_shape(2, 4, 128, 16);
  for (const RunWay way : run_ways_of_all_kernels()) {
    SCOPED_TRACE(text_of(way));
    if (!runs_here(way, shape)) continue;
    CudaExecutor executor(way.options());
    Lane first(shape, views[0], executor, way.kernels);
    Lane second(shape, views[1], executor, way.kernels);
    check(cudaDeviceSynchronize());
    for (int round = 0; round < 20; ++round) {
      first.step();
      second.step();
    }
    EXPECT_TRUE(first.is_right());
    EXPECT_TRUE(second.is_right());
  }
}

// An executor each; the caller need not make a device current before it calls that device's.
TEST_F(CudaSteps, TwoDevicesInOneProcess) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices));
  if (devices < 2) GTEST_SKIP() << "one device";
  const PagedBatch paged[] = {twelve_requests(), lay_out_pages(tree_from_levels("2,16/300,40"), 16, 6)};
  const Batch views[] = {paged[0].view(), paged[1].view()};
  const AttentionShape shape = make_shape(2, 4, 128, 16);
  for (const RunWay way : run_ways_of_all_kernels()) {
    SCOPED_TRACE(text_of(way));
    if (!runs_here(way, shape)) continue;
    std::vector<CudaExecutor> executors;
    std::vector<std::unique_ptr<Lane>> lanes;
    executors.reserve(2);
    for (int device = 0; device < 2; ++device) {
      CudaOptions options = way.options();
      options.device = device;
      executors.emplace_back(options);
      check(cudaSetDevice(device));
      lanes.push_back(std::make_unique<Lane>(shape, views[device], executors.back(), way.kernels));
      check(cudaDeviceSynchronize());
    }
    check(cudaSetDevice(0));
    for (int round = 0; round < 20; ++round) {
      for (const auto& lane : lanes) lane->step();
    }
    int current = -1;
    check(cudaGetDevice(&current));
    EXPECT_EQ(current, 0);
    EXPECT_TRUE(lanes[0]->is_right());
    check(cudaSetDevice(1));
    EXPECT_TRUE(lanes[1]->is_right());
    lanes.pop_back();  // while its device is current, as its guards are read
    check(cudaSetDevice(0));
  }
}

TEST_F(CudaSteps, SameBitsInEveryRunAndMode) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("2,4,24/300,100,40"), 16, 3);
  const AttentionCase test(make_shape(4, 4, 128, 16), paged.view());
  for (const CudaKernels kernels : kernels_for(test.shape())) {
    const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(64, kernels),
                                options_of(Policy::kNode, experimental::kSplitMean));
    ASSERT_GT(plan.partials, 0);
    const AttentionOutput expected = run_cuda(test, plan, {.kernels = kernels});
    ASSERT_TRUE(test.matches(expected, tolerance_of(DType::kF16)));
    for (int round = 0; round < 20; ++round) {
      for (const RunWay way : kRunWays) {
        const AttentionOutput output = run_cuda(test, plan, way.with(kernels));
        ASSERT_EQ(output.o, expected.o) << text_of(way.with(kernels));
        ASSERT_EQ(output.lse, expected.lse) << text_of(way.with(kernels));
      }
    }
  }
}

// A length that the table has no room for, or that has fallen below what the plan reads, must not lead out of it.
TEST_F(CudaSteps, LengthsOutOfRangeAreEmptyAndReadNothing) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,4/64,40"), 16, 3);
  const AttentionCase test(make_shape(1, 4, 64, 16), paged.view());
  const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(2),
                              options_of(Policy::kFlat, KvSplit::kNone));
  CudaExecutor& executor = executor_of(RunWay{});
  DeviceBatch on_device(test.batch());
  DeviceTensors tensors(test);
  const DeviceMemory workspace(executor.workspace_bytes(plan));
  executor.upload(plan, test.batch(), workspace.data(), workspace.size(), nullptr);
  Batch broken = test.batch();
  const std::vector<std::int32_t> lens{-7, 1 << 30, 0, 104};
  broken.kv_lens = lens;
  on_device.overwrite(broken);
  executor.resolve(on_device.view(), workspace.data(), nullptr);
  executor.run(tensors.args(), workspace.data(), nullptr);
  const AttentionOutput output = tensors.download();
  executor.release(workspace.data());
  const std::size_t row = 4 * 64;
  for (std::size_t i = 0; i < 3 * row; ++i) ASSERT_EQ(output.o[i], 0) << i;
  for (std::size_t i = 0; i < 3 * 4; ++i) ASSERT_EQ(output.lse[i], -std::numeric_limits<float>::infinity()) << i;
  for (std::size_t i = 3 * row; i < 4 * row; ++i) {
    ASSERT_NEAR(output.o[i], test.expected().o[i], tolerance_of(DType::kF16));
  }
}

}  // namespace
}  // namespace trunkline::testing
