#include "plan/candidates.hpp"

#include "plan/policies/policy_table.hpp"
#include "plan/statistics.hpp"

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
  policy_row(policy).function({*forest_, order_, node_scratch_}, candidate.packs);
  candidate.division.divide(candidate.packs, costs_, split);
  return candidate;
}

Policy choose_policy(Candidates& candidates, KvSplit split) {
  Policy best = Policy::kFlat;
  Nanoseconds least = candidates.propose(best, split).division.predicted();
  if (candidates.forest().distinct_tokens == candidates.forest().total_tokens) return best;
  for (const PolicyRow& row : policy_table()) {
    if (!row.candidate || row.policy == Policy::kFlat) continue;
    const Nanoseconds predicted = candidates.propose(row.policy, split).division.predicted();
    if (predicted >= least) continue;
    least = predicted;
    best = row.policy;
  }
  return best;
}

std::vector<PolicyEstimate> estimate_policies(Candidates& candidates, KvSplit split) {
  std::vector<PolicyEstimate> estimates;
  for (const PolicyRow& row : policy_table()) {
    if (!row.candidate) continue;
    const Candidate& candidate = candidates.propose(row.policy, split);
    estimates.push_back(
        {row.policy, static_cast<double>(candidate.division.predicted()) / 1e3, kv_tokens_read(candidate.packs)});
  }
  return estimates;
}

}  // namespace trunkline
