// When and where tasks ran.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cuda/device_case.hpp"
#include "kv/paged_batch.hpp"
#include "support/expect_error.hpp"
#include "support/policies.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

class CudaTaskTimes : public CudaTest {};

TEST_F(CudaTaskTimes, EveryTaskOnceInEveryWay) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,4,40/600,128,64"), 16, 3);
  const AttentionCase test(make_shape(4, 4, 128, 16), paged.view());
  const DeviceBatch on_device(test.batch());
  DeviceTensors tensors(test);
  const std::int32_t sms = cuda_device_info(0).sms;
  for (const RunWay way : run_ways_of_all_kernels()) {
    if (!runs_here(way, test.shape())) continue;
    SCOPED_TRACE(text_of(way));
    const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(132, way.kernels),
                                options_of(Policy::kNode, experimental::kSplitMean));
    const std::size_t tasks = plan.items.size() * 4;
    CudaExecutor& executor = executor_of(way);
    const DeviceMemory workspace(executor.workspace_bytes(plan));
    DeviceMemory times(tasks * sizeof(experimental::CudaTaskTime));
    times.fill(0xFF);  // earlier content must not show
    executor.upload(plan, test.batch(), workspace.data(), workspace.size(), nullptr);
    executor.resolve(on_device.view(), workspace.data(), nullptr);
    expect_error(ErrorCode::kWorkspace, "the plan has", [&] {
      experimental::record_tasks(executor, workspace.data(), times.as<experimental::CudaTaskTime>(), tasks - 1);
    });
    experimental::record_tasks(executor, workspace.data(), times.as<experimental::CudaTaskTime>(), tasks);
    tensors.poison();
    executor.run(tensors.args(), workspace.data(), nullptr);
    std::vector<experimental::CudaTaskTime> got(tasks);
    times.download(got.data());
    EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(DType::kF16)));
    executor.release(workspace.data());

    std::set<std::pair<std::int32_t, std::int32_t>> seen;
    for (std::size_t i = 0; i < tasks; ++i) {
      EXPECT_LE(got[i].begin_ns, got[i].end_ns);
      EXPECT_LT(got[i].end_ns - got[i].begin_ns, 1'000'000'000U);
      EXPECT_GE(got[i].sm, 0);
      EXPECT_LT(got[i].sm, sms);
      EXPECT_EQ(got[i].item, plan.schedule[i / 4]);
      EXPECT_EQ(got[i].head, static_cast<std::int32_t>(i % 4));
      seen.emplace(got[i].item, got[i].head);
    }
    EXPECT_EQ(seen.size(), tasks);
  }
}

// The records, and the check of their capacity, outlive the plan.
TEST_F(CudaTaskTimes, LargerPlansAreRecordedToo) {
  const PagedBatch few = lay_out_pages(tree_from_levels("2/200"), 16, 3);
  const PagedBatch more = lay_out_pages(tree_from_levels("9/200"), 16, 3);
  const AttentionShape shape = make_shape(1, 4, 64, 16);
  const AttentionCase test(shape, more.view());
  const auto flat_plan = [&](const PagedBatch& paged) {
    return make_plan(build_forest(paged.view()), on_cuda(shape), cutting_gpu_profile(1),
                     options_of(Policy::kFlat, KvSplit::kNone));
  };
  const Plan first = flat_plan(few);
  const Plan second = flat_plan(more);
  CudaExecutor executor(RunWay{}.options());
  const DeviceMemory workspace(executor.workspace_bytes(second));
  const DeviceMemory times(second.items.size() * sizeof(experimental::CudaTaskTime));
  const DeviceBatch on_device(test.batch());
  const DeviceTensors tensors(test);
  executor.upload(first, few.view(), workspace.data(), workspace.size(), nullptr);
  experimental::record_tasks(executor, workspace.data(), times.as<experimental::CudaTaskTime>(), first.items.size());
  expect_error(ErrorCode::kWorkspace, "the plan has 9 tasks",
               [&] { executor.upload(second, test.batch(), workspace.data(), workspace.size(), nullptr); });
  experimental::record_tasks(executor, workspace.data(), times.as<experimental::CudaTaskTime>(), second.items.size());
  executor.upload(second, test.batch(), workspace.data(), workspace.size(), nullptr);
  executor.resolve(on_device.view(), workspace.data(), nullptr);
  executor.run(tensors.args(), workspace.data(), nullptr);
  std::vector<experimental::CudaTaskTime> got(second.items.size());
  times.download(got.data());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].item, second.schedule[i]);
  executor.release(workspace.data());
}

// Tasks of one batch of stages: if a CTA took four of them at once, three of four other CTAs had none.
TEST_F(CudaTaskTimes, ShortTasksAreSpreadOverAllWorkers) {
  const std::int32_t sms = cuda_device_info(0).sms;
  const PagedBatch paged = lay_out_pages(tree_from_levels("2/400"), 16, 3);
  const AttentionCase test(make_shape(sms, 1, 128, 16), paged.view());
  const DeviceBatch on_device(test.batch());
  const DeviceTensors tensors(test);
  for (const CudaKernels kernels : {CudaKernels::kPortable, CudaKernels::kHopper}) {
    const RunWay way = RunWay{}.with(kernels);
    if (!runs_here(way, test.shape())) continue;
    SCOPED_TRACE(text_of(way));
    const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(sms, kernels),
                                options_of(Policy::kFlat, KvSplit::kNone));
    const std::size_t tasks = 2 * static_cast<std::size_t>(sms);
    CudaExecutor& executor = executor_of(way);
    const DeviceMemory workspace(executor.workspace_bytes(plan));
    const DeviceMemory times(tasks * sizeof(experimental::CudaTaskTime));
    executor.upload(plan, test.batch(), workspace.data(), workspace.size(), nullptr);
    executor.resolve(on_device.view(), workspace.data(), nullptr);
    experimental::record_tasks(executor, workspace.data(), times.as<experimental::CudaTaskTime>(), tasks);
    for (int run = 0; run < 3; ++run) executor.run(tensors.args(), workspace.data(), nullptr);
    std::vector<experimental::CudaTaskTime> got(tasks);
    times.download(got.data());
    executor.release(workspace.data());

    std::map<std::int32_t, int> by_worker;
    for (const experimental::CudaTaskTime& task : got) ++by_worker[task.worker];
    int most = 0;
    for (const auto& [worker, count] : by_worker) most = std::max(most, count);
    EXPECT_GE(static_cast<std::int32_t>(by_worker.size()), sms);
    EXPECT_LE(most, 3);
  }
}

}  // namespace
}  // namespace trunkline::testing
