// Random batches x policies through the C interface alone, against the oracle.
#include <gtest/gtest.h>
#include <trunkline/experimental.h>

#include <array>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "c_case.hpp"
#include "exec/attention_case.hpp"
#include "exec/executor_cases.hpp"
#include "support/test_scale.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPageSizes[] = {1, 5, 16, 24};

AttentionOutput run(const AttentionCase& test, const CServing& serving, const trunkline_plan* plan,
                    const CBatch& batch) {
  std::size_t bytes = 0;
  EXPECT_OK(trunkline_cpu_workspace_bytes(serving.cpu, plan, batch.batch.rows, &bytes));
  AlignedWorkspace workspace(bytes);
  EXPECT_OK(trunkline_cpu_resolve(serving.cpu, plan, &batch.batch, workspace.bytes().data(), bytes));
  return test.collect([&](const AttentionArgs& args) {
    const CLayer layer(test.shape(), test.batch(), args);
    EXPECT_OK(trunkline_cpu_run(serving.cpu, &layer.layer, workspace.bytes().data(), bytes));
  });
}

TEST(CProperty, EveryPolicyMatchesTheOracle) {
  for (int round = 0; round < scaled(300); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 9000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 16, 300));
    constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
    const AttentionShape shape = make_shape(uniform(random, 1, 2), uniform(random, 1, 8), 64,
                                            random_batch.options.page_size, kTypes[uniform(random, 0, 2)]);
    SyntheticOptions options;
    options.layout = uniform(random, 0, 1) == 0 ? CacheLayout::kNhd : CacheLayout::kHnd;
    const AttentionCase test(shape, random_batch.view(), options);
    const CBatch batch(test.batch());
    const CServing serving(&batch.batch);
    const trunkline_shape of = c_shape(shape);

    trunkline_forest_info forest = c_struct<trunkline_forest_info>();
    ASSERT_OK(trunkline_forest_get_info(serving.forest, &forest));
    EXPECT_EQ(forest.distinct_tokens, test.forest().distinct_tokens);
    for (trunkline_policy policy = TRUNKLINE_POLICY_AUTO; trunkline_policy_name(policy) != nullptr; ++policy) {
      SCOPED_TRACE(trunkline_policy_name(policy));
      auto plan_options = c_struct<trunkline_plan_options>();
      plan_options.policy = policy;
      plan_options.split = uniform(random, TRUNKLINE_SPLIT_OWN, TRUNKLINE_SPLIT_LONG);
      const trunkline_plan* plan = nullptr;
      ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &of, &plan_options, &plan));
      ASSERT_OK(trunkline_plan_validate(plan, serving.forest));
      ASSERT_TRUE(test.matches(run(test, serving, plan, batch), kFloatTolerance));
    }
  }
}

TEST(CProperty, TheReferenceIsTheOracle) {
  std::mt19937_64 random(5);
  const RandomBatch random_batch = make_random_batch(random, {});
  const AttentionCase test(make_shape(2, 3, 64, 16), random_batch.view());
  const CBatch batch(test.batch());
  const CServing serving(&batch.batch);
  const trunkline_shape shape = c_shape(test.shape());
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape, nullptr, &plan));
  const auto by_oracle = test.collect([&](const AttentionArgs& args) {
    const CLayer layer(test.shape(), test.batch(), args);
    EXPECT_OK(trunkline_reference_attention(&shape, &batch.batch, &layer.layer));
  });
  EXPECT_TRUE(test.matches(by_oracle, 0));
  const auto by_plan = test.collect([&](const AttentionArgs& args) {
    const CLayer layer(test.shape(), test.batch(), args);
    EXPECT_OK(trunkline_reference_run_plan(plan, &batch.batch, &layer.layer));
  });
  EXPECT_TRUE(test.matches(by_plan, 1e-6));
}

// The reference runs a plan for a GPU where there is no GPU.
TEST(CProperty, TheReferenceRunsPlansForAGpu) {
  std::mt19937_64 random(8);
  const RandomBatch random_batch = make_random_batch(random, {});
  const AttentionCase test(make_shape(2, 4, 128, 16), random_batch.view());
  const CBatch batch(test.batch());
  CServing serving(&batch.batch);
  CProfile profile;
  CPlanner planner;
  ASSERT_OK(trunkline_profile_named("h200-sxm", profile.out()));
  ASSERT_OK(trunkline_planner_create(profile, planner.out()));
  trunkline_shape shape = c_shape(test.shape());
  shape.device = TRUNKLINE_CUDA;
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(planner, serving.forest, &shape, nullptr, &plan));
  const auto output = test.collect([&](const AttentionArgs& args) {
    const CLayer layer(test.shape(), test.batch(), args);
    EXPECT_OK(trunkline_reference_run_plan(plan, &batch.batch, &layer.layer));
  });
  EXPECT_TRUE(test.matches(output, 1e-6));
  std::size_t bytes = 1 << 20;
  AlignedWorkspace workspace(bytes);
  expect_failure(trunkline_cpu_resolve(serving.cpu, plan, &batch.batch, workspace.bytes().data(), bytes),
                 TRUNKLINE_UNSUPPORTED, "plan is for cuda; this executor runs plans for cpu");
  expect_failure(trunkline_cpu_workspace_bytes(serving.cpu, plan, 3, &bytes), TRUNKLINE_UNSUPPORTED,
                 "plan is for cuda");
}

// Strides of every kind: HND as a layout, [Hq, T] for the LSE, base 2, 16-bit outputs with gaps.
TEST(CProperty, LayoutsOfTensors) {
  std::mt19937_64 random(6);
  const RandomBatch random_batch = make_random_batch(random, {});
  SyntheticOptions options;
  options.layout = CacheLayout::kHnd;
  const AttentionCase test(make_shape(2, 3, 64, 16), random_batch.view(), options);
  const CBatch batch(test.batch());
  const CServing serving(&batch.batch);
  const trunkline_shape shape = c_shape(test.shape());
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(serving.planner, serving.forest, &shape, nullptr, &plan));
  std::size_t bytes = 0;
  ASSERT_OK(trunkline_cpu_workspace_bytes(serving.cpu, plan, batch.batch.rows, &bytes));
  AlignedWorkspace workspace(bytes);
  ASSERT_OK(trunkline_cpu_resolve(serving.cpu, plan, &batch.batch, workspace.bytes().data(), bytes));

  const std::int64_t tokens = test.batch().total_queries();
  std::vector<float> transposed(static_cast<std::size_t>(tokens) * 6);
  const AttentionOutput output = test.collect([&](const AttentionArgs& args) {
    CLayer layer(test.shape(), test.batch(), args);
    const std::array<std::int64_t, 4> hnd = {test.batch().num_pages, 2, 16, 64};
    layer.layer.k.shape = layer.layer.v.shape = hnd.data();
    layer.layer.k.strides = layer.layer.v.strides = nullptr;  // row-major
    layer.layer.kv_layout = TRUNKLINE_HND;
    const std::array<std::int64_t, 2> strides = {1, tokens};
    layer.layer.lse.strides = strides.data();
    layer.layer.lse.data = transposed.data();
    layer.layer.lse_base = TRUNKLINE_LSE_TWO;
    EXPECT_OK(trunkline_cpu_run(serving.cpu, &layer.layer, workspace.bytes().data(), bytes));
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < 6; ++h) {
        args.lse[t * 6 + h] = transposed[static_cast<std::size_t>(h * tokens + t)] * std::numbers::ln2_v<float>;
      }
    }
  });
  EXPECT_TRUE(test.matches(output, kFloatTolerance));
}

}  // namespace
}  // namespace trunkline::testing
