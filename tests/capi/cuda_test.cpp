// Steps on a GPU through the C interface, against the oracle.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "cuda_serving.hpp"
#include "exec/executor_cases.hpp"
#include "support/test_scale.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPageSizes[] = {1, 8, 16, 24};

class CCudaTest : public CudaTest {};

TEST_F(CCudaTest, EveryPolicyMatchesTheOracle) {
  for (int round = 0; round < scaled(40); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 400;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch batch = make_random_batch(random, random_executor_options(random, kPageSizes, 16, 300));
    const AttentionCase test(make_shape(uniform(random, 1, 2), uniform(random, 1, 8), 128, batch.options.page_size,
                                        uniform(random, 0, 1) == 0 ? DType::kF16 : DType::kBF16),
                             batch.view());
    CudaServing serving(test);
    DeviceTensors tensors(test);
    const DeviceLayer layer(test, tensors);
    for (trunkline_policy policy = TRUNKLINE_POLICY_AUTO; trunkline_policy_name(policy) != nullptr; ++policy) {
      SCOPED_TRACE(trunkline_policy_name(policy));
      const trunkline_plan* plan = serving.plan(policy);
      std::size_t bytes = 0;
      ASSERT_OK(trunkline_cuda_workspace_bytes(serving.cuda, plan, &bytes));
      const DeviceMemory workspace(bytes);
      trunkline_batch without_ids = serving.host.batch;
      trunkline_page_table table = serving.host.pages;
      table.ids = nullptr;
      without_ids.pages = &table;
      tensors.poison();
      ASSERT_OK(trunkline_cuda_upload(serving.cuda, plan, &without_ids, workspace.data(), bytes, nullptr));
      ASSERT_OK(trunkline_cuda_resolve(serving.cuda, &serving.device, workspace.data(), nullptr));
      ASSERT_OK(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr));
      EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(test.shape().q_dtype)));
      ASSERT_OK(trunkline_cuda_release(serving.cuda, workspace.data()));
    }
  }
}

TEST_F(CCudaTest, AStepIsCapturedAndThePlanMayGo) {
  std::mt19937_64 random(7);
  RandomBatchOptions options;
  options.max_tokens = 300;
  const RandomBatch batch = make_random_batch(random, options);
  const AttentionCase test(make_shape(2, 4, 128, 16), batch.view());
  CudaServing serving(test);
  DeviceTensors tensors(test);
  const DeviceLayer layer(test, tensors);
  const trunkline_plan* plan = serving.plan(TRUNKLINE_POLICY_NODE);
  std::size_t bytes = 0;
  ASSERT_OK(trunkline_cuda_workspace_bytes(serving.cuda, plan, &bytes));
  const DeviceMemory workspace(bytes);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  check(cudaStreamCreate(&stream));
  ASSERT_OK(trunkline_cuda_upload(serving.cuda, plan, &serving.host.batch, workspace.data(), bytes, stream));
  serving.plan(TRUNKLINE_POLICY_FLAT);  // in the place of the one that was uploaded
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  ASSERT_OK(trunkline_cuda_resolve(serving.cuda, &serving.device, workspace.data(), stream));
  ASSERT_OK(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), stream));
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < 2; ++i) {
    tensors.poison();
    check(cudaGraphLaunch(replay, stream));
    EXPECT_TRUE(test.matches(tensors.download(), tolerance_of(test.shape().q_dtype)));
  }
  check(cudaGraphExecDestroy(replay));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
}

TEST_F(CCudaTest, BadInput) {
  std::mt19937_64 random(8);
  const RandomBatch batch = make_random_batch(random, {});
  const AttentionCase test(make_shape(2, 4, 128, 16), batch.view());
  CudaServing serving(test);
  DeviceTensors tensors(test);
  DeviceLayer layer(test, tensors);
  const trunkline_plan* plan = serving.plan(TRUNKLINE_POLICY_AUTO);
  std::size_t bytes = 0;
  ASSERT_OK(trunkline_cuda_workspace_bytes(serving.cuda, plan, &bytes));
  const DeviceMemory workspace(bytes);
  expect_failure(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr), TRUNKLINE_WORKSPACE,
                 "has no plan");
  expect_failure(trunkline_cuda_upload(serving.cuda, plan, &serving.host.batch, workspace.data(), bytes - 1, nullptr),
                 TRUNKLINE_WORKSPACE, "workspace");
  ASSERT_OK(trunkline_cuda_upload(serving.cuda, plan, &serving.host.batch, workspace.data(), bytes, nullptr));
  ASSERT_OK(trunkline_cuda_resolve(serving.cuda, &serving.device, workspace.data(), nullptr));
  layer.layer.q.device = TRUNKLINE_CPU;
  expect_failure(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr), TRUNKLINE_INVALID_ARGUMENT,
                 "layer.q is on cpu; expected: cuda:0");
  layer.layer.q.device = TRUNKLINE_CUDA;
  layer.layer.v.device_index = 1;
  expect_failure(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr), TRUNKLINE_INVALID_ARGUMENT,
                 "layer.v is on cuda:1; expected: cuda:0");
  layer.layer.v.device_index = 0;
  EXPECT_OK(trunkline_cuda_run(serving.cuda, &layer.layer, workspace.data(), nullptr));
  check(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace trunkline::testing
