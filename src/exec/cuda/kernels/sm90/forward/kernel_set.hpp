// The kernels of one element type, for the host.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {

struct KernelSet {
  const void* kernel;        // for items of all tiles
  const void* merging;       // also merges partials
  std::size_t shared_bytes;  // dynamic
};

#define TRUNKLINE_SM90_DECLARE(dtype) KernelSet kernel_set_##dtype();
TRUNKLINE_SM90_KERNELS(TRUNKLINE_SM90_DECLARE)
#undef TRUNKLINE_SM90_DECLARE

}  // namespace trunkline::cuda::sm90
