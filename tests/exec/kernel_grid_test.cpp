// Every compiled kernel: instruction set x element type x head size, with every group size, page size and layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attention_case.hpp"
#include "base/half.hpp"
#include "executor_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPageSizes[] = {1, 5, 16, 24};
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

RandomBatch grid_batch(std::uint64_t seed, std::int32_t page_size, std::int32_t max_rows,
                       std::int32_t max_queries = 1) {
  std::mt19937_64 random(seed);
  RandomBatchOptions options;
  options.max_rows = max_rows;
  options.max_tokens = 5 * page_size + 70;
  options.page_size = page_size;
  options.max_queries = max_queries;
  return make_random_batch(random, options);
}

void expect_all_isas_match(const AttentionCase& test, Policy policy) {
  PlanOptions options;
  options.policy = policy;
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), options);
  for (const CpuIsa isa : available_isas()) {
    SCOPED_TRACE(name_of(isa));
    EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa}), kFloatTolerance));
  }
}

TEST(KernelGrid, ElementTypesAndHeadSizes) {
  const RandomBatch random = grid_batch(1, 16, 14);
  const Batch batch = random.view();
  for (const DType dtype : kTypes) {
    for (const std::int32_t head_dim : {64, 128, 256}) {
      SCOPED_TRACE(::testing::Message() << name_of(dtype) << " d " << head_dim);
      for (const std::int32_t group : {1, 4, 16}) {
        const AttentionCase test(make_shape(2, group, head_dim, 16, dtype), batch);
        expect_all_isas_match(test, Policy::kNode);
      }
    }
  }
}

TEST(KernelGrid, EveryGroupSize) {
  const RandomBatch random = grid_batch(2, 16, 9);
  const Batch batch = random.view();
  std::vector<std::int32_t> groups(16);
  std::iota(groups.begin(), groups.end(), 1);
  groups.insert(groups.end(), {17, 24, 31, 32, 33, 48, 63, 64});  // beside the heights of tiles
  for (const std::int32_t group : groups) {
    SCOPED_TRACE(::testing::Message() << "g " << group);
    const AttentionCase test(make_shape(3, group, 64, 16), batch);
    for (const Policy policy : packing_policies()) expect_all_isas_match(test, policy);
  }
}

// One request's item has as many rows as a KV head has query heads: panels of whole vectors, tiles of values within
// them, and a rest. V of 8 bits is copied to fp32 first.
TEST(KernelGrid, EveryNumberOfRows) {
  const RandomBatch random = grid_batch(8, 16, 1);
  const Batch batch = random.view();
  for (const DType dtype : {DType::kF16, DType::kF8E4M3}) {
    for (std::int32_t rows = 1; rows <= 64; ++rows) {
      SCOPED_TRACE(::testing::Message() << name_of(dtype) << " rows " << rows);
      AttentionShape shape = make_shape(2, rows, 64, 16, dtype);
      shape.q_dtype = DType::kF16;
      const AttentionCase test(shape, batch);
      for (const Policy policy : {Policy::kNode, Policy::kInvariant}) expect_all_isas_match(test, policy);
    }
  }
}

// With drafts and cuts, whose partials are merged; also by the reference.
TEST(KernelGrid, LargeGroupsOfSeveralQueries) {
  std::mt19937_64 random(4);
  for (const std::int32_t group : {17, 24, 32, 48, 64}) {
    SCOPED_TRACE(::testing::Message() << "g " << group);
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 12, 200));
    const Batch batch = random_batch.view();
    const AttentionCase test(make_shape(1, group, 64, random_batch.options.page_size), batch);
    MachineProfile profile = generic_cpu_profile(2);
    profile.workers = 7;  // more than the requests, so that items are cut
    for (const Policy policy : all_policies()) {
      for (const KvSplit split : {KvSplit::kOwn, experimental::kSplitMean}) {
        SCOPED_TRACE(::testing::Message() << name_of(policy) << " " << name_of(split));
        PlanOptions options;
        options.policy = policy;
        options.split = split;
        const Plan plan = make_plan(test.forest(), test.shape(), profile, options);
        validate_plan(plan, test.forest());
        for (const MergeMode merge : {MergeMode::kFused, MergeMode::kSeparate}) {
          EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {.merge = merge}), kFloatTolerance));
        }
        EXPECT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << "reference";
      }
    }
  }
}

TEST(KernelGrid, PageSizesAndLayouts) {
  for (const std::int32_t page_size : {1, 3, 16, 24, 32, 64, 128}) {
    const RandomBatch random = grid_batch(3, page_size, 8);
    const Batch batch = random.view();
    for (const CacheLayout layout : {CacheLayout::kNhd, CacheLayout::kHnd}) {
      SCOPED_TRACE(::testing::Message() << "page " << page_size << " layout " << static_cast<int>(layout));
      SyntheticOptions options;
      options.layout = layout;
      const AttentionCase test(make_shape(2, 5, 64, page_size), batch, options);
      expect_all_isas_match(test, Policy::kProfit);
    }
  }
}

