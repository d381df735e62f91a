// Random forests x policies x cuts x executors against the oracle.
#include <gtest/gtest.h>

#include "exec/executor_cases.hpp"
#include "support/policies.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPageSizes[] = {1, 5, 16, 24, 32};

// A machine for which cutting pays at every length that a test can afford.
MachineProfile cutting_profile(std::mt19937_64& random) {
  MachineProfile profile = generic_cpu_profile(uniform(random, 1, 64));
  profile.item_us = 0.001;
  profile.partial_us_per_kib = 0;
  profile.launch_us = 0;
  return profile;
}

TEST(ExecutorProperty, EveryPolicyAndCutMatchesTheOracle) {
  const std::vector<CpuIsa> isas = available_isas();
  for (int round = 0; round < scaled(400); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 1000;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomBatch random_batch = make_random_batch(random, random_executor_options(random, kPageSizes, 16, 300));
    const Batch batch = random_batch.view();
    const AttentionShape shape =
        make_shape(uniform(random, 1, 2), uniform(random, 1, 8), 64, random_batch.options.page_size);
    const AttentionCase test(shape, batch);
    const MachineProfile profile = cutting_profile(random);
    for (const Policy policy : all_policies()) {
      for (const KvSplit split : {KvSplit::kOwn, KvSplit::kBalance, experimental::kSplitMean}) {
        SCOPED_TRACE(::testing::Message() << name_of(policy) << " " << name_of(split));
        PlanOptions options;
        options.policy = policy;
        options.split = split;
        const Plan plan = make_plan(test.forest(), shape, profile, options);
        validate_plan(plan, test.forest());
        const CpuOptions cpu{
            uniform(random, 0, 1) == 0 ? MergeMode::kFused : MergeMode::kSeparate,
            isas[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(isas.size()) - 1))]};
        ASSERT_TRUE(test.matches(test.run_cpu(plan, test_workers(), cpu), kFloatTolerance)) << name_of(cpu.isa);
        if (uniform(random, 0, 7) == 0) {
          ASSERT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << "reference";
        }
      }
    }
  }
}

Plan with_span_twice(const Plan& plan, std::size_t index) {
  Plan doubled = plan;
  const auto position = static_cast<std::int32_t>(index);
  doubled.spans.insert(doubled.spans.begin() + position, plan.spans[index]);
  for (WorkItem& item : doubled.items) {
    if (item.spans.begin > position) ++item.spans.begin;
    if (item.spans.end > position) ++item.spans.end;
  }
  return doubled;
}

// If the comparison could not fail, nothing above would mean anything.
TEST(ExecutorProperty, ADroppedOrDoubledNodeShows) {
  std::mt19937_64 random(77);
  RandomBatchOptions options;
  options.max_rows = 10;
  options.max_tokens = 600;
  const RandomBatch random_batch = make_random_batch(random, options);
  const Batch batch = random_batch.view();
  const AttentionCase test(make_shape(1, 4, 64, 16), batch);
  PlanOptions node;
  node.policy = Policy::kNode;
  const Plan plan = make_plan(test.forest(), test.shape(), generic_cpu_profile(2), node);
  int changed = 0;
  for (std::size_t i = 0; i < plan.spans.size(); ++i) {
    const KvSpan& span = plan.spans[i];
    if (span.open_ended() || span.end == span.begin) continue;
    Plan broken = plan;
    broken.spans[i].end = broken.spans[i].begin;
    EXPECT_FALSE(test.matches(test.run_cpu(broken, test_workers()), kFloatTolerance)) << "span " << i << " dropped";
    EXPECT_FALSE(test.matches(test.run_cpu(with_span_twice(plan, i), test_workers()), kFloatTolerance))
        << "span " << i << " doubled";
    ++changed;
  }
  EXPECT_GT(changed, 0);
}

}  // namespace
}  // namespace trunkline::testing
