// How long the lists of a plan are, and may be.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trunkline/plan.hpp"

namespace trunkline {

/// Lengths of a plan's lists, or capacities for them.
struct PlanSizes {
  std::size_t queries = 0;
  std::size_t items = 0;
  std::size_t item_queries = 0;
  std::size_t spans = 0;
  std::size_t masks = 0;
  std::size_t merge_queries = 0;
  std::size_t merge_slots = 0;
  std::size_t partials = 0;
};

PlanSizes sizes_of(const Plan& plan);
/// Upper limits for plans of a capacity; 0: no limit. Masks of draft trees of more than 256 tokens may exceed theirs.
PlanSizes sizes_of(const PlanCapacity& capacity, std::int32_t group_size);

/// Capacities of a workspace for a plan. A size that Plan::capacity limits depends on the limit alone, so all plans of
/// one capacity lie at the same addresses. A plan that has more takes its own size: of a list without a limit, or masks
/// of draft trees of more than 256 tokens.
PlanSizes capacities_for(const Plan& plan);

/// Masks that plans of a capacity have at most: one for each span, and one for each draft of a token tree in each item
/// that reads it, of trees of up to 256 tokens in tiles of 64 rows.
std::int64_t mask_capacity(const PlanCapacity& capacity, std::int32_t group_size);

/// The first size that exceeds its capacity. `name` is nullptr if all fit.
struct Shortage {
  const char* name = nullptr;
  std::size_t needed = 0;
  std::size_t capacity = 0;
};
Shortage find_shortage(const PlanSizes& needed, const PlanSizes& capacities);

}  // namespace trunkline
