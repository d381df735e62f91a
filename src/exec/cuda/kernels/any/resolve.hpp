// Resolves an uploaded plan at live lengths on the device; the host's counterpart is exec/resolve.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/device_planner/planner_report.hpp"
#include "exec/cuda/kernels/common/kernel_args.hpp"

namespace trunkline::cuda {

/// The rows of a page table in device memory.
struct DeviceRows {
  const std::int32_t* indptr;   // CSR only, [rows + 1]
  const std::int32_t* row_map;  // token-level only, [rows]
  std::int64_t width;           // dense and token-level
  std::int64_t entries;         // ids in the table
  std::int32_t page_size;
};

struct ResolveArgs {
  DevicePlan plan;
  const PlannerReport* report;  // [1]
  DeviceStep step;
  DeviceRows rows;
  const std::int32_t* kv_lens;
  std::int64_t* first_ids;  // output: the first entry in the table of the row of DeviceStep::rows[0]
};

/// Launches the resolve kernel. A length that is negative, or longer than its row of the table, counts as 0; spans are
/// clipped to their request. \param max_items maximum of items, queries of items, and spans of any plan uploaded to
/// this workspace: a captured launch serves all of them
cudaError_t launch_resolve(const ResolveArgs& args, std::size_t max_items, cudaStream_t stream);

}  // namespace trunkline::cuda
