// What a planner refuses, with messages that say what it accepts.
#pragma once

#include <string>

#include "trunkline/plan.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// \throws Error(kInvalidArgument or kUnsupported) naming the member of a shape that no executor runs.
void check_shape(const AttentionShape& shape);
/// \throws Error(kInvalidArgument) naming the option that is out of range and what is known.
void check_options(const PlanOptions& options);

/// Whether a plan exceeds some limit of plan.capacity.
bool exceeds_capacity(const Plan& plan);
/// The first limit that it exceeds, with what it needs, for messages.
std::string excess_of(const Plan& plan);

}  // namespace trunkline
