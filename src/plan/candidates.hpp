// The packs that policies propose for one forest, cut and costed, but not yet laid out.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/cost_model.hpp"
#include "plan/packs.hpp"
#include "plan/policies/policy_table.hpp"
#include "plan/query_order.hpp"
#include "plan/split.hpp"
#include "plan/tiles.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// One policy's proposal.
struct Candidate {
  Packs packs;
  CostModel costs;  ///< that know how much of what the packs read is read again
  Division division;
};

/// Keeps the proposal of each policy until the next reset, so that `auto` lays out the best without making it again.
class Candidates {
 public:
  /// \param forest outlives the candidates.
  /// \throws Error(kUnsupported) when a query's rows fit no tile of the profile.
  void reset(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
             const PlanOptions& options);

  /// \param policy other than kAuto.
  const Candidate& propose(Policy policy, KvSplit split);
  /// What propose() last answered for a policy.
  const Candidate& of(Policy policy) const { return candidates_[static_cast<std::size_t>(policy)]; }

  const Forest& forest() const { return *forest_; }
  const TileTable& tiles() const { return tiles_; }
  /// No plan that reads all tokens of all requests is predicted to take less.
  Nanoseconds least_flat_time() const;

 private:
  PolicyInput input() {
    return {*forest_, *shape_, *profile_, order_, tiles_, costs_, options_->policies, scratch_};
  }
  void find_hot_tokens();

  const Forest* forest_ = nullptr;
  const AttentionShape* shape_ = nullptr;
  const MachineProfile* profile_ = nullptr;
  const PlanOptions* options_ = nullptr;
  QueryOrder order_;
  TileTable tiles_;
  CostModel costs_;
  PolicyScratch scratch_;
  bool cached_rereads_ = false;  // all tokens that several requests share fit the last-level cache
  std::array<Candidate, static_cast<std::size_t>(Policy::kAuto)> candidates_;  // by policy; kAuto is the last
};

/// `auto`: the candidate with the least predicted time; ties go to the earlier row of the policy table, so to `flat`. A
/// candidate that cannot win is not proposed: any but `flat` where the forest shares nothing, `profit` where it packs
/// like `node`, `flat` where merely reading its tokens takes longer than another's plan.
/// \param longest list that a plan may have: candidates with longer ones are passed over, and `flat` is what is left.
Policy choose_policy(Candidates& candidates, KvSplit split, std::int64_t longest = kMaxListLength);

/// Predicted time of every candidate.
std::vector<PolicyEstimate> estimate_policies(Candidates& candidates, KvSplit split);

}  // namespace trunkline
