// The kernels of one element type and head dimension, for the host.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {

struct KernelSet {
  const void* kernel;        // for items of all tiles
  const void* merging;       // also merges partials
  const void* runs;          // like `kernel`, for pages that are no multiple of an octet
  const void* runs_merging;  // like `merging`, for these
  std::size_t shared_bytes;  // dynamic
  int threads;
};

/// \param varies whether layers may vary (LayerArgs::varies); kernels of 8-bit K and V take all layers
#define TRUNKLINE_SM90_DECLARE(dtype, head_dim) KernelSet kernel_set_##dtype##_##head_dim(bool varies);
TRUNKLINE_SM90_KERNELS(TRUNKLINE_SM90_DECLARE)
#undef TRUNKLINE_SM90_DECLARE
#define TRUNKLINE_SM90_DECLARE_FP8(dtype, head_dim) KernelSet kernel_set_fp8_##dtype##_##head_dim();
TRUNKLINE_SM90_FP8_KERNELS(TRUNKLINE_SM90_DECLARE_FP8)
#undef TRUNKLINE_SM90_DECLARE_FP8

}  // namespace trunkline::cuda::sm90
