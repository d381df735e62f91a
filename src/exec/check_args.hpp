// Checks of one layer's tensors that every executor makes, and the defaults it fills in.
#pragma once

#include <cstddef>
#include <span>

#include "trunkline/attention.hpp"

namespace trunkline {

/// The arguments with every zero stride and scale replaced by its default.
/// \throws Error naming the member when a tensor is null, misaligned for its element type, or overlaps the output; or
/// when an output overlaps the workspace.
AttentionArgs check_args(const AttentionArgs& args, const AttentionShape& shape, const Batch& batch,
                         std::span<const std::byte> workspace = {});

/// \throws Error(kUnsupported) with the reason when supports(shape) says no.
void check_supported(const AttentionShape& shape);

}  // namespace trunkline
