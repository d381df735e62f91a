// A row of a page table in device memory, and its length.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/any/resolve.hpp"

namespace trunkline::cuda {

struct LiveRow {
  std::int64_t ids_begin;
  std::int32_t kv_len;
  bool fits;  ///< false: it counts as empty, as its length is negative or exceeds its entries, or these lie outside
};

__device__ __forceinline__ LiveRow live_row(const DeviceRows& rows, const std::int32_t* kv_lens, std::int32_t row) {
  const std::int64_t begin =
      rows.indptr != nullptr ? rows.indptr[row] : (rows.row_map != nullptr ? rows.row_map[row] : row) * rows.width;
  const std::int64_t end = rows.indptr != nullptr ? rows.indptr[row + 1] : begin + rows.width;
  const std::int32_t kv_len = kv_lens[row];
  const bool inside = begin >= 0 && begin <= end && end <= rows.entries;
  if (!inside || kv_len < 0 || kv_len > (end - begin) * rows.page_size) return {0, 0, false};
  return {begin, kv_len, true};
}

}  // namespace trunkline::cuda
