// One forest on one machine: estimates of policies, `auto`'s choice among them, and the packs of the policy to plan by.
#pragma once

#include <cstdint>

#include "plan/cost_model.hpp"
#include "plan/estimates.hpp"
#include "plan/kv_splitter.hpp"
#include "plan/packs.hpp"
#include "plan/policies/policy_table.hpp"
#include "plan/query_order.hpp"
#include "plan/tiles.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// Packs, cut and costed, but not yet laid out.
struct Proposal {
  Packs packs;
  CostModel costs;  ///< that know how much of what the packs read is read again
  KvSplitter splitter;
};

/// Keeps its memory between forests.
class PolicySelector {
 public:
  /// \param forest, shape, profile, options outlive what is asked of the selector.
  /// \throws Error(kUnsupported) when a query's rows fit no tile of the profile.
  void reset(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
             const PlanOptions& options);

  /// \param policy of auto_candidates().
  Estimate estimate(Policy policy);
  /// A lower bound of that estimate's time, from counts alone. It takes a fraction of an estimate.
  Nanoseconds min_time(Policy policy);
  /// `auto`: the candidate with the least estimate; ties go to the earlier, so to `flat`, which also takes forests that
  /// share nothing, unless a policy with PolicyInfo::groups_unshared gains by it.
  /// \param longest list that a plan may have: candidates with longer ones are passed over, and `flat` is what is left.
  Policy choose(std::int64_t longest = kMaxListLength);
  /// Valid until the next call. \param policy other than kAuto.
  const Proposal& propose(Policy policy, KvSplit split);

  const TileTable& tiles() const { return tiles_; }

 private:
  PolicyInput input() {
    return {*forest_, *shape_, *profile_, order_, tiles_, costs_, options_->policies, policy_scratch_};
  }

  Policy choose_unshared(std::int64_t longest);

  const Forest* forest_ = nullptr;
  const AttentionShape* shape_ = nullptr;
  const MachineProfile* profile_ = nullptr;
  const PlanOptions* options_ = nullptr;
  QueryOrder order_;
  TileTable tiles_;
  CostModel costs_;
  PolicyScratch policy_scratch_;
  EstimateScratch estimate_scratch_;
  Proposal proposal_;
};

}  // namespace trunkline
