// Checks of merge_states' arguments that the CPU and CUDA share, and the defaults they fill in.
#pragma once

#include <cstdint>

#include "trunkline/attention.hpp"

namespace trunkline {

/// The arguments with every zero stride replaced by its default. Reads none of what they point to.
/// \throws Error naming the member: negative sizes, a head_dim or type that is not supported, null or misaligned
/// pointers, strides that are no strides.
MergeStates check_merge_states(const MergeStates& states);

/// After check_merge_states(). Rows are merged in any order and at once, so outputs may overlap nothing that is read.
/// \param listed entries of `slots` \throws Error naming an output, and what it overlaps
void check_merge_overlaps(const MergeStates& states, std::int64_t listed);

}  // namespace trunkline
