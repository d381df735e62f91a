// The kernels of one element type and head dimension, for the host.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/sm80/forward/config.hpp"

namespace trunkline::cuda::sm80 {

struct KernelSet {
  const void* persistent;
  std::size_t shared_bytes;  // dynamic
  const void* compact;       // persistent, with the shorter ring
  std::size_t compact_bytes;
};

#define TRUNKLINE_SM80_DECLARE(dtype, head_dim) KernelSet kernel_set_##dtype##_##head_dim();
TRUNKLINE_SM80_KERNELS(TRUNKLINE_SM80_DECLARE)
#undef TRUNKLINE_SM80_DECLARE

}  // namespace trunkline::cuda::sm80
