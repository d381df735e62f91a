// The packs of one policy for one forest, before they are cut and laid out.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "plan/cost_model.hpp"
#include "plan/packs.hpp"
#include "plan/policies/policy_table.hpp"
#include "plan/query_order.hpp"
#include "plan/test_cases.hpp"
#include "plan/tiles.hpp"
#include "support/policies.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::testing {

/// Runs a policy and keeps everything that its packs refer to.
class PolicyPacks {
 public:
  PolicyPacks(Policy policy, Forest forest, const AttentionShape& shape, MachineProfile profile,
              const PolicyOptions& options = {})
      : forest_(std::move(forest)), profile_(std::move(profile)) {
    order_.reset(forest_);
    tiles_.reset(profile_, shape.group_size());
    costs_.reset(profile_, shape);
    packs_.reset(order_, tiles_);
    PolicyScratch scratch;
    policy_info(policy).pack({forest_, shape, profile_, order_, tiles_, costs_, options, scratch}, packs_);
  }
  PolicyPacks(const PolicyPacks&) = delete;
  PolicyPacks& operator=(const PolicyPacks&) = delete;

  const Forest& forest() const { return forest_; }
  const Packs& packs() const { return packs_; }
  /// Tokens that each pack reads first and last through its first segment; empty where it reads none.
  std::vector<Range> first_segments() const {
    std::vector<Range> result;
    for (const Pack& pack : packs_.packs()) {
      const PackSegment& segment = packs_.segments(pack).front();
      result.push_back({segment.begin, segment.end});
    }
    return result;
  }
  std::vector<std::int32_t> pack_queries() const { return of_packs(&Pack::queries); }
  std::vector<std::int32_t> tile_rows() const { return of_packs(&Pack::tile_rows); }
  std::vector<std::int32_t> parts() const { return of_packs(&Pack::parts); }

 private:
  std::vector<std::int32_t> of_packs(std::int32_t Pack::*member) const {
    std::vector<std::int32_t> result;
    for (const Pack& pack : packs_.packs()) result.push_back(pack.*member);
    return result;
  }

  Forest forest_;
  MachineProfile profile_;
  QueryOrder order_;
  TileTable tiles_;
  CostModel costs_;
  Packs packs_;
};

/// A valid plan by a policy's options, uncut unless asked otherwise.
inline Plan valid_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile, Policy policy,
                       const PolicyOptions& policies = {}, KvSplit split = KvSplit::kNone) {
  PlanOptions options = options_of(policy, split);
  options.policies = policies;
  Plan plan = make_plan(forest, shape, profile, options);
  EXPECT_EQ(find_plan_violation(plan, forest), std::nullopt);
  return plan;
}

}  // namespace trunkline::testing
