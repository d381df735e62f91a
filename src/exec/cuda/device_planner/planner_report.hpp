// The result of planning on the device, before resolve publishes it to the host.
#pragma once

#include "trunkline/cuda_planner.hpp"

namespace trunkline::cuda {

/// Lies in the workspace with the plan, and is valid if a planner wrote the lists there (ListCounts::planner). Resolve
/// publishes it, because the kernel after one that ends with a write to host memory starts later: in a test by 0.9 us
/// (an H100).
struct PlannerReport {
  CudaPlanReport report;
  CudaPlanReport* host;  ///< destination in host memory that the device may write
};

}  // namespace trunkline::cuda
