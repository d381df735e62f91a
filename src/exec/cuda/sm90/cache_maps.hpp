// Tensor maps of a layer's K and V, by which the copy engine (TMA) finds slices of 16 tokens.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "exec/cuda/common/kernel_args.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda::sm90 {

/// As the kernel takes them. Coordinates: element, place in the page, KV head, page; boxes of 64 elements of 16 tokens,
/// with the swizzle that wgmma reads.
struct CacheMaps {
  CUtensorMap k;
  CUtensorMap v;
  std::int32_t usable;  ///< 0: pages are no multiple of 16 tokens, or the driver refused; rows are copied one by one
};

/// On the host, at each launch.
CacheMaps make_cache_maps(const ForwardArgs& args, DType dtype);

}  // namespace trunkline::cuda::sm90
