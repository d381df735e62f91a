// K and V of 8 bits on a GPU: every code, scales of heads, random forests, and isolation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/float8.hpp"
#include "cuda/device_case.hpp"
#include "exec/executor_cases.hpp"
#include "exec/poison.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr DType kTypes[] = {DType::kF8E4M3, DType::kF8E5M2};

class CudaFp8 : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped() && kernels_for(with_kv_dtype(make_shape(1, 1, 128, 16), kTypes[0])).empty()) {
      GTEST_SKIP() << "this GPU has no kernel for K and V of 8 bits";
    }
  }

  static void expect_tree_matches(const char* levels, std::int32_t group, std::int32_t page_size, std::int32_t head_dim,
                                  DType q_dtype, DType kv_dtype) {
    SCOPED_TRACE(::testing::Message() << levels << ", g " << group << ", pages of " << page_size << ", d " << head_dim
                                      << ", " << name_of(q_dtype) << ", " << name_of(kv_dtype));
    const PagedBatch paged = lay_out_pages(tree_from_levels(levels), page_size, 7);
    const AttentionCase test(with_kv_dtype(make_shape(2, group, head_dim, page_size, q_dtype), kv_dtype), paged.view());
    expect_all_policies_match(test, 96);
  }
};

TEST_F(CudaFp8, EveryHeadSizeAndType) {
  for (const std::int32_t head_dim : {64, 128, 256}) {
    for (const DType q_dtype : {DType::kF16, DType::kBF16}) {
      for (const DType kv_dtype : kTypes) expect_tree_matches("1,3,9/170,65,31", 4, 16, head_dim, q_dtype, kv_dtype);
    }
  }
}

TEST_F(CudaFp8, EveryPageSizeAndLargeGroups) {
  for (const std::int32_t page_size : {1, 3, 8, 16, 20, 24, 32, 64}) {
    for (const std::int32_t head_dim : {64, 128, 256}) {
      expect_tree_matches("1,3,9/170,65,31", 4, page_size, head_dim, DType::kF16, DType::kF8E4M3);
    }
  }
  for (const std::int32_t group : {1, 5, 16, 24, 64}) {
    expect_tree_matches("1,3,6/170,65,31", group, 16, 128, DType::kBF16, DType::kF8E4M3);
  }
}

// A single token has the weight 1, so its V comes out as it is: all 256 codes, subnormal ones and NaN too.
TEST_F(CudaFp8, EveryCodeIsExact) {
  const std::vector<std::int32_t> ids{0}, lens{1};
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 1, 1, 16);
  batch.kv_lens = lens;
  batch.num_pages = 1;
  for (const DType dtype : kTypes) {
    const Float8Format& format = dtype == DType::kF8E4M3 ? kE4M3 : kE5M2;
    for (const DType q_dtype : {DType::kF16, DType::kBF16}) {
      AttentionCase test(with_kv_dtype(make_shape(4, 4, 64, 16, q_dtype), dtype), batch);
      auto* values = static_cast<std::uint8_t*>(const_cast<void*>(test.args().v.data));  // the test owns the cache
      for (int code = 0; code < 256; ++code) values[code] = static_cast<std::uint8_t>(code);
      test.recompute_expected();
      const Plan plan =
          make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(2, CudaKernels::kHopper, 64), {});
      CudaExecutor& executor = executor_of(RunWay{}.with(CudaKernels::kHopper));
      const DeviceBatch on_device(batch);
      // In 16 bits, which hold each code: in fp32 the approximate 1 / sum may be an ulp off.
      DeviceTensors tensors(test, {.narrow = true});
      const AttentionOutput output = run_cuda(plan, batch, executor, on_device, tensors);
      for (std::size_t i = 0; i < output.o.size(); ++i) {
        const std::size_t code = i / 64 / 4 * 64 + i % 64;
        const float expected = f8_to_f32(static_cast<std::uint8_t>(code), format);
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(output.o[i])) << name_of(dtype) << " " << code;
        } else {
          EXPECT_EQ(output.o[i], expected) << name_of(dtype) << " " << code;
        }
      }
    }
  }
}

