// The checking mode: whether all page ids that a batch's lengths reach are of the cache.
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

/// Looks at every row and waits for the stream. Not capturable.
/// \throws Error(kOutOfRange) naming the first row at fault: a length or a range of its entries that does not fit the
/// table, or an entry that is no page; Error(kInvalidArgument) when num_pages is not given.
void check_pages(const PageCheckArgs& args, cudaStream_t stream);

}  // namespace trunkline::cuda
