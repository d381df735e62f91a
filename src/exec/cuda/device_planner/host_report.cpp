#include "exec/cuda/device_planner/host_report.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <new>

#include "exec/cuda/device.hpp"

namespace trunkline::cuda {

HostReport::HostReport() {
  void* host = nullptr;
  void* device = nullptr;
  check_cuda(cudaHostAlloc(&host, sizeof(CudaPlanReport), cudaHostAllocMapped), "cudaHostAlloc for the plan report");
  const cudaError_t error = cudaHostGetDevicePointer(&device, host, 0);
  if (error != cudaSuccess) cudaFreeHost(host);
  check_cuda(error, "cudaHostGetDevicePointer");
  host_ = new (host) CudaPlanReport;
  on_device_ = static_cast<CudaPlanReport*>(device);
}

HostReport::~HostReport() {
  cudaFreeHost(host_);
}

CudaPlanReport HostReport::read() const {
  std::atomic_thread_fence(std::memory_order_acquire);  // orders the read after the device's writes so far
  return *host_;
}

}  // namespace trunkline::cuda
