// What a planner refuses, with messages that say what it accepts.
#pragma once

#include <optional>
#include <string>

#include "trunkline/plan.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// \throws Error(kInvalidArgument or kUnsupported) naming the member of a shape that no executor runs.
void check_shape(const AttentionShape& shape);
/// \throws Error(kInvalidArgument) on a negative capacity or an unknown policy or split.
void check_options(const PlanOptions& options);

/// The first of plan.capacity's limits that a plan exceeds, with what it needs; nothing when it fits.
std::optional<std::string> exceeded_capacity(const Plan& plan);

}  // namespace trunkline
