// K and V of 8 bits: every code, scales, and the error beside an oracle that reads the same cache.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "attention_case.hpp"
#include "base/float8.hpp"
#include "base/half.hpp"
#include "exec/executor_cases.hpp"
#include "exec/poison.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr DType kTypes[] = {DType::kF8E4M3, DType::kF8E5M2};
// Of outputs of f16 queries, which the project promises. fp32 accumulation stays within kFloatTolerance of values near
// 1; outputs here are as large as the scales of V, to which matches() relates errors.
constexpr double kPromisedTolerance = 4e-4;

/// A request of one token.
Batch one_token() {
  static const std::vector<std::int32_t> ids{0}, lens{1};
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 1, 1, 16);
  batch.kv_lens = lens;
  batch.num_pages = 1;
  return batch;
}

TEST(Float8, LandmarksOfTheFormats) {
  EXPECT_EQ(f8_to_f32(0x00, kE4M3), 0.0F);
  EXPECT_TRUE(std::signbit(f8_to_f32(0x80, kE4M3)));
  EXPECT_EQ(f8_to_f32(0x01, kE4M3), 0x1p-9F);
  EXPECT_EQ(f8_to_f32(0x07, kE4M3), 7 * 0x1p-9F);
  EXPECT_EQ(f8_to_f32(0x08, kE4M3), 0x1p-6F);
  EXPECT_EQ(f8_to_f32(0x38, kE4M3), 1.0F);
  EXPECT_EQ(f8_to_f32(0xFE, kE4M3), -448.0F);
  EXPECT_TRUE(std::isnan(f8_to_f32(0x7F, kE4M3)));
  EXPECT_TRUE(std::isnan(f8_to_f32(0xFF, kE4M3)));
  EXPECT_EQ(f8_to_f32(0x01, kE5M2), 0x1p-16F);
  EXPECT_EQ(f8_to_f32(0x3C, kE5M2), 1.0F);
  EXPECT_EQ(f8_to_f32(0x7B, kE5M2), 57344.0F);
  EXPECT_EQ(f8_to_f32(0xFC, kE5M2), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(f8_to_f32(0x7D, kE5M2)));
}

TEST(Float8, CodesComeBackAndHalvesGoToEven) {
  for (const Float8Format& format : {kE4M3, kE5M2}) {
    for (int code = 0; code < 256; ++code) {
      const float value = f8_to_f32(static_cast<std::uint8_t>(code), format);
      if (std::isnan(value)) continue;
      EXPECT_EQ(f32_to_f8(value, format), code);
      const float next = f8_to_f32(static_cast<std::uint8_t>(code + 1), format);
      if ((code & 0x7F) >= format.max_finite) continue;
      const int even = code + (code & 1);
      EXPECT_EQ(f32_to_f8(value + (next - value) / 2, format), even) << code;
    }
  }
  EXPECT_EQ(f32_to_f8(1e6F, kE4M3), 0x7F);
  EXPECT_EQ(f32_to_f8(-1e6F, kE5M2), 0xFC);
}

// A single token has the weight 1, so its V comes out as it is, exactly: all 256 codes, subnormal ones and NaN too. The
// same through the kernel of many rows, which converts ahead, and in the isolated path, where a code beside is NaN.
TEST(Fp8, EveryCodeIsExact) {
  const Batch batch = one_token();
  for (const DType dtype : kTypes) {
    const Float8Format& format = dtype == DType::kF8E4M3 ? kE4M3 : kE5M2;
    for (const std::int32_t group : {1, 4, 48}) {
      AttentionCase test(with_kv_dtype(make_shape(4, group, 64, 16), dtype), batch);
      auto* values = static_cast<std::uint8_t*>(const_cast<void*>(test.args().v.data));  // the test owns the cache
      for (int code = 0; code < 256; ++code) values[code] = static_cast<std::uint8_t>(code);
      test.recompute_expected();
      const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), {});
      for (const CpuIsa isa : available_isas()) {
        const AttentionOutput output = test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa});
        for (std::size_t i = 0; i < output.o.size(); ++i) {
          const std::size_t code = i / 64 / static_cast<std::size_t>(group) * 64 + i % 64;
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
}

// Each code as a key: with a query of ones, the LSE of one token is the sum of its elements.
TEST(Fp8, EveryCodeOfKeysIsExact) {
  const Batch batch = one_token();
  for (const DType dtype : kTypes) {
    const Float8Format& format = dtype == DType::kF8E4M3 ? kE4M3 : kE5M2;
    AttentionCase test(with_kv_dtype(make_shape(256, 1, 64, 16, DType::kF32), dtype), batch);
    auto* keys = static_cast<std::uint8_t*>(const_cast<void*>(test.args().k.data));  // the test owns the cache
    auto* queries = static_cast<float*>(const_cast<void*>(test.args().q));
    std::memset(keys, 0, 256 * 64);
    for (int code = 0; code < 256; ++code) keys[code * 64 + code % 64] = static_cast<std::uint8_t>(code);
    for (std::size_t i = 0; i < 256 * 64; ++i) queries[i] = 1;
    test.vary([](AttentionArgs& args) { args.scale = 1.0F; });
    const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), {});
    for (const CpuIsa isa : available_isas()) {
      const AttentionOutput output = test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa});
      for (std::size_t code = 0; code < 256; ++code) {
        const float expected = f8_to_f32(static_cast<std::uint8_t>(code), format);
        if (!std::isfinite(expected)) continue;  // minus infinity alone is taken for no token
        EXPECT_NEAR(output.lse[code], expected, std::abs(expected) * 3e-7F) << name_of(dtype) << " " << code;
      }
    }
  }
}

