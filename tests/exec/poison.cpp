#include "exec/poison.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/float8.hpp"
#include "base/half.hpp"
#include "exec/executor_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"

namespace trunkline::testing {
namespace {

std::vector<std::int32_t> rows_with_tokens(const Batch& batch) {
  std::vector<std::int32_t> rows;
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    if (batch.kv_lens[static_cast<std::size_t>(row)] > 0) rows.push_back(row);
  }
  return rows;
}

/// Another output, with the oracle's in place of what is as far from finite as it.
void replace_non_finite(const std::vector<float>& expected, std::vector<float>& actual) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i]) && !std::isfinite(actual[i])) actual[i] = expected[i];
  }
}

}  // namespace

void poison(AttentionCase& test, const PoisonedElement& where) {
  const Batch& batch = test.batch();
  const CacheView& cache = where.in_keys ? test.args().k : test.args().v;
  const std::int32_t page_size = test.shape().page_size;
  const std::int64_t at = batch.pages.id(where.row, where.position / page_size) * cache.page_stride +
                          where.position % page_size * cache.token_stride + where.head * cache.head_stride +
                          where.element;
  void* data = const_cast<void*>(cache.data);  // the case owns the cache
  switch (test.shape().kv_dtype) {
    case DType::kF16: static_cast<std::uint16_t*>(data)[at] = f32_to_f16(where.value); break;
    case DType::kBF16: static_cast<std::uint16_t*>(data)[at] = f32_to_bf16(where.value); break;
    case DType::kF32: static_cast<float*>(data)[at] = where.value; break;
    case DType::kF8E4M3: static_cast<std::uint8_t*>(data)[at] = f32_to_f8(where.value, kE4M3); break;
    case DType::kF8E5M2: static_cast<std::uint8_t*>(data)[at] = f32_to_f8(where.value, kE5M2); break;
  }
}

bool poison_random_tokens(std::mt19937_64& random, AttentionCase& test) {
  const Batch& batch = test.batch();
  const std::vector<std::int32_t> rows = rows_with_tokens(batch);
  if (rows.empty()) return false;
  const float infinity = std::numeric_limits<float>::infinity();
  const float values[] = {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity};
  const std::int32_t tokens = uniform(random, 1, 3);
  for (std::int32_t i = 0; i < tokens; ++i) {
    PoisonedElement where;
    where.in_keys = uniform(random, 0, 7) == 0;
    where.row = rows[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(rows.size()) - 1))];
    const std::int32_t tokens_of_row = batch.kv_lens[static_cast<std::size_t>(where.row)];
    // Half of the time one of the last, which fewest others see.
    const std::int32_t first = uniform(random, 0, 1) == 0 ? 0 : std::max(0, tokens_of_row - 20);
    where.position = uniform(random, first, tokens_of_row - 1);
    where.head = uniform(random, 0, test.shape().kv_heads - 1);
    where.element = uniform(random, 0, test.shape().head_dim_qk - 1);
    // Logits of minus infinity alone are taken for no token at all: O is 0 where the oracle says NaN.
    where.value = where.in_keys ? values[0] : values[static_cast<std::size_t>(uniform(random, 0, 2))];
    poison(test, where);
  }
  test.recompute_expected();
  return true;
}

::testing::AssertionResult isolates(const AttentionCase& test, const AttentionOutput& output, double tolerance) {
  AttentionOutput comparable = output;
  replace_non_finite(test.expected().o, comparable.o);
  replace_non_finite(test.expected().lse, comparable.lse);
  return test.matches(comparable, tolerance);
}

void expect_isolation_on_cpu(const AttentionCase& test, KvSplit split) {
  for (const Policy policy : all_policies()) {
    const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(8), options_of(policy, split));
    for (const CpuIsa isa : available_isas()) {
      for (const MergeMode merge : {MergeMode::kFused, MergeMode::kSeparate}) {
        EXPECT_TRUE(isolates(test, test.run_cpu(plan, test_workers(), {merge, isa}), kFloatTolerance))
            << name_of(policy) << ", " << name_of(isa);
      }
    }
    EXPECT_TRUE(isolates(test, test.run_reference(plan), 1e-6)) << name_of(policy) << ", reference";
  }
}

int finite_percent(const AttentionCase& test) {
  std::size_t finite = 0;
  for (const float element : test.expected().o) {
    if (std::isfinite(element)) ++finite;
  }
  return static_cast<int>(100 * finite / std::max<std::size_t>(test.expected().o.size(), 1));
}

}  // namespace trunkline::testing
