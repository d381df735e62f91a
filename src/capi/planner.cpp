// Making plans.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "capi/convert.hpp"
#include "capi/objects.hpp"

using namespace trunkline;
using namespace trunkline::capi;

const char* trunkline_policy_name(trunkline_policy policy) {
  if (policy < TRUNKLINE_POLICY_AUTO || policy > last_policy()) return nullptr;
  return name_of(policy_of(policy, "policy"));
}

trunkline_status trunkline_policy_from_name(const char* name, trunkline_policy* policy) {
  return guard([&] {
    need(name, "name");
    need(policy, "policy");
    *policy = number_of(policy_from_name(name));
  });
}

trunkline_status trunkline_planner_create(const trunkline_profile* profile, trunkline_planner** planner) {
  return guard([&] {
    need(planner, "planner");
    const auto from = shared<ProfileObject>(profile);
    *planner = static_cast<trunkline_planner*>(publish(std::make_shared<PlannerObject>(from->profile)));
  });
}

trunkline_status trunkline_planner_plan(trunkline_planner* planner, const trunkline_forest* forest,
                                        const trunkline_shape* shape, const trunkline_plan_options* options,
                                        const trunkline_plan** plan) {
  return guard([&] {
    need(plan, "plan");
    const auto held = exclusive<PlannerObject>(planner);
    const auto from = shared<ForestObject>(forest);
    const AttentionShape for_shape = shape_of(shape);
    const PlanOptions with = plan_options(options);
    *plan = held->plan.renew([&] {
      *plan = nullptr;  // the former plan ends here, whatever comes
      return std::pair(&held->planner.plan(from->forest(), for_shape, with), false);
    });
  });
}

trunkline_status trunkline_planner_estimate(trunkline_planner* planner, const trunkline_forest* forest,
                                            const trunkline_shape* shape, trunkline_estimate* estimates,
                                            size_t capacity, size_t* count) {
  return guard([&] {
    need(count, "count");
    if (capacity > 0) need(estimates, "estimates");
    const auto held = exclusive<PlannerObject>(planner);
    const auto from = shared<ForestObject>(forest);
    const std::vector<PolicyEstimate> found = held->planner.estimate(from->forest(), shape_of(shape));
    for (std::size_t i = 0; i < std::min(capacity, found.size()); ++i) {
      estimates[i] = {.policy = number_of(found[i].policy),
                      .reserved = 0,
                      .predicted_us = found[i].predicted_us,
                      .kv_tokens_read = found[i].kv_tokens_read};
    }
    *count = found.size();
  });
}

trunkline_status trunkline_planner_destroy(trunkline_planner* planner) {
  if (planner == nullptr) return TRUNKLINE_OK;
  return guard([&] {
    auto held = exclusive<PlannerObject>(planner);
    held->plan.end();
    held.close();
  });
}
