// The kernels of planning on a device: one for each phase of plan/device/planner_phases.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/device_planner/planner_report.hpp"
#include "plan/device/planner_phases.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::cuda {

/// What forward kernels count, and leave at 0. As nobody knows what a workspace held before, each plan makes it so.
struct LaunchCounters {
  std::int32_t* queues = nullptr;  ///< null: none
  std::int32_t queue_words = 0;
  std::int32_t* arrived = nullptr;  ///< null: none
  std::int32_t arrived_words = 0;
};

/// All in device memory, but for what is not behind a pointer.
struct PlannerArgs {
  PlannerTask task;
  std::byte* searches = nullptr;  ///< [widths or early tries, kSearchBytes] for those that shared memory does not hold
  std::size_t search_bytes = 0;   ///< of each
  LaunchCounters counters;
  std::uint64_t* steps = nullptr;    ///< [2] how many were planned, and reused
  PlannerReport* report = nullptr;   ///< [1]
  CudaPlanReport* host = nullptr;    ///< for the report
  std::uint64_t* written = nullptr;  ///< [1] address of the counts of the lists that were written last; 0: of none
  std::uint64_t planner = 0;         ///< ListCounts::planner of its own
  std::int32_t widths = 0;           ///< of tiles to be tried
  std::size_t shared_bytes = 0;      ///< planner_shared_bytes() of the device
};

/// Dynamic shared memory that planning kernels may have on the current device. To be asked before they are launched.
std::size_t planner_shared_bytes();

/// Device memory that trying tiles needs, in all.
std::size_t search_memory_bytes(std::int32_t rows);

/// Plans the batch, or reuses the last plan. Kernels depend on the batch's rows and on addresses alone, so that they
/// can be captured. \throws Error(kInternal) when a launch fails
void launch_planner(const PlannerArgs& args, cudaStream_t stream);

}  // namespace trunkline::cuda
