// The routing policies.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "replay/routing/router.hpp"

namespace trunkline::replay {

struct RoutingPolicy {
  const char* name;
  const char* about;
  std::unique_ptr<Router> (*make)();
};

/// Every policy; a new one is a file beside this one, and a row here.
std::span<const RoutingPolicy> routing_policies();

/// \throws Error(kInvalidArgument) naming the policies that there are.
const RoutingPolicy& routing_policy(const std::string& name);

/// Names with commas between them.
std::string routing_policy_names();

std::unique_ptr<Router> make_round_robin_router();
std::unique_ptr<Router> make_least_loaded_router();
std::unique_ptr<Router> make_prefix_router();
std::unique_ptr<Router> make_sibling_router();

}  // namespace trunkline::replay
