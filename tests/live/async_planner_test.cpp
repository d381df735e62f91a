// Plans that are made by another thread, while events go on.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "live/event_player.hpp"
#include "support/expect_error.hpp"
#include "support/forked.hpp"
#include "support/test_scale.hpp"
#include "trunkline/live.hpp"

namespace trunkline::testing {
namespace {

AttentionShape shape_with(std::int32_t page_size) {
  return AttentionShape::uniform(8, 2, 64, page_size);
}

void wait_for(const AsyncPlanner& planner) {
  while (!planner.poll()) std::this_thread::yield();
}

/// Describes the first fault of a plan for the batch as it is; rows may have been reordered since it was made.
std::optional<std::string> fault_of(EventPlayer& player, const Plan& plan) {
  const RandomBatch batch = player.model();
  return find_plan_violation(plan, build_forest(batch.view()));
}

// Events, submits and takes in any order, as fast as they come.
TEST(AsyncPlanner, EveryPlanTakenIsValid) {
  PlanCounts counts;
  for (int round = 0; round < scaled(300); ++round) {
    const auto seed = static_cast<std::uint64_t>(round);
    EventOptions options;
    options.max_queries = round % 3 == 0 ? 4 : 1;
    options.trees = round % 6 == 0;
    EventPlayer player(seed, options);
    AsyncPlanner planner(generic_cpu_profile(4), shape_with(options.page_size));
    std::string story;
    for (int event = 0; event < 60; ++event) {
      story += player.play() + "\n";
      const std::int32_t dice = uniform(player.random(), 0, 9);
      if (dice < 6) planner.submit(player.live());
      if (dice == 0) wait_for(planner);
      if (dice < 2) story += player.play() + "\n";
      if (dice > 7) continue;
      const Plan& plan = planner.take(player.live());
      story += std::string("take: ") + name_of(planner.source()) + "\n";
      const auto fault = fault_of(player, plan);
      ASSERT_EQ(fault, std::nullopt) << "seed " << seed << ", events\n" << story;
    }
    counts.steps += planner.counts().steps;
    counts.reused += planner.counts().reused;
    counts.membership += planner.counts().membership;
    counts.edited += planner.counts().edited;
    counts.flat += planner.counts().flat;
  }
  EXPECT_GT(counts.reused, 0);
  EXPECT_GT(counts.membership, 0);
  EXPECT_GT(counts.edited, 0);
  EXPECT_GT(counts.flat, 0);
}

class AsyncPlannerTest : public ::testing::Test {
 protected:
  RequestId join(const std::vector<std::int32_t>& pages, std::int32_t kv_len) {
    NewRequest request;
    request.kv_len = kv_len;
    request.pages = std::span<const std::int32_t>(pages);
    return live_.join(request);
  }

  LiveBatch live_{{.page_size = 16, .num_pages = 1000}};
};

// A forked child has not got the thread: polling until it is done would never end.
TEST_F(AsyncPlannerTest, OfTheParentIsRefusedInAForkAndEndsInPeace) {
  std::optional<AsyncPlanner> planner(std::in_place, generic_cpu_profile(4), shape_with(16));
  join({1, 2}, 32);
  planner->submit(live_);
  EXPECT_TRUE(holds_in_a_fork([&] {
    const auto refused = [](auto&& use) {
      try {
        use();
      } catch (const Error& error) {
        return error.code() == ErrorCode::kUnsupported;
      }
      return false;
    };
    const bool all = refused([&] { planner->submit(live_); }) && refused([&] { planner->poll(); }) &&
                     refused([&] { planner->take(live_); });
    planner.reset();
    return all;
  }));
  wait_for(*planner);
}

TEST_F(AsyncPlannerTest, ThePlanOfTheNextStepIsReadyWhenItBegins) {
  AsyncPlanner planner(generic_cpu_profile(4), shape_with(16));
  join({1, 2}, 32);
  EXPECT_TRUE(planner.submit(live_));
  EXPECT_FALSE(planner.submit(live_));  // it is under way
  wait_for(planner);
  const Plan made = planner.take(live_);
  EXPECT_EQ(planner.source(), PlanSource::kMembership);
  EXPECT_FALSE(planner.submit(live_));  // it is good
  EXPECT_EQ(planner.take(live_).epoch, made.epoch);
  EXPECT_EQ(planner.source(), PlanSource::kReused);
}

TEST_F(AsyncPlannerTest, WithoutASubmitTheFirstPlanIsFlatAndTheNextEdited) {
  AsyncPlanner planner(generic_cpu_profile(4), shape_with(16));
  join({1, 2}, 32);
  EXPECT_EQ(planner.take(live_).policy, Policy::kFlat);
  EXPECT_EQ(planner.source(), PlanSource::kFlat);
  join({1, 3}, 32);
  validate_plan(planner.take(live_), live_.forest());
  EXPECT_EQ(planner.source(), PlanSource::kEdited);
  EXPECT_TRUE(planner.submit(live_));  // an edited plan is to be replaced, though it is valid
  wait_for(planner);
  planner.take(live_);
  EXPECT_EQ(planner.source(), PlanSource::kMembership);
}

// Where neither the plan just made nor the plan taken before is valid, the newer one is edited.
TEST_F(AsyncPlannerTest, ALatePlanIsEdited) {
  LivePlanOptions options;
  options.plan.policy = Policy::kNode;
  AsyncPlanner planner(generic_cpu_profile(4), shape_with(16), options);
  const RequestId first = join({1, 2}, 32);
  planner.take(live_);
  for (std::int32_t i = 0; i < 5; ++i) join({1, 3 + i}, 32);
  planner.submit(live_);
  wait_for(planner);
  live_.leave(first);
  const Plan& plan = planner.take(live_);
  EXPECT_EQ(planner.source(), PlanSource::kEdited);
  EXPECT_EQ(plan.policy, Policy::kNode);
  validate_plan(plan, live_.forest());
}

TEST_F(AsyncPlannerTest, AnErrorOfTheThreadComesOutOfTake) {
  LivePlanOptions options;
  options.plan.capacity.queries = 1;
  AsyncPlanner planner(generic_cpu_profile(4), shape_with(16), options);
  join({1}, 16);
  const RequestId second = join({2}, 16);
  planner.submit(live_);
  wait_for(planner);
  expect_error(ErrorCode::kWorkspace, "capacity.queries is 1", [&] { planner.take(live_); });
  live_.leave(second);
  EXPECT_EQ(planner.take(live_).queries.size(), 1U);
}

TEST_F(AsyncPlannerTest, EndsWhilePlansAreUnderWay) {
  for (std::int32_t i = 0; i < 200; ++i) join({1, 3 + i}, 32);
  for (int round = 0; round < scaled(200); ++round) {
    AsyncPlanner planner(generic_cpu_profile(4), shape_with(16));
    if (round % 4 > 0) planner.submit(live_);
    if (round % 4 > 1) planner.take(live_);
    if (round % 4 > 2) std::this_thread::sleep_for(std::chrono::microseconds(round));
  }
}

}  // namespace
}  // namespace trunkline::testing
