// Tensor maps of a layer's K and V for the copy engine (TMA).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/kernel_shape.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda::sm90 {

/// The map's coordinates: element of a panel, row of the octet, panel, KV head, octet of 8 tokens in the cache; with
/// runs (copies_runs), the octet's first token. A TMA tile is one or two octets in the layout of slots, with the
/// swizzle that wgmma reads; or rows of 8 bits, one behind another.
struct CacheMap {
  CUtensorMap tensor;
  /// With runs: a whole slice whose octets follow one another. Coordinates: element of a panel, row of the octet, panel
  /// of all KV heads, octet of the slice, the slice's first token. Valid if `pairs`.
  CUtensorMap slice;
  std::int32_t pairs;        ///< 1: the heads of a token lie one behind another, as the panels of `slice` need
  std::int64_t page_octets;  ///< octets from a page to the next; with runs, tokens
};

/// Strides of a tensor's rows in units of their greatest common divisor, at least 16 bytes. The row at (page, token,
/// head) lies at unit page * `page` + token * `token` + head * `head`: 32 bits are enough for rows of 64 GB and more.
struct RowSteps {
  std::uint32_t page;
  std::uint32_t token;
  std::uint32_t head;
  std::uint32_t unit;  ///< bytes
};

/// The tensor maps and strides, as a kernel parameter.
struct CacheMaps {
  CacheMap k;
  CacheMap v;
  RowSteps k_steps;
  RowSteps v_steps;
  RowSteps q_steps;     ///< page: 0
  std::int32_t octets;  ///< octets of a TMA tile; 0: rows are copied one by one, as pages are not a multiple of 8
                        ///< tokens apart, or with runs not one behind another, or the driver refused
};

/// Makes the maps, on the host at each launch.
CacheMaps make_cache_maps(const ForwardArgs& args, const KernelShape& shape);

}  // namespace trunkline::cuda::sm90
