// Very large and very negative logits: no NaN, no overflow, no lost weight.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "attention_case.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

TEST(Logits, ExtremeScales) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,12/90,40,25"), 16, 3);
  const Batch batch = paged.view();
  for (const float logit_scale : {1e-4F, 30.0F, 1000.0F, 30000.0F}) {
    SCOPED_TRACE(logit_scale);
    SyntheticOptions options;
    options.logit_scale = logit_scale;
    options.planted_keys = false;
    const AttentionCase test(make_shape(2, 4, 64, 16, DType::kF32), batch, options);
    for (const Policy policy : packing_policies()) {
      PlanOptions plan_options;
      plan_options.policy = policy;
      plan_options.split = experimental::kSplitMean;
      const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), plan_options);
      for (const CpuIsa isa : available_isas()) {
        // An fp32 logit of 10^5 is known to 0.01 only, so the largest scales may differ by that much in weight.
        const double tolerance = logit_scale > 100 ? 1e-6 * static_cast<double>(logit_scale) * 10 : 1e-4;
        EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa}), tolerance))
            << name_of(isa);
      }
    }
  }
}

// Keys that are all far below zero: every partial has a very negative LSE, where exp(lse) underflows to 0 and a merge
// that divides by the sum of such weights gives NaN.
TEST(Logits, AllVeryNegative) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,12/300,40"), 16, 3);
  const Batch batch = paged.view();
  AttentionCase test(make_shape(1, 4, 64, 16, DType::kF32), batch);
  auto* keys = static_cast<float*>(const_cast<void*>(test.args().k.data));  // the test owns the cache
  auto* queries = static_cast<float*>(const_cast<void*>(test.args().q));
  const std::int64_t key_elements = batch.num_pages * test.args().k.page_stride;
  for (std::int64_t i = 0; i < key_elements; i += 64) keys[i] = -1000;
  for (std::int64_t i = 0; i < std::int64_t{batch.total_queries()} * 4 * 64; i += 64) queries[i] = 100;
  test.recompute_expected();
  ASSERT_LT(test.expected().lse[0], -10000.0F);
  PlanOptions options;
  options.policy = Policy::kNode;
  options.split = experimental::kSplitMean;
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), options);
  for (const CpuIsa isa : available_isas()) {
    EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa}), 5e-3)) << name_of(isa);
  }
}

// A scale of 0 weighs all tokens that a query sees alike, and no other: chunks of query tokens see different ones.
TEST(Logits, AScaleOfZero) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,12/90,40,25"), 16, 3);
  const std::vector<std::int32_t> query_start = {0, 1, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16};
  Batch batch = paged.view();
  batch.query_start = query_start;
  const AttentionCase test(make_shape(2, 4, 64, 16), batch);
  const auto collect = [&](const auto& run) {
    return test.collect([&](AttentionArgs args) {
      args.scale = 0.0F;
      run(args);
    });
  };
  const AttentionOutput expected =
      collect([&](const AttentionArgs& args) { reference_attention(test.shape(), batch, args); });
  ASSERT_NEAR(expected.lse[8], std::log(153), 1e-5) << "the first query token of three of 155 tokens";
  for (const Policy policy : packing_policies()) {
    const Plan plan =
        make_plan(test.forest(), test.shape(), generic_cpu_profile(2), options_of(policy, experimental::kSplitMean));
    for (const CpuIsa isa : available_isas()) {
      const CpuExecutor executor(test_workers(), {MergeMode::kFused, isa});
      AlignedWorkspace workspace(executor.workspace_bytes(plan, batch.rows()));
      executor.resolve(plan, batch, workspace.bytes());
      const AttentionOutput output = collect([&](const AttentionArgs& args) { executor.run(args, workspace.bytes()); });
      for (std::size_t i = 0; i < output.o.size(); ++i) ASSERT_NEAR(output.o[i], expected.o[i], kFloatTolerance) << i;
      for (std::size_t i = 0; i < output.lse.size(); ++i) ASSERT_NEAR(output.lse[i], expected.lse[i], 1e-5) << i;
    }
  }
}

// A NaN that comes in must go out, where the oracle says so: an engine must see that its inputs are broken.
TEST(Logits, NanAndInfinityAreNotSwallowed) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,12/90,40,25"), 16, 3);
  const Batch batch = paged.view();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool in_query : {true, false}) {
    for (const float poison : {nan, infinity}) {
      AttentionCase test(make_shape(1, 4, 64, 16, DType::kF32), batch);
      // One query row, or one key that the last request sees alone.
      auto* queries = static_cast<float*>(const_cast<void*>(test.args().q));  // the test owns the cache
      auto* keys = static_cast<float*>(const_cast<void*>(test.args().k.data));
      const std::int32_t last = batch.rows() - 1;
      const std::int32_t position = batch.kv_lens[static_cast<std::size_t>(last)] - 1;
      const std::int64_t page = batch.pages.id(last, position / 16);
      (in_query ? queries[5 * 4 * 64] : keys[page * test.args().k.page_stride + position % 16 * 64]) = poison;
      test.recompute_expected();
      for (const Policy policy : packing_policies()) {
        for (const CpuIsa isa : available_isas()) {
          PlanOptions options;
          options.policy = policy;
          options.split = experimental::kSplitMean;
          const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), options);
          SCOPED_TRACE(::testing::Message()
                       << name_of(policy) << " " << name_of(isa) << " " << poison << " " << in_query);
          EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa}), 1e-4));
          EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {MergeMode::kSeparate, isa}), 1e-4));
        }
      }
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
