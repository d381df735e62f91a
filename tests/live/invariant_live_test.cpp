// Policy `invariant` across steps: whatever plan a step gets, every query reads what it would by a new one.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

#include "exec/attention_case.hpp"
#include "live/event_player.hpp"
#include "support/policies.hpp"
#include "support/test_scale.hpp"
#include "support/visible_runs.hpp"
#include "trunkline/live.hpp"

namespace trunkline::testing {
namespace {

EventOptions random_events(std::mt19937_64& random) {
  EventOptions options;
  options.max_queries = uniform(random, 0, 2) == 0 ? 6 : 1;
  options.trees = options.max_queries > 1 && uniform(random, 0, 1) == 0;
  return options;
}

LivePlanOptions random_plans(std::mt19937_64& random) {
  LivePlanOptions options;
  options.plan = options_of(Policy::kInvariant, KvSplit::kOwn);
  options.plan.policies.invariant_chunk = uniform(random, 5, 50);
  options.growth_limit = 1000;  // a plan is kept as long as its cuts hold
  options.edit_share = 1;       // no plan is edited, whatever may be
  return options;
}

::testing::AssertionResult reads_as_a_new_plan(const Plan& plan, LiveBatch& batch, const PlanOptions& options) {
  const Forest& forest = batch.forest();
  std::map<std::int32_t, std::int32_t> lengths;
  for (const ForestRequest& request : forest.requests) lengths[request.slot] = request.kv_len;
  const Plan fresh = make_plan(forest, plan.shape, generic_cpu_profile(4), options);
  const VisibleRuns expected = visible_runs(fresh, lengths);
  const VisibleRuns actual = visible_runs(plan, lengths);
  if (plan.policy != Policy::kInvariant) return ::testing::AssertionFailure() << "policy " << name_of(plan.policy);
  for (const auto& [query, items] : expected) {
    const auto found = actual.find(query);
    if (found == actual.end() || found->second != items) {
      return ::testing::AssertionFailure()
             << "slot " << query.first << " of " << lengths[query.first] << " tokens, query " << query.second
             << ", chunks of " << options.policies.invariant_chunk;
    }
  }
  return ::testing::AssertionSuccess();
}

TEST(InvariantLive, KeptPlansCutAsNewOnes) {
  PlanCounts counts;
  for (int round = 0; round < scaled(600); ++round) {
    std::mt19937_64 random(static_cast<std::uint64_t>(round));
    EventPlayer player(random(), random_events(random));
    const LivePlanOptions options = random_plans(random);
    LivePlanner planner(generic_cpu_profile(4), make_shape(2, 2, 64, 16), options);
    std::string story;
    for (int event = 0; event < 40; ++event) {
      story += player.play() + "\n";
      if (uniform(random, 0, 3) == 0) continue;
      const Plan& plan = planner.plan(player.live());
      story += std::string("plan: ") + name_of(planner.source()) + "\n";
      ASSERT_TRUE(reads_as_a_new_plan(plan, player.live(), options.plan)) << "round " << round << "\n" << story;
    }
    counts.reused += planner.counts().reused;
    counts.growth += planner.counts().growth;
    counts.edited += planner.counts().edited;
  }
  EXPECT_GT(counts.reused, 0);
  EXPECT_GT(counts.growth, 0);
  EXPECT_EQ(counts.edited, 0);
}

TEST(InvariantLive, LatePlansCutAsNewOnes) {
  PlanCounts counts;
  for (int round = 0; round < scaled(200); ++round) {
    std::mt19937_64 random(static_cast<std::uint64_t>(round) + 10'000);
    EventPlayer player(random(), random_events(random));
    const LivePlanOptions options = random_plans(random);
    AsyncPlanner planner(generic_cpu_profile(4), make_shape(2, 2, 64, 16), options);
    std::string story;
    for (int event = 0; event < 40; ++event) {
      story += player.play() + "\n";
      const std::int32_t dice = uniform(random, 0, 9);
      if (dice < 6) planner.submit(player.live());
      while (dice < 4 && !planner.poll()) std::this_thread::yield();
      if (dice == 5) story += player.play() + "\n";
      if (dice > 7) continue;
      const Plan& plan = planner.take(player.live());
      story += std::string("take: ") + name_of(planner.source()) + "\n";
      ASSERT_TRUE(reads_as_a_new_plan(plan, player.live(), options.plan)) << "round " << round << "\n" << story;
    }
    counts.reused += planner.counts().reused;
    counts.membership += planner.counts().membership;
    counts.flat += planner.counts().flat;
    counts.edited += planner.counts().edited;
  }
  EXPECT_GT(counts.reused, 0);
  EXPECT_GT(counts.membership, 0);
  EXPECT_EQ(counts.flat + counts.edited, 0);
}

}  // namespace
}  // namespace trunkline::testing
