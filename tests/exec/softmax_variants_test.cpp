// Attention sinks and soft caps: by hand on one request, and against the oracle where outputs are merged from partials.
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

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every policy, with cuts and without, in both ways to merge.
void expect_all_match(const AttentionCase& test, double tolerance) {
  for (const Policy policy : all_policies()) {
    for (const KvSplit split : {KvSplit::kNone, experimental::kSplitMean}) {
      const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(8), options_of(policy, split));
      for (const CpuIsa isa : available_isas()) {
        for (const MergeMode merge : {MergeMode::kFused, MergeMode::kSeparate}) {
          EXPECT_TRUE(test.matches(test.run_cpu(plan, test_workers(), {merge, isa}), tolerance))
              << name_of(policy) << " " << name_of(isa);
        }
      }
      EXPECT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << name_of(policy) << ", reference";
    }
  }
}

class SoftmaxVariants : public ::testing::Test {
 protected:
  // 13 requests on a trunk: rows for both kernels, some of which end in the trunk; one is empty.
  SoftmaxVariants()
      : paged_(
            lay_out_pages({"trunk", {-1, 0, 0, 1}, {150, 40, 9, 30}, {1, 2, 3, 0, 1, 2, 3, 3, 3, 2, 1, -1, 3}}, 16, 3)),
        test_(make_shape(2, 4, 64, 16), paged_.view()) {}

  PagedBatch paged_;
  AttentionCase test_;
};

// A sink takes its share of the softmax; nothing else changes.
TEST_F(SoftmaxVariants, OracleOfSinks) {
  const AttentionOutput without = test_.expected();
  const std::vector<float> sinks{-kInfinity, 0, 1, 2, 5, -3, 1e4F, 12};
  test_.vary([&](AttentionArgs& args) { args.sinks = sinks.data(); });
  for (std::size_t row = 0; row < without.lse.size(); ++row) {
    const auto sink = static_cast<double>(sinks[row % 8]);
    const auto lse = static_cast<double>(without.lse[row]);
    const double with = std::isinf(lse) ? sink : std::max(lse, sink) + std::log1p(std::exp(-std::abs(lse - sink)));
    if (std::isinf(with)) {
      EXPECT_EQ(test_.expected().lse[row], -kInfinity) << row;
    } else {
      EXPECT_NEAR(test_.expected().lse[row], with, 1e-5 * std::max(1.0, std::abs(with))) << row;
    }
    const double share = std::isinf(lse) ? 0 : std::exp(lse - with);
    for (std::size_t i = row * 64; i < (row + 1) * 64; ++i) {
      ASSERT_NEAR(test_.expected().o[i], static_cast<double>(without.o[i]) * share, 1e-6) << i;
    }
  }
}

TEST_F(SoftmaxVariants, Sinks) {
  for (const std::vector<float>& sinks : {std::vector<float>{-kInfinity, 0, 1, 2, 5, -3, 1e4F, 12},
                                          std::vector<float>(8, -kInfinity), std::vector<float>(8, -1e4F)}) {
    test_.vary([&](AttentionArgs& args) { args.sinks = sinks.data(); });
    expect_all_match(test_, kFloatTolerance);
  }
}

// A sink of minus infinity changes no bit.
TEST_F(SoftmaxVariants, SinksWithoutWeight) {
  const Plan plan = make_plan(test_.forest(), test_.shape(), generic_cpu_profile(2), {});
  const AttentionOutput without = test_.run_cpu(plan, test_workers());
  const std::vector<float> sinks(8, -kInfinity);
  test_.vary([&](AttentionArgs& args) { args.sinks = sinks.data(); });
  const AttentionOutput with = test_.run_cpu(plan, test_workers());
  EXPECT_EQ(with.o, without.o);
}

// Merging a query from more partials must not count its sink more often.
TEST_F(SoftmaxVariants, ASinkCountsOnceForAnyNumberOfPartials) {
  const std::vector<float> sinks(8, 6.0F);
  test_.vary([&](AttentionArgs& args) { args.sinks = sinks.data(); });
  for (const std::int32_t chunk : {1, 16, 64, 1024}) {
    PlanOptions options = options_of(Policy::kInvariant, KvSplit::kOwn);
    options.policies.invariant_chunk = chunk;
    const Plan plan = make_plan(test_.forest(), test_.shape(), generic_cpu_profile(2), options);
    EXPECT_TRUE(test_.matches(test_.run_cpu(plan, test_workers()), kFloatTolerance)) << chunk;
  }
}

TEST_F(SoftmaxVariants, SoftCaps) {
  for (const float cap : {0.05F, 1.0F, 30.0F, 50.0F, 1e4F, 1e6F}) {
    SCOPED_TRACE(cap);
    test_.vary([&](AttentionArgs& args) { args.soft_cap = cap; });
    expect_all_match(test_, kFloatTolerance);
  }
}

// Logits of many times the cap, where tanh is 1, and next to 0.6, where its computation changes.
TEST_F(SoftmaxVariants, SoftCapsOfLargeLogits) {
  for (const float scale : {0.0F, 1e-6F, 0.6F, 10.0F, 1e4F}) {
    SCOPED_TRACE(scale);
    test_.vary([&](AttentionArgs& args) {
      args.scale = scale;
      args.soft_cap = 8;
    });
    expect_all_match(test_, kFloatTolerance);
  }
}

TEST_F(SoftmaxVariants, ASoftCapAndSinks) {
  const std::vector<float> sinks{-kInfinity, 0, 1, 2, 5, -3, 1e4F, 12};
  test_.vary([&](AttentionArgs& args) {
    args.soft_cap = 5;
    args.sinks = sinks.data();
  });
  expect_all_match(test_, kFloatTolerance);
}

// A masked score is -inf, which a cap would make finite: masks must come after it.
TEST_F(SoftmaxVariants, ASoftCapShowsNoMaskedToken) {
  test_.vary([](AttentionArgs& args) {
    args.scale = 0.0F;
    args.soft_cap = 1;
  });
  for (std::int32_t row = 0; row < paged_.view().rows(); ++row) {
    const std::int32_t tokens = paged_.view().kv_lens[static_cast<std::size_t>(row)];
    const auto at = static_cast<std::size_t>(row) * 8;
    if (tokens == 0) continue;
    ASSERT_NEAR(test_.expected().lse[at], std::log(tokens), 1e-5) << row;
  }
  expect_all_match(test_, kFloatTolerance);
}

}  // namespace
}  // namespace trunkline::testing
