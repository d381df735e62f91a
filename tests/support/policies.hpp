// Every policy of the table, so that a new one is tested without a test's doing.
#pragma once

#include <vector>

#include "plan/policies/policy_table.hpp"

namespace trunkline::testing {

/// All that make packs: all but `auto`.
inline std::vector<Policy> packing_policies() {
  std::vector<Policy> policies;
  for (const PolicyInfo& info : policy_table()) policies.push_back(info.policy);
  return policies;
}

inline std::vector<Policy> all_policies() {
  std::vector<Policy> policies = packing_policies();
  policies.push_back(Policy::kAuto);
  return policies;
}

inline PlanOptions options_of(Policy policy, KvSplit split) {
  PlanOptions options;
  options.policy = policy;
  options.split = split;
  return options;
}

}  // namespace trunkline::testing
