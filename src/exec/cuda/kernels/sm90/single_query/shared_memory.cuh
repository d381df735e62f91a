// Shared memory of a CTA of the single-query kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/row_state.hpp"
#include "exec/cuda/kernels/sm90/single_query/config.hpp"

namespace trunkline::cuda::single_query {

/// K and V of a slice, rows as WarpRows reads them.
struct Stage {
  std::byte keys[kSliceBytes];
  std::byte values[kSliceBytes];
};

/// The O of a warp's rows, un-normalised, which overwrites the warp's stages once these are computed. Rows are eight
/// banks apart, so that the lanes of a fragment store to different banks.
struct WarpSums {
  static constexpr int kStride = kDim + 8;
  float rows[kRows][kStride];
};
static_assert(sizeof(WarpSums) <= kStages * sizeof(Stage));

struct SharedMemory {
  alignas(1024) Stage stages[kWarps][kStages];
  alignas(16) std::byte queries[kRows][kRowBytes];
  RowState states[kWarps][kRows];
  // Data from all CTAs of the cluster, for the units that this CTA merges.
  float4 received[kMaxUnits + kMaxBlocks];
  RowState received_states[kMaxBlocks][kRows];
  std::uint64_t all_received;
  std::int32_t last;  // whether this cluster is the last of its head

  __device__ __forceinline__ WarpSums& sums(int warp) { return *reinterpret_cast<WarpSums*>(stages[warp]); }
};

}  // namespace trunkline::cuda::single_query
