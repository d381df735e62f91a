// `trunkline run --planner device`: the plan that the host made, made again by the device in its place.
#pragma once

#include <cuda_runtime_api.h>

#include "cli/cuda/device.hpp"
#include "cli/run_backend.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::cli {

/// Makes one batch's plan of policy `trunk` or `invariant`.
class PlanOnDevice {
 public:
  /// \param plan of the host, whose lists are the capacity
  PlanOnDevice(const Plan& plan, const MachineProfile& profile, const HostBatch& host, std::int32_t device,
               cudaStream_t stream);

  const CudaPlanner& planner() const { return planner_; }
  void plan(CudaExecutor& executor, const CudaBatch& batch, void* workspace, std::size_t bytes, cudaStream_t stream) {
    executor.plan(planner_, batch, workspace, bytes, stream);
  }
  /// Once the device is done. \throws Error(kInternal) when its plan is not as long as the host's.
  void check(const Plan& plan) const;

 private:
  CudaPlanner planner_;
  DeviceArray memory_;
};

}  // namespace trunkline::cli
