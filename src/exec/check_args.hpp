// Checks of one layer's tensors that every executor makes, and the defaults it fills in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trunkline/attention.hpp"

namespace trunkline {

/// How many rows the tensors of a batch have.
struct TensorCounts {
  std::int64_t queries = 0;
  std::int64_t num_pages = 0;
  std::int32_t tree_depth = 0;  ///< tree_depth_of() the plan; 0 where the device has no windows
};
inline TensorCounts tensor_counts(const Batch& batch) {
  return {batch.total_queries(), batch.num_pages, 0};
}

/// The arguments with every zero stride, and a scale that is missing, replaced by its default.
/// \throws Error naming the member when a tensor is null, misaligned for its element type, or overlaps the output; when
/// an output overlaps the workspace; Error(kUnsupported) on a scale, window, soft cap or sink that the device's kernels
/// lack (features.hpp).
AttentionArgs check_args(const AttentionArgs& args, const AttentionShape& shape, const TensorCounts& counts,
                         std::span<const std::byte> workspace = {});

/// \throws Error(kUnsupported) with the reason when supports(shape) says no.
void check_supported(const AttentionShape& shape);

}  // namespace trunkline
