// The checking mode: refuses a batch if a page id that its lengths reach is not in the cache.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/cuda/kernels/any/resolve.hpp"

namespace trunkline::cuda {

struct PageCheckArgs {
  DeviceRows rows;
  DevicePages pages;
  const std::int32_t* kv_lens;
  std::int32_t row_count;
  std::int64_t num_pages;
  std::uint64_t* first_fault;  // in the workspace
};

/// Checks every row and waits for the stream. Not capturable.
/// \throws Error(kOutOfRange) naming the first row at fault: a length or a range of its entries that does not fit the
/// table, or an entry that is no page of the cache; Error(kInvalidArgument) if num_pages is not given.
void check_pages(const PageCheckArgs& args, cudaStream_t stream);

}  // namespace trunkline::cuda
