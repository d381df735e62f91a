// Steps planned on a GPU through the C interface, against the oracle and the host's plans.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "cuda_serving.hpp"
#include "exec/executor_cases.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"

namespace trunkline::testing {
namespace {

using CCudaPlanner = CHandle<trunkline_cuda_planner, trunkline_cuda_planner_destroy>;

constexpr std::int32_t kQueries = 256;
constexpr std::int32_t kItems = 512;
constexpr std::int32_t kSpans = 2048;
constexpr std::int32_t kPartials = 1024;

/// A planner of the serving's shape and profile.
struct PlannerOnDevice {
  PlannerOnDevice(const CudaServing& serving, std::int32_t rows, std::int32_t queries = kQueries) {
    auto options = c_struct<trunkline_cuda_planner_options>();
    options.rows = rows;
    options.capacity_queries = queries;
    options.capacity_items = kItems;
    options.capacity_spans = kSpans;
    options.capacity_partials = kPartials;
    EXPECT_OK(trunkline_cuda_planner_create(serving.profile, &serving.shape, &options, planner.out()));
    EXPECT_OK(trunkline_cuda_planner_memory_bytes(planner, &memory_bytes));
    EXPECT_OK(trunkline_cuda_planner_workspace_bytes(serving.cuda, planner, &workspace_bytes));
  }
  trunkline_cuda_plan_report report() const {
    check(cudaDeviceSynchronize());
    auto found = c_struct<trunkline_cuda_plan_report>();
    EXPECT_OK(trunkline_cuda_planner_report(planner, &found));
    return found;
  }

  CCudaPlanner planner;
  std::size_t memory_bytes = 0;
  std::size_t workspace_bytes = 0;
};

const trunkline_plan* host_plan(const CudaServing& serving) {
  auto options = c_struct<trunkline_plan_options>();
  options.policy = TRUNKLINE_POLICY_TRUNK;
  options.capacity_queries = kQueries;
  options.capacity_items = kItems;
  options.capacity_spans = kSpans;
  options.capacity_partials = kPartials;
  const trunkline_plan* made = nullptr;
  EXPECT_OK(trunkline_planner_plan(serving.planner, serving.forest, &serving.shape, &options, &made));
  return made;
}

class CCudaPlannerTest : public CudaTest {};

TEST_F(CCudaPlannerTest, PlansWhatIsUploadedOtherwise) {
  for (int round = 0; round < scaled(40); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 500;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch batch = make_random_batch(random, {});
    const std::int32_t rows = batch.view().rows();
    const AttentionCase test(make_shape(2, 4, 128, batch.options.page_size), batch.view());
    const CudaServing serving(test);
    DeviceTensors tensors(test);
    const DeviceLayer layer(test, tensors);
    const PlannerOnDevice on_device(serving, std::max(rows, 1));
    const trunkline_plan* plan = host_plan(serving);
    std::size_t bytes = 0;
    ASSERT_OK(trunkline_cuda_workspace_bytes(serving.cuda, plan, &bytes));
    ASSERT_EQ(on_device.workspace_bytes, bytes);
    const DeviceMemory memory(on_device.memory_bytes);
    const DeviceMemory workspace(bytes);

    tensors.poison();
    ASSERT_OK(trunkline_cuda_upload(serving.cuda, plan, &serving.host.batch, workspace.data(), bytes, nullptr));
    ASSERT_OK(trunkline_cuda_resolve(serving.cuda, &serving.device, workspace.data(), nullptr));
    ASSERT_OK(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr));
    const AttentionOutput uploaded = tensors.download();

    tensors.poison();
    ASSERT_OK(trunkline_cuda_planner_bind(on_device.planner, memory.data(), memory.size(), nullptr));
    for (int step = 0; step < 2; ++step) {
      ASSERT_OK(
          trunkline_cuda_plan(serving.cuda, on_device.planner, &serving.device, workspace.data(), bytes, nullptr));
      ASSERT_OK(trunkline_cuda_resolve(serving.cuda, &serving.device, workspace.data(), nullptr));
      ASSERT_OK(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr));
    }
    const AttentionOutput planned = tensors.download();
    EXPECT_TRUE(test.matches(planned, tolerance_of(test.shape().q_dtype)));
    EXPECT_EQ(planned.o, uploaded.o);
    EXPECT_EQ(planned.lse, uploaded.lse);

    auto info = c_struct<trunkline_plan_info>();
    ASSERT_OK(trunkline_plan_get_info(plan, &info));
    const trunkline_cuda_plan_report report = on_device.report();
    EXPECT_EQ(report.planned, 1U);
    EXPECT_EQ(report.reused, 1U);
    EXPECT_EQ(report.items, info.items);
    EXPECT_EQ(report.spans, info.spans);
    EXPECT_EQ(report.partials, info.partials);
    EXPECT_EQ(report.kv_tokens_total, test.forest().total_tokens);
    EXPECT_EQ(report.kv_tokens_distinct, test.forest().distinct_tokens);
    EXPECT_EQ(report.unplanned + report.bad_lengths + report.bad_queries, 0);
    EXPECT_EQ(report.first_bad_length, -1);
  }
}

