#include "replay/routing/routing_table.hpp"

#include <array>

#include "base/check.hpp"

namespace trunkline::replay {
namespace {

constexpr std::array kPolicies = {
    RoutingPolicy{"round_robin", "each replica in turn", make_round_robin_router},
    RoutingPolicy{"least_loaded", "the replica with the fewest requests", make_least_loaded_router},
    RoutingPolicy{"prefix", "the replica that was sent the longest prefix of the prompt, unless it is overloaded",
                  make_prefix_router},
    RoutingPolicy{"sibling", "the replica of the session's other requests", make_sibling_router},
};

}  // namespace

std::span<const RoutingPolicy> routing_policies() {
  return kPolicies;
}

const RoutingPolicy& routing_policy(const std::string& name) {
  for (const RoutingPolicy& policy : kPolicies) {
    if (name == policy.name) return policy;
  }
  fail(ErrorCode::kInvalidArgument, "--routing is ", name, "; supported are ", routing_policy_names());
}

std::string routing_policy_names() {
  std::string names;
  for (const RoutingPolicy& policy : kPolicies) names += (names.empty() ? "" : ", ") + std::string(policy.name);
  return names;
}

}  // namespace trunkline::replay
