// Thousands of random event sequences: after each event the forest is a fresh one, and the plan is valid.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "exec/attention_case.hpp"
#include "live/event_player.hpp"
#include "live/plan_editor.hpp"
#include "plan/plan_oracle.hpp"
#include "support/brute_forest.hpp"
#include "support/policies.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/live.hpp"

namespace trunkline::testing {
namespace {

constexpr std::int32_t kPageSizes[] = {1, 2, 5, 16, 24};
constexpr KvSplit kSplits[] = {KvSplit::kOwn, KvSplit::kBalance, experimental::kSplitMean, KvSplit::kNone};

EventOptions random_options(std::mt19937_64& random) {
  EventOptions options;
  options.max_rows = uniform(random, 2, 12);
  options.page_size = kPageSizes[uniform(random, 0, 4)];
  // Pages are few, so tokens are where pages are small.
  options.max_tokens = options.page_size == 1 ? 20 : options.page_size == 2 ? 40 : 90;
  options.max_queries = uniform(random, 0, 2) == 0 ? 6 : 1;
  options.trees = options.max_queries > 1 && uniform(random, 0, 1) == 0;
  options.null_pages = uniform(random, 0, 4) == 0;
  options.copy_on_write = !options.null_pages && uniform(random, 0, 1) == 0;
  return options;
}

/// Cuts pay at lengths that a test can afford, so plans have closed spans of tokens that may be truncated.
MachineProfile small_profile(std::mt19937_64& random) {
  MachineProfile profile = generic_cpu_profile(uniform(random, 1, 16));
  profile.item_us = 0.001;
  profile.partial_us_per_kib = 0;
  profile.launch_us = 0;
  return profile;
}

LivePlanOptions random_plan_options(std::mt19937_64& random) {
  LivePlanOptions options;
  const std::vector<Policy> policies = all_policies();
  options.plan.policy = policies[static_cast<std::size_t>(uniform(random, 0, static_cast<int>(policies.size()) - 1))];
  options.plan.split = kSplits[uniform(random, 0, 3)];
  return options;
}

/// Describes the first fault of a plan for the model's requests as they are. Rows may have been reordered since it was
/// made.
std::optional<std::string> plan_fault(EventPlayer& player, const Plan& plan) {
  const RandomBatch batch = player.model();
  const Forest forest = build_forest(batch.view());
  if (const auto violation = find_plan_violation(plan, forest)) return violation;
  std::vector<std::int32_t> growth;
  for (const ForestRequest& request : forest.requests) {
    const std::int32_t tokens = uniform(player.random(), 0, 20);
    growth.push_back(request.kv_len == 0 && tokens < request.queries ? 0 : tokens);
  }
  return play_plan(plan, forest, growth);
}

TEST(LiveProperty, ForestIsFreshAndPlanValidAfterEveryEvent) {
  PlanCounts counts;
  for (int round = 0; round < scaled(2500); ++round) {
    const auto seed = static_cast<std::uint64_t>(round);
    std::mt19937_64 random(seed);
    const EventOptions options = random_options(random);
    EventPlayer player(seed, options);
    LivePlanner planner(small_profile(random), make_shape(2, uniform(random, 1, 5), 64, options.page_size),
                        random_plan_options(random));
    std::string story;
    for (int event = 0; event < 40; ++event) {
      story += player.play() + "\n";
      const auto trace = [&] { return ::testing::Message() << "seed " << seed << ", events\n" << story; };
      ASSERT_EQ(story.find("NOT REFUSED"), std::string::npos) << trace();
      const auto difference = player.difference();
      ASSERT_EQ(difference, std::nullopt) << trace();
      // Several events may come before one plan.
      if (uniform(random, 0, 3) == 0) continue;
      const Plan& plan = planner.plan(player.live());
      story += std::string("plan: ") + name_of(planner.source()) + "\n";
      const auto fault = plan_fault(player, plan);
      ASSERT_EQ(fault, std::nullopt) << trace();
    }
    counts.reused += planner.counts().reused;
    counts.membership += planner.counts().membership;
    counts.truncated += planner.counts().truncated;
    counts.growth += planner.counts().growth;
  }
  EXPECT_GT(counts.reused, 0);
  EXPECT_GT(counts.membership, 0);
  EXPECT_GT(counts.truncated, 0);
  EXPECT_GT(counts.growth, 0);
}

// The fresh forest that the others are compared with is a radix tree as well.
TEST(LiveProperty, ForestFollowsItsDefinition) {
  for (int round = 0; round < scaled(150); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 100'000;
    std::mt19937_64 random(seed);
    EventPlayer player(seed, random_options(random));
    for (int event = 0; event < 30; ++event) {
      player.play();
      const RandomBatch model = player.model();
      ASSERT_EQ(to_text(player.live().forest()), to_text(brute_forest(model.view()))) << "seed " << seed;
    }
  }
}

// Edits pile up, as while new plans stay late.
TEST(LiveProperty, EditedPlansAreValid) {
  std::int64_t edited = 0;
  std::int64_t refused = 0;
  std::int64_t left_partials = 0;
  for (int round = 0; round < scaled(2500); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 300'000;
    std::mt19937_64 random(seed);
    const EventOptions options = random_options(random);
    EventPlayer player(seed, options);
    MachineProfile profile = small_profile(random);
    if (uniform(random, 0, 1) == 0) {
      profile.tiles = {{16, 16}, {32, 16}};
      profile.half_rows = 16;
    }
    const PlanOptions plan_options = random_plan_options(random).plan;
    const AttentionShape shape = make_shape(2, uniform(random, 1, 5), 64, options.page_size);
    PlanEditor editor(profile, plan_options);
    std::string story;
    for (int start = 0; start < 4; ++start) {
      for (int event = 0; event < 12; ++event) story += player.play() + "\n";
      const auto trace = [&] { return ::testing::Message() << "seed " << seed << ", events\n" << story; };
      Plan plan = make_plan(player.live().forest(), shape, profile, plan_options);
      PlanOrigin origin = origin_of(state_of(player.live()));
      story += std::string("new plan: ") + name_of(plan.policy) + "\n";
      for (int edits = 0; edits < 4; ++edits) {
        for (int event = uniform(random, 1, 4); event > 0; --event) story += player.play() + "\n";
        Plan result;
        if (!editor.edit(plan, origin, state_of(player.live()), result)) {
          ++refused;
          break;
        }
        story += "edited plan\n";
        const auto fault = plan_fault(player, result);
        ASSERT_EQ(fault, std::nullopt) << trace();
        // Rows that were reordered too: executors find them by slot.
        if (!options.null_pages && uniform(random, 0, 90) == 0 && player.live().rows() > 0) {
          const Batch batch = player.live().batch();
          const AttentionCase test(shape, batch);
          ASSERT_TRUE(test.matches(test.run_reference(result), 1e-6)) << trace();
          ASSERT_TRUE(test.matches(test.run_cpu(result, test_workers()), kFloatTolerance)) << trace();
        }
        ++edited;
        left_partials += result.partials;
        plan = std::move(result);
        origin = origin_of(state_of(player.live()));
      }
    }
  }
  EXPECT_GT(edited, refused);
  EXPECT_GT(left_partials, 0);
}

TEST(LiveProperty, OutputsMatchTheOracle) {
  for (int round = 0; round < scaled(120); ++round) {
    const auto seed = static_cast<std::uint64_t>(round) + 200'000;
    std::mt19937_64 random(seed);
    EventOptions options = random_options(random);
    options.null_pages = false;
    EventPlayer player(seed, options);
    const AttentionShape shape = make_shape(uniform(random, 1, 2), uniform(random, 1, 4), 64, options.page_size);
    LivePlanner planner(small_profile(random), shape, random_plan_options(random));
    std::string story;
    for (int event = 0; event < 40; ++event) {
      story += player.play() + "\n";
      if (player.live().rows() == 0) continue;
      const Plan& plan = planner.plan(player.live());
      if (uniform(random, 0, 5) != 0) continue;
      const Batch batch = player.live().batch();
      const AttentionCase test(shape, batch);
      ASSERT_TRUE(test.matches(test.run_reference(plan), 1e-6)) << "seed " << seed << "\n" << story;
      ASSERT_TRUE(test.matches(test.run_cpu(plan, test_workers()), kFloatTolerance)) << "seed " << seed << "\n"
                                                                                     << story;
    }
  }
}

}  // namespace
}  // namespace trunkline::testing
