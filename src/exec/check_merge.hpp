// Checks of merge_states' arguments that the CPU and CUDA share, and the defaults they fill in.
#pragma once

#include "trunkline/attention.hpp"

namespace trunkline {

/// The arguments with every zero stride replaced by its default. Reads none of what they point to.
/// \throws Error naming the member: negative sizes, a head_dim or type that is not supported, null or misaligned
/// pointers, strides that are no strides.
MergeStates check_merge_states(const MergeStates& states);

}  // namespace trunkline
