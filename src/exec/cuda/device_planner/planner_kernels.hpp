// The kernels of planning on a device: one for each phase of plan/device/planner_phases.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/device_planner/planner_report.hpp"
#include "plan/device/planner_phases.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::cuda {

/// Counters of the forward kernels, which leave them at 0. Each plan clears them first, as the earlier content of a
/// workspace is unknown.
struct LaunchCounters {
  std::int32_t* queues = nullptr;  ///< null: none
  std::int32_t queue_words = 0;
  std::int32_t* arrived = nullptr;  ///< null: none
  std::int32_t arrived_words = 0;
};

/// The arguments of all planning kernels. Pointers are to device memory.
struct PlannerArgs {
  PlannerTask task;
  std::byte* searches = nullptr;  ///< [widths or early tries, search_bytes] scratch of tries that exceeds shared memory
  std::size_t search_bytes = 0;   ///< scratch of one try
  LaunchCounters counters;
  std::uint64_t* steps = nullptr;    ///< [2] numbers of plans made and of plans reused
  PlannerReport* report = nullptr;   ///< [1]
  CudaPlanReport* host = nullptr;    ///< destination of the report in host memory
  std::uint64_t* written = nullptr;  ///< [1] address of the counts of the last written lists; 0: none were written
  std::uint64_t planner = 0;         ///< the ListCounts::planner that this planner writes
  std::int32_t widths = 0;           ///< number of tile widths to try
  std::size_t shared_bytes = 0;      ///< planner_shared_bytes() of the device
};

/// Returns the dynamic shared memory that planning kernels may have on the current device, and allows them to use it.
/// Must be called before a launch.
std::size_t planner_shared_bytes();

/// Returns the device memory that all tries of tiles need.
std::size_t search_memory_bytes(std::int32_t rows);

/// Plans the batch, or reuses the last plan. The launches depend on the number of rows and on addresses alone, so that
/// they can be captured. \throws Error(kInternal) when a launch fails
void launch_planner(const PlannerArgs& args, cudaStream_t stream);

}  // namespace trunkline::cuda
