// Checks of a planner's arguments. Messages of refusals say what is supported.
#pragma once

#include <optional>
#include <string>

#include "trunkline/error.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// Why no executor runs a shape, whatever the machine.
struct ShapeFault {
  ErrorCode code = ErrorCode::kUnsupported;  ///< or kInvalidArgument
  std::string reason;                        ///< the member, its value, and what is supported
};
std::optional<ShapeFault> find_shape_fault(const AttentionShape& shape);
/// \throws Error with what find_shape_fault() finds.
void check_shape(const AttentionShape& shape);
/// \throws Error(kInvalidArgument) naming the option that is out of range and what is known.
void check_options(const PlanOptions& options);

/// Whether a plan exceeds some limit of plan.capacity.
bool exceeds_capacity(const Plan& plan);
/// The first limit that it exceeds, with what it needs, for messages.
std::string excess_of(const Plan& plan);

}  // namespace trunkline
