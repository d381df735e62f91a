// What makes a profile impossible to plan with.
#pragma once

#include <optional>
#include <string>

#include "trunkline/machine.hpp"

namespace trunkline {

/// The first figure at fault, its value and what is accepted, as in "workers is 0; it must be > 0"; nothing when all
/// are right.
std::optional<std::string> profile_fault(const MachineProfile& profile);

/// \throws Error(kInvalidArgument) with "profile." and the fault.
void check_profile(const MachineProfile& profile);

}  // namespace trunkline
