// Random forests x policies x cuts with random scales, windows, soft caps and sinks, all together, against the oracle.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "exec/executor_cases.hpp"
#include "support/policies.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPageSizes[] = {1, 5, 16, 24, 32};
constexpr DType kTypes[] = {DType::kF16, DType::kBF16, DType::kF32};
constexpr DType kCacheTypes[] = {DType::kF8E4M3, DType::kF8E5M2};
constexpr std::int32_t kLongestChain = 24;  // of random draft trees

// At random one of the values.
template <class T, std::size_t n>
T one_of(std::mt19937_64& random, const T (&values)[n]) {
  return values[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(n) - 1))];
}

TEST(VariantProperty, EverythingTogetherMatchesTheOracle) {
  const std::vector<CpuIsa> isas = available_isas();
  for (int round = 0; round < scaled(200); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 5000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 16, 300));
    const Batch batch = random_batch.view();
    AttentionShape shape = make_shape(uniform(random, 1, 2), uniform(random, 1, 8), 64, random_batch.options.page_size,
                                      one_of(random, kTypes));
    if (uniform(random, 0, 1) == 0) shape.kv_dtype = one_of(random, kCacheTypes);
    AttentionCase test(shape, batch);

    std::vector<float> sinks;
    std::vector<float> scales;
    for (std::int32_t head = 0; head < shape.q_heads; ++head) {
      sinks.push_back(static_cast<float>(uniform(random, -40, 40)) / 4);
      scales.push_back(static_cast<float>(uniform(random, 1, 40)) / 16);
    }
    sinks[0] = uniform(random, 0, 1) == 0 ? -std::numeric_limits<float>::infinity() : 1e4F;
    const std::int32_t kind = uniform(random, 0, 15);
    const std::int32_t window = uniform(random, 0, random_batch.options.trees ? 200 : 100);
    const auto cap = static_cast<float>(uniform(random, 1, 60));
    test.vary([&](AttentionArgs& args) {
      if ((kind & 1) != 0) args.window_left = window + (random_batch.options.trees ? kLongestChain : 0);
      if ((kind & 2) != 0) args.soft_cap = cap;
      if ((kind & 4) != 0) args.sinks = sinks.data();
      if ((kind & 8) != 0) args.k_scale.heads = args.v_scale.heads = scales.data();
    });
    for (const Policy policy : all_policies()) {
      const KvSplit split = uniform(random, 0, 1) == 0 ? KvSplit::kOwn : experimental::kSplitMean;
      const Plan plan =
          make_plan(test.forest(), shape, generic_cpu_profile(uniform(random, 1, 64)), options_of(policy, split));
      const CpuOptions cpu{
          uniform(random, 0, 1) == 0 ? MergeMode::kFused : MergeMode::kSeparate,
          isas[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(isas.size()) - 1))]};
      ASSERT_TRUE(test.matches(test.run_cpu(plan, test_workers(), cpu), 1e-4))
          << name_of(policy) << " " << name_of(cpu.isa) << " kind " << kind;
      if (uniform(random, 0, 7) == 0) {
        ASSERT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << "reference";
      }
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
