// Tensor maps of a layer's K and V, by which the copy engine (TMA) finds tokens.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda::sm90 {

/// Coordinates: element of a panel, place in the octet, panel, KV head, octet of 8 tokens in the cache. A TMA tile is
/// one or two octets, as slots hold them, with the swizzle that wgmma reads.
struct CacheMap {
  CUtensorMap tensor;
  std::int64_t page_octets;  ///< from a page to the next
};

/// As the kernel takes them.
struct CacheMaps {
  CacheMap k;
  CacheMap v;
  std::int32_t octets;  ///< of a TMA tile; 0: pages are no multiple of 8 tokens or no multiple of 8 tokens apart, or
                        ///< the driver refused; rows are copied one by one
};

/// On the host, at each launch.
CacheMaps make_cache_maps(const ForwardArgs& args, DType dtype);

}  // namespace trunkline::cuda::sm90
