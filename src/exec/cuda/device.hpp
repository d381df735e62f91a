// CUDA's errors as exceptions, and a scope that restores the calling thread's device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/check.hpp"

namespace trunkline::cuda {

/// \throws Error(kInternal) with CUDA's name of the failure \param what the call or action that failed
inline void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fail(ErrorCode::kInternal, what, " failed: ", cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

/// Makes a device the calling thread's current device, and restores the former one at the end of the scope.
class DeviceScope {
 public:
  explicit DeviceScope(std::int32_t device) {
    check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ == device) return;
    check_cuda(cudaSetDevice(device), "cudaSetDevice");
    changed_ = true;
  }
  ~DeviceScope() {
    if (changed_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// Whether a stream is being captured into a graph.
bool is_capturing(cudaStream_t stream);

/// Checks a device number. \throws Error(kUnsupported) with cuda_status().reason, Error(kOutOfRange) if there is no
/// such device
void check_device(std::int32_t device);

}  // namespace trunkline::cuda