// Random forests with random scales, soft caps and sinks.
TEST_F(CudaFp8, RandomForestsMatchTheOracle) {
  constexpr std::int32_t kPageSizes[] = {1, 5, 8, 16, 24, 32};
  constexpr std::int32_t kHeadDims[] = {64, 128, 128, 256};
  for (int round = 0; round < scaled(300); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 9000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 24, 400));
    const Batch batch = random_batch.view();
    const DType q_dtype = uniform(random, 0, 1) == 0 ? DType::kF16 : DType::kBF16;
    AttentionShape shape = make_shape(uniform(random, 1, 3), uniform(random, 1, 16), kHeadDims[uniform(random, 0, 3)],
                                      random_batch.options.page_size, q_dtype);
    shape.kv_dtype = kTypes[uniform(random, 0, 1)];
    SyntheticOptions cache;
    cache.layout = uniform(random, 0, 1) == 0 ? CacheLayout::kNhd : CacheLayout::kHnd;
    AttentionCase test(shape, batch, cache);
    std::vector<float> sinks;
    std::vector<float> scales;
    for (std::int32_t head = 0; head < shape.q_heads; ++head) {
      sinks.push_back(static_cast<float>(uniform(random, -40, 40)) / 4);
      scales.push_back(static_cast<float>(uniform(random, 1, 16)) / 16);
    }
    const std::int32_t kind = uniform(random, 0, 15);
    const auto cap = static_cast<float>(uniform(random, 1, 60));
    test.vary([&](AttentionArgs& args) {
      if ((kind & 1) != 0) args.soft_cap = cap;
      if ((kind & 2) != 0) args.sinks = sinks.data();
      if ((kind & 4) != 0) args.k_scale.heads = args.v_scale.heads = scales.data();
      if ((kind & 8) != 0) args.q_scale.value = 0.5F;
    });
    const std::vector<CudaKernels> families = kernels_for(on_cuda(shape));
    const CudaKernels kernels = families[static_cast<std::size_t>(round) % families.size()];
    const MachineProfile profile = cutting_gpu_profile(uniform(random, 1, 64), kernels, shape.head_dim_qk);
    const OutputForm form{uniform(random, 0, 1) == 1, uniform(random, 0, 1) == 1, uniform(random, 0, 1) == 1};
    const DeviceBatch on_device(batch);
    DeviceTensors tensors(test, form);
    for (const Policy policy : all_policies()) {
      const RunWay way = kRunWays[uniform(random, 0, static_cast<std::int32_t>(std::size(kRunWays)) - 1)].with(kernels);
      SCOPED_TRACE(::testing::Message() << name_of(policy) << " " << text_of(way) << " kind " << kind);
      const Plan plan = make_plan(test.forest(), on_cuda(shape), profile, options_of(policy, experimental::kSplitMean));
      const AttentionOutput output = run_cuda(plan, batch, executor_of(way), on_device, tensors);
      ASSERT_TRUE(test.matches(output, tolerance_of(q_dtype, form.narrow)));
    }
  }
}

// A NaN of one request harms no other.
TEST_F(CudaFp8, NanIsIsolated) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr std::int32_t kPageSizes[] = {1, 5, 16, 24};
  for (int round = 0; round < scaled(60); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 11000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 16, 300));
    const Batch batch = random_batch.view();
    const std::int32_t head_dim = uniform(random, 0, 1) == 0 ? 64 : 256;
    AttentionCase test(
        with_kv_dtype(make_shape(2, uniform(random, 1, 8), head_dim, random_batch.options.page_size), kTypes[0]),
        batch);
    const auto longest = std::max_element(batch.kv_lens.begin(), batch.kv_lens.end());
    if (longest == batch.kv_lens.end() || *longest == 0) continue;
    poison(test, {.row = static_cast<std::int32_t>(longest - batch.kv_lens.begin()),
                  .position = uniform(random, 0, *longest - 1),
                  .element = head_dim - 1,
                  .value = nan});
    test.recompute_expected();
    const DeviceBatch on_device(batch);
    DeviceTensors tensors(test);
    for (const CudaKernels kernels : kernels_for(test.shape())) {
      for (const Policy policy : all_policies()) {
        const Plan plan = make_plan(test.forest(), on_cuda(test.shape()), cutting_gpu_profile(16, kernels, head_dim),
                                    options_of(policy, KvSplit::kOwn));
        const AttentionOutput output = run_cuda(plan, batch, executor_of(RunWay{}.with(kernels)), on_device, tensors);
        ASSERT_TRUE(isolates(test, output, tolerance_of(DType::kF16))) << name_of(policy);
      }
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
