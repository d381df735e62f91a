// That what a team plans is the host's plan, and batches for which sketches are made.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "plan/team_plan_case.hpp"
#include "plan/test_cases.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline::testing {

inline PlanOptions trunk_options(const PlanCapacity& capacity) {
  PlanOptions options;
  options.policy = Policy::kTrunk;
  options.capacity = capacity;
  return options;
}

/// What a plan needs, and a little more.
inline PlanCapacity room_for(const Plan& plan) {
  return {static_cast<std::int32_t>(plan.queries.size()) + 1, static_cast<std::int32_t>(plan.items.size()) + 1,
          static_cast<std::int32_t>(plan.spans.size()) + 1, plan.partials + 1};
}

/// \return status of the team's plan
inline TeamPlanStatus expect_same(const Forest& forest, const Plan& plan, const MachineProfile& profile,
                                  const PlanCapacity& capacity, const TeamOptions& team = {}) {
  TeamPlanStatus status{};
  const UploadedPlan actual = team_plan(forest, plan.shape, profile, capacity, team, &status);
  EXPECT_EQ(find_difference(uploaded(plan, forest), actual), std::nullopt);
  EXPECT_EQ(status.fallbacks, plan.statistics.fallbacks);
  EXPECT_EQ(status.unplanned, 0);
  EXPECT_EQ(status.read_tokens, plan.statistics.kv_tokens_read);
  EXPECT_EQ(status.total_tokens, plan.statistics.kv_tokens_total);
  return status;
}

inline TeamPlanStatus expect_same(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                                  const TeamOptions& team = {}) {
  const Plan plan = make_plan(forest, shape, profile, trunk_options({}));
  return expect_same(forest, plan, profile, room_for(plan), team);
}

inline MachineProfile h200_profile() {
  return load_profile(std::string(TRUNKLINE_DATA) + "/machines/h200-sxm.json");
}

/// A seed with which each of so many blocks has its requests near.
inline std::uint64_t near_seed(std::mt19937_64& random, std::int32_t blocks) {
  return random() / 2 * 2 + (blocks % 2 == 0 ? 1 : 0);
}

/// So many requests, neighbours of which share one of several prefixes.
inline Forest grouped_forest(std::int32_t requests, std::int32_t prefixes, std::int32_t shared, std::int32_t own) {
  std::vector<std::int32_t> parent(static_cast<std::size_t>(prefixes), -1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(prefixes), shared);
  std::vector<std::int32_t> end_node;
  for (std::int32_t i = 0; i < requests; ++i) {
    end_node.push_back(static_cast<std::int32_t>(parent.size()));
    parent.push_back(i * prefixes / requests);
    tokens.push_back(own);
  }
  return build_forest(ExplicitTree{parent, tokens, end_node});
}

}  // namespace trunkline::testing
