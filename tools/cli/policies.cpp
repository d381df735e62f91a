#include "cli/policies.hpp"

#include "plan/policies/policy_table.hpp"

namespace trunkline::cli {

std::vector<Policy> packing_policies() {
  std::vector<Policy> policies;
  for (const PolicyInfo& info : policy_table()) policies.push_back(info.policy);
  return policies;
}

std::string policy_names() {
  std::string names;
  for (const PolicyInfo& info : policy_table()) names += std::string(info.name) + ", ";
  return names + name_of(Policy::kAuto);
}

}  // namespace trunkline::cli
