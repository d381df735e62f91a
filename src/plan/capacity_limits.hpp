// The limits of a plan's lists that a user sets. Host only: nvcc writes pointers to members in parentheses, of which
// the host compiler warns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/plan_sizes.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// A limit that a user sets, and the size that it limits.
struct CapacityLimit {
  const char* name;
  std::int32_t PlanCapacity::*limit;
  std::size_t PlanSizes::*size;
};
inline constexpr CapacityLimit kCapacityLimits[] = {
    {"queries", &PlanCapacity::queries, &PlanSizes::queries},
    {"items", &PlanCapacity::items, &PlanSizes::items},
    {"spans", &PlanCapacity::spans, &PlanSizes::spans},
    {"partials", &PlanCapacity::partials, &PlanSizes::partials},
};

}  // namespace trunkline
