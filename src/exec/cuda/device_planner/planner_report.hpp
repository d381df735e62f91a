// What planning on the device has come to, on its way to the host.
#pragma once

#include "trunkline/cuda_planner.hpp"

namespace trunkline::cuda {

/// In the workspace that was planned into, true where the lists there are a planner's (ListCounts::planner). Resolve
/// publishes it to the host: a kernel that writes to memory of the host when it ends is waited for longer, by kernels
/// of a test 0.9 us (an H100).
struct PlannerReport {
  CudaPlanReport report;
  CudaPlanReport* host;  ///< in memory of the host that the device may write
};

}  // namespace trunkline::cuda
