#include "cli/policies.hpp"

#include "plan/policies/policy_table.hpp"

namespace trunkline::cli {

std::vector<Policy> packing_policies() {
  std::vector<Policy> policies;
  for (const PolicyRow& row : policy_table()) {
    if (row.function != nullptr) policies.push_back(row.policy);
  }
  return policies;
}

std::string policy_names() {
  std::string names;
  for (const PolicyRow& row : policy_table()) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace trunkline::cli
