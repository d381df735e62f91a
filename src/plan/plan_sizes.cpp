#include "plan/plan_sizes.hpp"

#include <algorithm>

#include "plan/capacity_limits.hpp"

namespace trunkline {
namespace {

struct NamedSize {
  const char* name;
  std::size_t PlanSizes::*size;
};
constexpr NamedSize kSizes[] = {
    {"queries", &PlanSizes::queries},
    {"items", &PlanSizes::items},
    {"item_queries", &PlanSizes::item_queries},
    {"spans", &PlanSizes::spans},
    {"masks", &PlanSizes::masks},
    {"merge_queries", &PlanSizes::merge_queries},
    {"merge_slots", &PlanSizes::merge_slots},
    {"partials", &PlanSizes::partials},
};

}  // namespace

PlanSizes sizes_of(const Plan& plan) {
  return {.queries = plan.queries.size(),
          .items = plan.items.size(),
          .item_queries = plan.item_queries.size(),
          .spans = plan.spans.size(),
          .masks = plan.masks.size(),
          .merge_queries = plan.merge_queries.size(),
          .merge_slots = plan.merge_slots.size(),
          .partials = static_cast<std::size_t>(plan.partials)};
}

PlanSizes sizes_of(const PlanCapacity& capacity, std::int32_t group_size) {
  PlanSizes sizes;
  for (const CapacityLimit& limit : kCapacityLimits) {
    sizes.*limit.size = static_cast<std::size_t>(capacity.*limit.limit);
  }
  sizes.merge_queries = sizes.queries;
  sizes.merge_slots = sizes.partials;
  // A query is in one item only, or has a partial in each.
  if (sizes.queries > 0 && sizes.partials > 0) sizes.item_queries = sizes.queries + sizes.partials;
  if (sizes.queries > 0 && sizes.spans > 0) {
    sizes.masks = static_cast<std::size_t>(mask_capacity(capacity, group_size));
  }
  return sizes;
}

PlanSizes capacities_for(const Plan& plan) {
  PlanSizes sizes = sizes_of(plan);
  const PlanSizes limits = sizes_of(plan.capacity, plan.shape.group_size());
  for (const NamedSize& each : kSizes) sizes.*each.size = std::max(sizes.*each.size, limits.*each.size);
  return sizes;
}

std::int64_t mask_capacity(const PlanCapacity& capacity, std::int32_t group_size) {
  constexpr std::int32_t kLargestTree = 256;
  constexpr std::int32_t kTileRows = 64;
  const std::int64_t item_queries = std::max(1, kTileRows / std::max(1, group_size));
  const std::int64_t items = (std::min(capacity.queries, kLargestTree) + item_queries - 1) / item_queries;
  return capacity.spans + capacity.queries * items;
}

Shortage find_shortage(const PlanSizes& needed, const PlanSizes& capacities) {
  for (const auto& [name, size] : kSizes) {
    if (needed.*size > capacities.*size) return {name, needed.*size, capacities.*size};
  }
  return {};
}

}  // namespace trunkline
