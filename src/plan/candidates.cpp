#include "plan/candidates.hpp"

#include <array>
#include <limits>

namespace trunkline {
namespace {

constexpr std::array kShared = {Policy::kNode, Policy::kProfit};
constexpr std::array kAll = {Policy::kFlat, Policy::kNode, Policy::kProfit};

}  // namespace

void Candidates::reset(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                       const PlanOptions& options) {
  forest_ = &forest;
  shape_ = &shape;
  profile_ = &profile;
  options_ = &options;
  order_.reset(forest);
  tiles_.reset(profile, shape.group_size(), options.tile);
  costs_.reset(profile, shape);
  find_hot_tokens();
}

void Candidates::find_hot_tokens() {
  std::int64_t tokens = 0;
  for (const ForestNode& node : forest_->nodes) tokens += node.requests.size() > 1 ? node.tokens() : 0;
  const std::int64_t token_bytes = shape_->kv_bytes_per_token() * shape_->kv_heads;
  cached_rereads_ = tokens <= profile_->llc_bytes / token_bytes;
}

const Candidate& Candidates::propose(Policy policy, KvSplit split) {
  Candidate& candidate = candidates_[static_cast<std::size_t>(policy)];
  const PolicyRow& row = policy_row(policy);
  candidate.packs.reset(order_, tiles_);
  row.function(input(), candidate.packs);
  candidate.costs = costs_;
  if (cached_rereads_) candidate.costs.set_rereads(forest_->distinct_tokens, candidate.packs.total_tokens());
  candidate.division.divide(candidate.packs, candidate.costs, split == KvSplit::kOwn ? row.split : split);
  return candidate;
}

Nanoseconds Candidates::least_flat_time() const {
  CostModel costs = costs_;
  if (cached_rereads_) costs.set_rereads(forest_->distinct_tokens, forest_->total_tokens);
  return costs.least_time(forest_->total_tokens);
}

Policy choose_policy(Candidates& candidates, KvSplit split, std::int64_t longest) {
  const Forest& forest = candidates.forest();
  Policy best = Policy::kFlat;
  Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
  if (forest.distinct_tokens < forest.total_tokens) {
    for (const Policy policy : kShared) {
      const Division& division = candidates.propose(policy, split).division;
      if (division.predicted() >= least || division.lengths().longest() > longest) continue;
      least = division.predicted();
      best = policy;
    }
  }
  // `flat` reads all tokens of all requests: where they share much, that alone takes longer than another policy's plan,
  // and proposing it would be in vain.
  if (candidates.least_flat_time() > least) return best;
  const Division& flat = candidates.propose(Policy::kFlat, split).division;
  return flat.predicted() <= least && flat.lengths().longest() <= longest ? Policy::kFlat : best;
}

std::vector<PolicyEstimate> estimate_policies(Candidates& candidates, KvSplit split) {
  std::vector<PolicyEstimate> estimates;
  for (const Policy policy : kAll) {
    const Candidate& candidate = candidates.propose(policy, split);
    estimates.push_back(
        {policy, static_cast<double>(candidate.division.predicted()) / 1e3, candidate.packs.total_tokens()});
  }
  return estimates;
}

}  // namespace trunkline