TEST(KernelGrid, SeveralQueryTokens) {
  for (const std::uint64_t seed : {4U, 5U, 6U}) {
    const RandomBatch random = grid_batch(seed, 16, 10, 5);
    const Batch batch = random.view();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const AttentionCase test(make_shape(2, 3, 64, 16), batch);
    for (const Policy policy : packing_policies()) {
      expect_all_isas_match(test, policy);
      PlanOptions options;
      options.policy = policy;
      const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), options);
      EXPECT_TRUE(test.matches(test.run_reference(plan), 1e-6));
    }
  }
}

// An engine that packs K and V of a token side by side, as some do: the strides say it all.
TEST(KernelGrid, PackedStrides) {
  const RandomBatch random = grid_batch(7, 16, 8);
  const Batch batch = random.view();
  const AttentionCase test(make_shape(2, 4, 64, 16), batch);
  const AttentionArgs& given = test.args();
  const std::size_t elements = static_cast<std::size_t>(batch.num_pages * given.k.page_stride);
  std::vector<std::uint16_t> packed(2 * elements);
  for (std::size_t row = 0; row < elements / 64; ++row) {  // rows of d elements, [page, place, head]
    const auto* k = static_cast<const std::uint16_t*>(given.k.data) + row * 64;
    const auto* v = static_cast<const std::uint16_t*>(given.v.data) + row * 64;
    std::copy(k, k + 64, packed.begin() + static_cast<std::ptrdiff_t>(row * 128));
    std::copy(v, v + 64, packed.begin() + static_cast<std::ptrdiff_t>(row * 128 + 64));
  }
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), {});
  const CpuExecutor executor(test_workers());
  AlignedWorkspace workspace(executor.workspace_bytes(plan, batch.rows()));
  executor.resolve(plan, batch, workspace.bytes());
  const AttentionOutput output = test.collect([&](const AttentionArgs& args) {
    AttentionArgs changed = args;
    changed.k = {packed.data(), 2 * args.k.page_stride, 2 * args.k.token_stride, 2 * args.k.head_stride};
    changed.v = {packed.data() + 64, 2 * args.v.page_stride, 2 * args.v.token_stride, 2 * args.v.head_stride};
    executor.run(changed, workspace.bytes());
  });
  EXPECT_TRUE(test.matches(output, kFloatTolerance));
}

TEST(KernelGrid, OutputTypesStridesAndLseForms) {
  const RandomBatch random = grid_batch(8, 16, 8);
  const Batch batch = random.view();
  const AttentionCase test(make_shape(2, 4, 64, 16), batch);
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), {});
  const auto queries = static_cast<std::size_t>(batch.total_queries());
  for (const CpuIsa isa : available_isas()) {
    const CpuExecutor executor(test_workers(), {MergeMode::kFused, isa});
    AlignedWorkspace workspace(executor.workspace_bytes(plan, batch.rows()));
    executor.resolve(plan, batch, workspace.bytes());
    for (const DType out_dtype : {DType::kF16, DType::kBF16}) {
      std::vector<std::uint16_t> out(queries * 8 * 80, 0x7E00);  // rows of 80 elements, [Hq, T] order, NaN between
      std::vector<float> lse(queries * 8);
      AttentionArgs args = test.args();
      args.out = out.data();
      args.out_dtype = out_dtype;
      args.out_token_stride = 80;
      args.out_head_stride = static_cast<std::int64_t>(80 * queries);
      args.lse = lse.data();
      args.lse_token_stride = 1;
      args.lse_head_stride = static_cast<std::int64_t>(queries);
      args.lse_base = LseBase::kTwo;
      executor.run(args, workspace.bytes());
      for (std::size_t query = 0; query < queries; ++query) {
        for (std::size_t head = 0; head < 8; ++head) {
          const float expected_lse = test.expected().lse[query * 8 + head];
          EXPECT_NEAR(lse[head * queries + query] * 0.69314718F, expected_lse, std::isinf(expected_lse) ? 0.0F : 2e-4F);
          for (std::size_t i = 0; i < 80; ++i) {
            const std::uint16_t bits = out[(head * queries + query) * 80 + i];
            if (i >= 64) {
              ASSERT_EQ(bits, 0x7E00) << "padding of a row was written";
              continue;
            }
            const float value = out_dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
            const float expected = test.expected().o[(query * 8 + head) * 64 + i];
            const float rounding = out_dtype == DType::kF16 ? 0x1p-11F : 0x1p-8F;
            ASSERT_NEAR(value, expected, rounding * std::max(1.0F, std::abs(expected)) + 5e-5F);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
