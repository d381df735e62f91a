// Batches planned, resolved and run on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/device_case.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::testing {

/// A planner with its memory, an executor and a workspace.
class OnDevice {
 public:
  OnDevice(const AttentionShape& shape, std::int32_t rows, const PlanCapacity& room, CudaOptions options = {})
      : executor_(options),
        planner_(cuda_profile(0, shape), on_cuda(shape), {.rows = rows, .capacity = room, .growth = 8}),
        memory_(planner_.memory_bytes()),
        workspace_(executor_.workspace_bytes(planner_)) {
    planner_.bind(memory_.data(), memory_.size(), nullptr);
    check(cudaDeviceSynchronize());
  }

  void plan(const DeviceBatch& batch, cudaStream_t stream = nullptr) {
    executor_.plan(planner_, batch.view(), workspace_.data(), workspace_.size(), stream);
    executor_.resolve(batch.view(), workspace_.data(), stream);
  }
  void run(const DeviceTensors& tensors, cudaStream_t stream = nullptr, std::int64_t max_queries = 0) {
    AttentionArgs args = tensors.args();
    args.max_queries = max_queries;
    executor_.run(args, workspace_.data(), stream);
  }
  CudaPlanReport report() const {
    check(cudaDeviceSynchronize());
    return planner_.report();
  }
  CudaExecutor& executor() { return executor_; }
  CudaPlanner& planner() { return planner_; }
  DeviceMemory& workspace() { return workspace_; }

 private:
  CudaExecutor executor_;
  CudaPlanner planner_;
  DeviceMemory memory_;
  DeviceMemory workspace_;
};

}  // namespace trunkline::testing
