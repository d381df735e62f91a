#include "plan/validate.hpp"

#include <cstddef>
#include <vector>

#include "base/check.hpp"
#include "plan/capacity_limits.hpp"
#include "plan/plan_sizes.hpp"

namespace trunkline {
namespace {

/// The queries of each request follow each other, in the order of its query tokens. The order of requests is free: a
/// plan names slots, so it stays right when rows are reordered.
Violation find_query_violation(const Plan& plan, const Forest& forest, const RowOfSlot& row_of_slot) {
  std::size_t total = 0;
  for (const ForestRequest& request : forest.requests) total += static_cast<std::size_t>(request.queries);
  if (plan.queries.size() != total) {
    return concat("plan has ", plan.queries.size(), " queries, the forest ", total);
  }
  std::vector<bool> seen(forest.requests.size(), false);
  for (std::size_t id = 0; id < total;) {
    const std::int32_t slot = plan.queries[id].slot;
    const auto found = row_of_slot.find(slot);
    if (found == row_of_slot.end()) return concat("queries[", id, "] names slot ", slot, ", which no request has");
    const auto row = static_cast<std::size_t>(found->second);
    if (seen[row]) return concat("queries[", id, "] names slot ", slot, " again");
    seen[row] = true;
    const ForestRequest& request = forest.requests[row];
    for (std::int32_t token = 0; token < request.queries; ++token, ++id) {
      const Query expected = {request.slot, request.generation, token, request.queries - 1 - token,
                              forest.query_parent(request, token)};
      if (id == total || plan.queries[id] != expected) {
        return concat("queries[", id, "] is not query token ", token, " of row ", row);
      }
    }
  }
  return std::nullopt;
}

Violation find_schedule_violation(const Plan& plan) {
  if (plan.schedule.size() != plan.items.size()) {
    return concat("schedule has ", plan.schedule.size(), " entries for ", plan.items.size(), " items");
  }
  std::vector<bool> seen(plan.items.size(), false);
  for (std::size_t i = 0; i < plan.schedule.size(); ++i) {
    const std::int32_t item = plan.schedule[i];
    if (item < 0 || static_cast<std::size_t>(item) >= seen.size()) {
      return concat("schedule[", i, "] is ", item, "; there are ", seen.size(), " items");
    }
    if (seen[static_cast<std::size_t>(item)]) return concat("schedule[", i, "] is item ", item, " again");
    seen[static_cast<std::size_t>(item)] = true;
  }
  return std::nullopt;
}

Violation find_capacity_violation(const Plan& plan) {
  const PlanSizes sizes = sizes_of(plan);
  for (const CapacityLimit& each : kCapacityLimits) {
    const std::int32_t limit = plan.capacity.*each.limit;
    if (limit < 0 || (limit > 0 && sizes.*each.size > static_cast<std::size_t>(limit))) {
      return concat(sizes.*each.size, " ", each.name, " exceed the capacity");
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_plan_violation(const Plan& plan, const Forest& forest) {
  if (plan.policy == Policy::kAuto) return "policy is auto; a plan names the policy that was chosen";
  if (plan.shape.group_size() < 1) return "shape has fewer query heads than KV heads";
  RowOfSlot row_of_slot;
  for (std::size_t row = 0; row < forest.requests.size(); ++row) {
    row_of_slot.emplace(forest.requests[row].slot, static_cast<std::int32_t>(row));
  }
  if (Violation violation = find_query_violation(plan, forest, row_of_slot)) return violation;
  if (Violation violation = find_item_violation(plan, forest, row_of_slot)) return violation;
  if (Violation violation = find_output_violation(plan)) return violation;
  if (Violation violation = find_schedule_violation(plan)) return violation;
  if (Violation violation = find_capacity_violation(plan)) return violation;
  return find_coverage_violation(plan, forest, row_of_slot);
}

void validate_plan(const Plan& plan, const Forest& forest) {
  if (const auto violation = find_plan_violation(plan, forest))
    fail(ErrorCode::kInternal, "invalid plan: ", *violation);
}

}  // namespace trunkline
