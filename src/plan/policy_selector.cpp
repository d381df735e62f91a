#include "plan/policy_selector.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "base/check.hpp"
#include "plan/cut_choice.hpp"

namespace trunkline {

void PolicySelector::reset(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
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

const Proposal& PolicySelector::propose(Policy policy, KvSplit split) {
  const PolicyInfo& info = policy_info(policy);
  proposal_.packs.reset(order_, tiles_);
  info.pack(input(), proposal_.packs);
  proposal_.costs = costs_;
  proposal_.costs.set_rereads(order_.needed_tokens(), proposal_.packs.total_tokens());
  proposal_.splitter.divide(proposal_.packs, proposal_.costs,
                            split == KvSplit::kOwn || info.batch_invariant ? info.split : split, info.few_partials);
  return proposal_;
}

Policy PolicySelector::choose(std::int64_t longest) {
  if (forest_->distinct_tokens == forest_->total_tokens) return choose_unshared(longest);
  Policy best = Policy::kFlat;
  constexpr Nanoseconds kNone = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds best_time = kNone;
  // From the last candidate on, as it is most often the best where it is one: counts then rule out most others.
  const std::span<const Policy> candidates = auto_candidates(profile_->device);
  for (auto policy = candidates.rbegin(); policy != candidates.rend(); ++policy) {
    const PolicyInfo& info = policy_info(*policy);
    if (info.is_redundant != nullptr && info.is_redundant(input())) continue;
    if (best_time < kNone && min_time(*policy) > best_time) continue;
    const Estimate estimate = this->estimate(*policy);
    if (estimate.time > best_time || estimate.entries > longest) continue;
    best_time = estimate.time;
    best = *policy;
  }
  return best;
}

Nanoseconds PolicySelector::min_time(Policy policy) {
  const PolicyInfo& info = policy_info(policy);
  return info.min_time == nullptr ? costs_.launch() : info.min_time(input());
}

// Where nothing is shared, all policies group requests in the same way, except for those that put several requests into
// one pack: one item then streams what would be an item for each request. `flat` costs least to make, so it is taken
// where the grouping hardly matters.
Policy PolicySelector::choose_unshared(std::int64_t longest) {
  const std::span<const Policy> candidates = auto_candidates(profile_->device);
  const auto groups_unshared = [](Policy policy) { return policy_info(policy).groups_unshared; };
  if (std::none_of(candidates.begin(), candidates.end(), groups_unshared)) return Policy::kFlat;
  const auto worthwhile = [](Nanoseconds time) { return time - time / CutChoice::kWorthwhileShare; };
  const Estimate flat = estimate(Policy::kFlat);
  CostModel costs = costs_;
  costs.set_rereads(forest_->distinct_tokens, forest_->total_tokens);
  Nanoseconds time_to_beat = worthwhile(flat.time);
  if (time_to_beat <= costs.launch() + costs.tasks().memory_time) return Policy::kFlat;
  Policy best = Policy::kFlat;
  for (const Policy policy : candidates) {
    if (!groups_unshared(policy)) continue;
    const Estimate grouped = estimate(policy);
    if (grouped.time >= time_to_beat || grouped.entries > longest) continue;
    time_to_beat = grouped.time;
    best = policy;
  }
  return best;
}

Estimate PolicySelector::estimate(Policy policy) {
  const PolicyInfo& info = policy_info(policy);
  if (info.estimate == nullptr) fail(ErrorCode::kInternal, "policy ", info.name, " has no estimate");
  return info.estimate(input(), estimate_scratch_);
}

}  // namespace trunkline
