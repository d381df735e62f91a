#include "plan/proposer.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "plan/cut_choice.hpp"
#include "plan/policies/chain_packs.hpp"

namespace trunkline {

void Proposer::reset(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                     const PlanOptions& options) {
  forest_ = &forest;
  shape_ = &shape;
  profile_ = &profile;
  options_ = &options;
  order_.reset(forest);
  tiles_.reset(profile, shape.group_size(), options.tile);
  std::int64_t shared_tokens = 0;
  for (const ForestNode& node : forest.nodes) shared_tokens += node.requests.size() > 1 ? node.tokens() : 0;
  costs_.reset(profile, shape, order_.size(), shared_tokens);
  policy_scratch_.trunk.chosen = false;
  policy_scratch_.has_profit_chains = false;
}

const Proposal& Proposer::propose(Policy policy, KvSplit split) {
  const PolicyRow& row = policy_row(policy);
  proposal_.packs.reset(order_, tiles_);
  row.function(input(), proposal_.packs);
  proposal_.costs = costs_;
  proposal_.costs.set_rereads(order_.needed_tokens(), proposal_.packs.total_tokens());
  proposal_.division.divide(proposal_.packs, proposal_.costs,
                            split == KvSplit::kOwn || row.own_cuts_only ? row.split : split, row.few_partials);
  return proposal_;
}

Policy Proposer::choose(std::int64_t longest) {
  if (forest_->distinct_tokens == forest_->total_tokens) return choose_unshared(longest);
  Policy best = Policy::kFlat;
  constexpr Nanoseconds kNone = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds least = kNone;
  // From the last candidate on, as it is most often the best where it is one: counts then rule out most others.
  const std::span<const Policy> candidates = auto_candidates(profile_->device);
  for (auto policy = candidates.rbegin(); policy != candidates.rend(); ++policy) {
    if (*policy == Policy::kProfit && profit_is_node(input())) continue;
    if (least < kNone && least_estimate(*policy) > least) continue;
    const Estimate estimate = this->estimate(*policy);
    if (estimate.time > least || estimate.entries > longest) continue;
    least = estimate.time;
    best = *policy;
  }
  return best;
}

Nanoseconds Proposer::least_estimate(Policy policy) {
  return least_time_of(policy, input());
}

// Where nothing is shared all policies group alike but `trunk`, whose tiles hold several requests: one item streams
// what would be an item for each. `flat` costs least to make, and is taken where that hardly matters.
Policy Proposer::choose_unshared(std::int64_t longest) {
  const std::span<const Policy> candidates = auto_candidates(profile_->device);
  if (std::find(candidates.begin(), candidates.end(), Policy::kTrunk) == candidates.end()) return Policy::kFlat;
  const auto worthwhile = [](Nanoseconds time) { return time - time / CutChoice::kWorthwhileShare; };
  const Estimate flat = estimate(Policy::kFlat);
  CostModel costs = costs_;
  costs.set_rereads(forest_->distinct_tokens, forest_->total_tokens);
  if (worthwhile(flat.time) <= costs.launch() + costs.tasks().memory_time) return Policy::kFlat;
  const Estimate trunk = estimate(Policy::kTrunk);
  return trunk.time < worthwhile(flat.time) && trunk.entries <= longest ? Policy::kTrunk : Policy::kFlat;
}

Estimate Proposer::estimate(Policy policy) {
  return estimate_policy(policy, input(), estimate_scratch_);
}

}  // namespace trunkline
