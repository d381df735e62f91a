// The kernels of one element type, for the host.
#pragma once

#include <cstddef>

#include "exec/cuda/kernels/sm90/single_query/config.hpp"

namespace trunkline::cuda::single_query {

struct KernelSet {
  const void* whole;         // for page sizes at which each slice lies in one page
  const void* any;           // for all page sizes
  std::size_t shared_bytes;  // dynamic
};

#define TRUNKLINE_SINGLE_QUERY_DECLARE(dtype) KernelSet kernel_set_##dtype();
TRUNKLINE_SINGLE_QUERY_KERNELS(TRUNKLINE_SINGLE_QUERY_DECLARE)
#undef TRUNKLINE_SINGLE_QUERY_DECLARE

}  // namespace trunkline::cuda::single_query
