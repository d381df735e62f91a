// Validation of machine profiles: finds figures that no plan can be made with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trunkline/machine.hpp"

namespace trunkline {

/// The limit of MachineProfile::slice_tokens: plans cut at multiples of it, so slices must divide it.
inline constexpr std::int32_t kMaxSliceTokens = 64;

/// The first figure at fault, its value and what is accepted, as in "workers is 0; it must be > 0"; nothing when all
/// are right.
std::optional<std::string> profile_fault(const MachineProfile& profile);

/// \throws Error(kInvalidArgument) with "profile." and the fault.
void check_profile(const MachineProfile& profile);

}  // namespace trunkline