void expect_all_match(const AttentionCase& test, double tolerance) {
  for (const Policy policy : packing_policies()) {
    const Plan plan =
        make_plan(test.forest(), test.shape(), generic_cpu_profile(8), options_of(policy, experimental::kSplitMean));
    for (const CpuIsa isa : available_isas()) {
      EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa}), tolerance))
          << name_of(policy) << " " << name_of(isa);
    }
    EXPECT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << name_of(policy) << ", reference";
  }
}

TEST(Fp8, TypesAndHeadSizes) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,12/90,40,25"), 16, 3);
  const Batch batch = paged.view();
  for (const DType dtype : kTypes) {
    for (const DType q_dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
      for (const std::int32_t head_dim : {64, 128, 256}) {
        SCOPED_TRACE(::testing::Message() << name_of(q_dtype) << " " << name_of(dtype) << " d " << head_dim);
        expect_all_match(AttentionCase(with_kv_dtype(make_shape(1, 6, head_dim, 16, q_dtype), dtype), batch),
                         kFloatTolerance);
      }
    }
  }
}

// A number or one for each head; the logits' scale makes up for that of K, so that the softmax keeps its shape.
TEST(Fp8, Scales) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,3,12/90,40,25"), 16, 3);
  const Batch batch = paged.view();
  for (const DType dtype : kTypes) {
    AttentionCase test(with_kv_dtype(make_shape(3, 4, 64, 16), dtype), batch);
    for (const float scale : {1e-3F, 0.37F, 1.0F, 1e3F}) {
      SCOPED_TRACE(scale);
      test.vary([&](AttentionArgs& args) {
        args.k_scale.value = scale;
        args.v_scale.value = 1 / scale;
        args.q_scale.value = 2;
        args.scale = 0.0625F / scale;
      });
      expect_all_match(test, kPromisedTolerance);
    }
    const std::vector<float> k_scales{1.0F, 0, 1e-3F, 0, 4.0F}, v_scales{1e3F, 1e-3F, 1.0F};
    test.vary([&](AttentionArgs& args) {
      args.k_scale = {1, k_scales.data(), 2};
      args.v_scale = {1, v_scales.data(), 1};
      args.q_scale = {1, v_scales.data() + 2, 0};
    });
    expect_all_match(test, kPromisedTolerance);
  }
}

// The real values are the stored ones times the scale, so scales serve wider caches as well.
TEST(Fp8, ScalesOfWiderCaches) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,12/90,40"), 16, 3);
  const Batch batch = paged.view();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    AttentionCase test(make_shape(2, 4, 64, 16, dtype), batch);
    test.vary([](AttentionArgs& args) {
      args.k_scale.value = 0.5F;
      args.v_scale.value = 3;
    });
    expect_all_match(test, kPromisedTolerance);
  }
}

// Subnormal codes alone, in K and V.
TEST(Fp8, Subnormals) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,12/90,40"), 16, 3);
  const Batch batch = paged.view();
  for (const DType dtype : kTypes) {
    AttentionCase test(with_kv_dtype(make_shape(2, 4, 64, 16), dtype), batch);
    const auto bytes = static_cast<std::size_t>(batch.num_pages * test.args().k.page_stride);
    const int subnormals = dtype == DType::kF8E4M3 ? 8 : 4;
    for (const CacheView& cache : {test.args().k, test.args().v}) {
      auto* codes = static_cast<std::uint8_t*>(const_cast<void*>(cache.data));
      for (std::size_t i = 0; i < bytes; ++i) {
        codes[i] = static_cast<std::uint8_t>(codes[i] % subnormals | (codes[i] & 0x80));
      }
    }
    const float unit = dtype == DType::kF8E4M3 ? 0x1p9F : 0x1p16F;
    test.vary([&](AttentionArgs& args) { args.k_scale.value = args.v_scale.value = unit; });
    ASSERT_GT(std::abs(test.expected().o[0]), 1e-2F);
    expect_all_match(test, kPromisedTolerance);
  }
}

// A NaN code of one request's own tokens stays with it.
TEST(Fp8, Isolation) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,13/90,25"), 16, 3);
  const Batch batch = paged.view();
  for (const DType dtype : kTypes) {
    for (const bool in_keys : {false, true}) {
      AttentionCase test(with_kv_dtype(make_shape(2, 4, 64, 16), dtype), batch);
      poison(
          test,
          {.in_keys = in_keys, .row = 3, .position = 100, .head = 1, .value = std::numeric_limits<float>::quiet_NaN()});
      test.vary([](AttentionArgs& args) { args.v_scale.value = 5; });
      ASSERT_GT(finite_percent(test), 90);
      ASSERT_LT(finite_percent(test), 100);
      expect_isolation_on_cpu(test);
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
