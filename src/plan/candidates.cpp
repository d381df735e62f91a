#include "plan/candidates.hpp"

#include <limits>

namespace trunkline {

void Candidates::reset(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile) {
  forest_ = &forest;
  order_.reset(forest);
  tiles_.reset(profile.tiles, shape.group_size());
  costs_.reset(profile, shape);
}

const Candidate& Candidates::propose(Policy policy, KvSplit split) {
  Candidate& candidate = candidates_[static_cast<std::size_t>(policy)];
  candidate.packs.reset(order_, tiles_.max_queries());
  policy_row(policy).function(input(), candidate.packs);
  candidate.division.divide(candidate.packs, costs_, split);
  return candidate;
}

Policy choose_policy(Candidates& candidates, KvSplit split, std::int64_t longest) {
  const Forest& forest = candidates.forest();
  Policy best = Policy::kFlat;
  Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
  if (forest.distinct_tokens < forest.total_tokens) {
    for (const PolicyRow& row : policy_table()) {
      if (!row.candidate || row.policy == Policy::kFlat) continue;
      if (row.policy == Policy::kProfit && !candidates.profit_differs()) continue;  // it would tie with `node`
      const Division& division = candidates.propose(row.policy, split).division;
      if (division.predicted() >= least || division.lengths().longest() > longest) continue;
      least = division.predicted();
      best = row.policy;
    }
  }
  // `flat` reads all tokens of all requests: where they share much, that alone takes longer than another policy's plan,
  // and proposing it would be in vain.
  if (candidates.costs().least_time(forest.total_tokens) > least) return best;
  const Division& flat = candidates.propose(Policy::kFlat, split).division;
  return flat.predicted() <= least && flat.lengths().longest() <= longest ? Policy::kFlat : best;
}

std::vector<PolicyEstimate> estimate_policies(Candidates& candidates, KvSplit split) {
  std::vector<PolicyEstimate> estimates;
  for (const PolicyRow& row : policy_table()) {
    if (!row.candidate) continue;
    const Candidate& candidate = candidates.propose(row.policy, split);
    estimates.push_back(
        {row.policy, static_cast<double>(candidate.division.predicted()) / 1e3, candidate.packs.total_tokens()});
  }
  return estimates;
}

}  // namespace trunkline