// One of each row's tokens by query_start, as without it; Q and outputs then have the capacity's queries.
TEST_F(CCudaPlannerTest, WithQueryStartTensorsAreOfTheCapacity) {
  std::mt19937_64 random(9);
  const RandomBatch batch = make_random_batch(random, {});
  const AttentionCase test(make_shape(2, 4, 128, 16), batch.view());
  CudaServing serving(test);
  DeviceTensors tensors(test);
  const DeviceLayer layer(test, tensors);
  const PlannerOnDevice on_device(serving, batch.view().rows());
  const DeviceMemory memory(on_device.memory_bytes);
  const DeviceMemory workspace(on_device.workspace_bytes);
  ASSERT_OK(trunkline_cuda_planner_bind(on_device.planner, memory.data(), memory.size(), nullptr));
  std::vector<std::int32_t> starts(static_cast<std::size_t>(batch.view().rows()) + 1);
  std::iota(starts.begin(), starts.end(), 0);
  const DeviceMemory query_start(starts);
  serving.device.query_start = query_start.as<std::int32_t>();
  ASSERT_OK(trunkline_cuda_plan(serving.cuda, on_device.planner, &serving.device, workspace.data(), workspace.size(),
                                nullptr));
  ASSERT_OK(trunkline_cuda_resolve(serving.cuda, &serving.device, workspace.data(), nullptr));
  expect_failure(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr), TRUNKLINE_INVALID_ARGUMENT,
                 "[256, 8, 128]");
  EXPECT_EQ(on_device.report().bad_queries, 0);

  serving.device.queries = batch.view().rows();
  ASSERT_OK(trunkline_cuda_plan(serving.cuda, on_device.planner, &serving.device, workspace.data(), workspace.size(),
                                nullptr));
  ASSERT_OK(trunkline_cuda_resolve(serving.cuda, &serving.device, workspace.data(), nullptr));
  ASSERT_OK(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr));
  EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(test.shape().q_dtype)));
  serving.device.queries = 257;
  expect_failure(trunkline_cuda_plan(serving.cuda, on_device.planner, &serving.device, workspace.data(),
                                     workspace.size(), nullptr),
                 TRUNKLINE_INVALID_ARGUMENT,
                 "batch.queries is 257; it must be 0 to the planner's capacity_queries, 256");
}

TEST_F(CCudaPlannerTest, MoreQueriesThanItHasRoomFor) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3/40,20"), 16, 1);
  const AttentionCase test(make_shape(2, 4, 128, 16), paged.view());
  const CudaServing serving(test);
  const PlannerOnDevice on_device(serving, 3, 2);
  const DeviceMemory memory(on_device.memory_bytes);
  const DeviceMemory workspace(on_device.workspace_bytes);
  ASSERT_OK(trunkline_cuda_planner_bind(on_device.planner, memory.data(), memory.size(), nullptr));
  expect_failure(trunkline_cuda_plan(serving.cuda, on_device.planner, &serving.device, workspace.data(),
                                     workspace.size(), nullptr),
                 TRUNKLINE_INVALID_ARGUMENT, "3 rows, of one query token each; the planner's capacity_queries is 2");
  check(cudaDeviceSynchronize());
}

TEST_F(CCudaPlannerTest, BadInput) {
  std::mt19937_64 random(8);
  const RandomBatch batch = make_random_batch(random, {});
  const AttentionCase test(make_shape(2, 4, 128, 16), batch.view());
  const CudaServing serving(test);
  DeviceTensors tensors(test);
  const DeviceLayer layer(test, tensors);
  PlannerOnDevice on_device(serving, batch.view().rows());
  const DeviceMemory memory(on_device.memory_bytes);
  const DeviceMemory workspace(on_device.workspace_bytes);
  const auto plan = [&](std::size_t bytes) {
    return trunkline_cuda_plan(serving.cuda, on_device.planner, &serving.device, workspace.data(), bytes, nullptr);
  };
  expect_failure(plan(workspace.size()), TRUNKLINE_INVALID_ARGUMENT, "bound to no memory");
  expect_failure(trunkline_cuda_planner_bind(on_device.planner, memory.data(), on_device.memory_bytes - 1, nullptr),
                 TRUNKLINE_WORKSPACE, "the planner's memory has");
  ASSERT_OK(trunkline_cuda_planner_bind(on_device.planner, memory.data(), memory.size(), nullptr));
  expect_failure(plan(workspace.size() - 1), TRUNKLINE_WORKSPACE, "workspace");
  expect_failure(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr), TRUNKLINE_WORKSPACE,
                 "call trunkline_cuda_upload() or trunkline_cuda_plan() first");
  // The planner is closed while its plan runs.
  ASSERT_OK(plan(workspace.size()));
  ASSERT_OK(trunkline_cuda_planner_destroy(on_device.planner.let_go()));
  ASSERT_OK(trunkline_cuda_resolve(serving.cuda, &serving.device, workspace.data(), nullptr));
  ASSERT_OK(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr));
  EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(test.shape().q_dtype)));
  ASSERT_OK(trunkline_cuda_release(serving.cuda, workspace.data()));
}

}  // namespace
}  // namespace trunkline::testing
