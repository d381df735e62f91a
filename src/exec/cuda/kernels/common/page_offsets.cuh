// Pages and page offsets of token positions.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"

namespace trunkline::cuda {

class PageOffsets {
 public:
  __device__ __forceinline__ explicit PageOffsets(std::int32_t page_size) : size_(page_size) {
    shift_ = (page_size & (page_size - 1)) == 0 ? __ffs(page_size) - 1 : -1;
  }

  /// Returns the page of a position, counted from the request's first page.
  __device__ __forceinline__ std::int32_t page_of(std::int32_t position) const {
    return shift_ >= 0 ? position >> shift_ : position / size_;
  }
  /// Returns the page offset of a position.
  __device__ __forceinline__ std::int32_t offset_of(std::int32_t position) const {
    return position - page_of(position) * size_;
  }

 private:
  std::int32_t size_;
  int shift_;  // log2 of the page size; -1 where it is no power of two. A division takes 100 clocks
};

/// Returns the page id at an entry of the page table.
__device__ __forceinline__ std::int64_t page_id(const DevicePages& pages, std::int64_t entry) {
  return pages.wide_ids != 0 ? static_cast<const std::int64_t*>(pages.ids)[entry]
                             : static_cast<const std::int32_t*>(pages.ids)[entry];
}

/// Prefetches the page id to L2.
__device__ __forceinline__ void prefetch_page_id(const DevicePages& pages, std::int64_t entry) {
  if (pages.wide_ids != 0) {
    prefetch_to_cache(static_cast<const std::int64_t*>(pages.ids) + entry);
  } else {
    prefetch_to_cache(static_cast<const std::int32_t*>(pages.ids) + entry);
  }
}

}  // namespace trunkline::cuda
