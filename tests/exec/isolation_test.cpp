// A request whose KV cache holds NaN or infinity harms no other: where the oracle's output is finite, so is ours, and
// equal. Tiles give tokens that a row does not see a weight of zero, and zero times NaN is NaN.
#include <gtest/gtest.h>

#include <limits>

#include "exec/executor_cases.hpp"
#include "exec/poison.hpp"
#include "support/policies.hpp"
#include "support/test_scale.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Isolation, TwoRequestsThatShareNothing) {
  const std::vector<std::int32_t> ids{0, 1}, lens{5, 5};
  Batch batch;
  batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 2, 1, 16);
  batch.kv_lens = lens;
  batch.num_pages = 2;
  for (const float value : {kNan, kInfinity}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      AttentionCase test(make_shape(2, 4, 64, 16, dtype), batch);
      poison(test, {.row = 0, .position = 0, .value = value});
      test.recompute_expected();
      expect_isolation_on_cpu(test);
    }
  }
}

// Enough rows for the kernel of many rows, with some left over for that of few.
TEST(Isolation, PrivateTokensOverATrunk) {
  const PagedBatch paged = lay_out_pages(tree_from_levels("1,13/90,25"), 16, 3);
  const Batch batch = paged.view();
  for (const float value : {kNan, -kInfinity}) {
    AttentionCase test(make_shape(2, 3, 128, 16), batch);
    poison(test, {.row = 3, .position = 100, .head = 1, .element = 77, .value = value});
    test.recompute_expected();
    EXPECT_GT(finite_percent(test), 90);
    for (const KvSplit split : {KvSplit::kNone, KvSplit::kBalance, experimental::kSplitMean})
      expect_isolation_on_cpu(test, split);
  }
}

// Query tokens of one request: a token is hidden from those before it, and from other branches of a draft tree.
TEST(Isolation, LaterTokensOfAChunkAndOtherBranchesOfATree) {
  for (const bool tree : {false, true}) {
    std::vector<std::int32_t> ids{2, 0, 1}, lens{40}, starts{0, 4}, parents{-1, 0, 0, 1};
    Batch batch;
    batch.pages = PageTable::dense(std::span<const std::int32_t>(ids), 1, 3, 16);
    batch.kv_lens = lens;
    batch.num_pages = 3;
    batch.query_start = starts;
    if (tree) batch.query_parents = parents;
    for (const std::int32_t position : {37, 38, 39}) {
      AttentionCase test(make_shape(2, 4, 64, 16), batch);
      poison(test, {.row = 0, .position = position, .value = kNan});
      test.recompute_expected();
      EXPECT_GT(finite_percent(test), 60);
      expect_isolation_on_cpu(test);
    }
  }
}

TEST(Isolation, RandomForests) {
  constexpr std::int32_t kPageSizes[] = {1, 5, 16, 24};
  const std::vector<CpuIsa> isas = available_isas();
  for (int round = 0; round < scaled(300); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 7000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 16, 200));
    const Batch batch = random_batch.view();
    AttentionCase test(make_shape(uniform(random, 1, 2), uniform(random, 1, 8), 64, random_batch.options.page_size),
                       batch);
    if (!poison_random_tokens(random, test)) continue;
    const Policy policy = all_policies()[static_cast<std::size_t>(
        uniform(random, 0, static_cast<std::int32_t>(all_policies().size()) - 1))];
    const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(uniform(random, 1, 32)),
                                options_of(policy, experimental::kSplitMean));
    for (const CpuIsa isa : isas) {
      ASSERT_TRUE(isolates(test, test.run_cpu(plan, test_workers(), {MergeMode::kFused, isa}), kFloatTolerance))
          << name_of(policy) << ", " << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
