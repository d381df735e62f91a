#include "plan/proposer.hpp"

#include <limits>
#include <span>

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
  std::int64_t hot_tokens = 0;
  for (const ForestNode& node : forest.nodes) hot_tokens += node.requests.size() > 1 ? node.tokens() : 0;
  costs_.reset(profile, shape, order_.size(), hot_tokens);
  policy_scratch_.trunk.chosen = false;
  policy_scratch_.has_profit_chains = false;
}

const Proposal& Proposer::propose(Policy policy, KvSplit split) {
  const PolicyRow& row = policy_row(policy);
  proposal_.packs.reset(order_, tiles_);
  row.function(input(), proposal_.packs);
  proposal_.costs = costs_;
  proposal_.costs.set_rereads(order_.needed_tokens(), proposal_.packs.total_tokens());
  proposal_.division.divide(proposal_.packs, proposal_.costs, split == KvSplit::kOwn ? row.split : split,
                            row.few_partials);
  return proposal_;
}

Policy Proposer::choose(std::int64_t longest) {
  // Where nothing is shared all policies group alike, and `flat` is the one that costs least to make.
  if (forest_->distinct_tokens == forest_->total_tokens) return Policy::kFlat;
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

Estimate Proposer::estimate(Policy policy) {
  return estimate_policy(policy, input(), estimate_scratch_);
}

}  // namespace trunkline
