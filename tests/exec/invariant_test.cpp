// Policy `invariant`: a request's results are the same bits alone and in any batch.
#include <gtest/gtest.h>

#include <string>

#include "exec/company.hpp"
#include "exec/executor_cases.hpp"
#include "support/policies.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPageSizes[] = {1, 5, 16, 24, 32};
constexpr std::int32_t kChunks[] = {7, 16, 33, 64, 100, 256};
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

template <class T, std::size_t N>
T any_of(std::mt19937_64& random, const T (&choices)[N]) {
  return choices[uniform(random, 0, static_cast<std::int32_t>(N) - 1)];
}

MachineProfile random_profile(std::mt19937_64& random) {
  MachineProfile profile = generic_cpu_profile(uniform(random, 1, 64));
  profile.item_us = 0.001;
  profile.partial_us_per_kib = 0;
  profile.launch_us = 0;
  return profile;
}

/// Large logits, so that rows' maxima rise at other tokens than their neighbours'.
SyntheticOptions random_cache(std::mt19937_64& random) {
  SyntheticOptions options;
  options.seed = random();
  options.planted_keys = uniform(random, 0, 1) == 0;
  options.logit_scale = static_cast<float>(uniform(random, 1, 6));
  return options;
}

/// One random batch, and runs of some of its requests.
class InvariantCase {
 public:
  explicit InvariantCase(std::uint64_t seed)
      : random_(seed),
        all_(make_random_batch(random_, random_executor_options(random_, kPageSizes, 16, 600))),
        test_(make_shape(uniform(random_, 1, 2), uniform(random_, 1, 16), uniform(random_, 0, 3) == 0 ? 128 : 64,
                         all_.options.page_size, any_of(random_, kTypes)),
              all_.view(), random_cache(random_)),
        profile_(random_profile(random_)),
        isa_(available_isas()[static_cast<std::size_t>(
            uniform(random_, 0, static_cast<std::int32_t>(available_isas().size()) - 1))]),
        chunk_(any_of(random_, kChunks)) {}

  /// \return how a request's results differ between it alone and three batches; empty where they do not
  std::string difference_under(Policy policy) {
    const std::int32_t row = uniform(random_, 0, static_cast<std::int32_t>(all_.kv_lens.size()) - 1);
    const AttentionOutput expected = run(alone(all_, test_, row), policy);
    const AttentionOutput oracle = outputs_of(test_.expected(), queries_of(all_, row), test_.shape());
    EXPECT_LT(largest_error(expected, oracle), kFloatTolerance);
    for (int batch = 0; batch < 3; ++batch) {
      const AttentionOutput output = run(among_others(random_, all_, test_, row), policy);
      const std::string differs = difference(expected, output, test_.shape());
      if (!differs.empty()) {
        return "row " + std::to_string(row) + " of " + std::to_string(all_.kv_lens[static_cast<std::size_t>(row)]) +
               " tokens, chunks of " + std::to_string(chunk_) + ", " + name_of(isa_) + ", batch " +
               std::to_string(batch) + ": " + differs;
      }
    }
    return {};
  }

 private:
  AttentionOutput run(const Company& company, Policy policy) {
    const Batch batch = company.batch.view();
    const Forest forest = build_forest(batch);
    PlanOptions options = options_of(policy, uniform(random_, 0, 1) == 0 ? KvSplit::kOwn : experimental::kSplitMean);
    options.policies.invariant_chunk = chunk_;
    const Plan plan = make_plan(forest, test_.shape(), profile_, options);
    EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
    const CpuExecutor executor(test_workers(),
                               {uniform(random_, 0, 1) == 0 ? MergeMode::kFused : MergeMode::kSeparate, isa_});
    AlignedWorkspace workspace(executor.workspace_bytes(plan, batch.rows()));
    executor.resolve(plan, batch, workspace.bytes());
    AttentionOutput output{std::vector<float>(company.q.size() / size_of(test_.shape().q_dtype)), {}};
    output.lse.resize(output.o.size() / static_cast<std::size_t>(test_.shape().head_dim_qk));
    AttentionArgs args = test_.args();
    args.q = company.q.data();
    args.out = output.o.data();
    args.out_dtype = DType::kF32;
    args.lse = output.lse.data();
    executor.run(args, workspace.bytes());
    return outputs_of(output, company.queries, test_.shape());
  }

  std::mt19937_64 random_;
  RandomBatch all_;
  AttentionCase test_;
  MachineProfile profile_;
  CpuIsa isa_;
  std::int32_t chunk_;
};

TEST(Invariant, SameBitsAloneAndInAnyBatch) {
  for (int round = 0; round < scaled(600); ++round) {
    InvariantCase test(static_cast<std::uint64_t>(round) + 1);
    ASSERT_EQ(test.difference_under(Policy::kInvariant), "") << "seed " << round + 1;
  }
}

// If the comparison could not fail, nothing above would mean anything.
TEST(Invariant, OtherPoliciesGiveOtherBits) {
  for (const Policy policy : {Policy::kFlat, Policy::kTrunk, Policy::kNode}) {
    int differing = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      differing += InvariantCase(seed).difference_under(policy).empty() ? 0 : 1;
    }
    EXPECT_GT(differing, 5) << name_of(policy);
  }
}

}  // namespace
}  // namespace trunkline::testing
