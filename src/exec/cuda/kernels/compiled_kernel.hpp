// A compiled forward kernel: its resources on each device, and its launch.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda {

/// Resources of a kernel on the present device.
struct KernelFacts {
  int threads;
  int registers;
  std::size_t shared_bytes;  ///< static and dynamic
  std::size_t local_bytes;   ///< a thread's stack: not 0 where registers spill
  int ctas_per_sm;
};

/// A kernel, shared by all executors of the process. Thread-safe.
class CompiledKernel {
 public:
  /// \param shared_bytes dynamic
  CompiledKernel(const void* function, int threads, std::size_t shared_bytes)
      : function_(function), threads_(threads), shared_bytes_(shared_bytes) {}

  /// Returns the dynamic shared memory of a CTA.
  std::size_t shared_bytes() const { return shared_bytes_; }
  /// Whether the present device can run it: it has machine code for it, and shared memory and registers for one CTA.
  bool runs_here();
  /// Returns the resources on the present device. \return CUDA's error if the device cannot run it
  cudaError_t facts(KernelFacts& facts);
  /// Launches as many CTAs as the present device, with `sms` multiprocessors, holds at once.
  /// \param parameters pointers to the kernel's parameters, in order
  /// \param early programmatic dependent launch: the kernel must wait for its predecessor before it reads memory
  cudaError_t launch(void** parameters, std::int32_t sms, bool early, cudaStream_t stream);

 private:
  static constexpr int kMaxDevices = 64;

  /// Facts of a device, queried once, as a query takes longer than a launch.
  struct OnDevice {
    std::once_flag once;
    cudaError_t error = cudaSuccess;
    int ctas_per_sm = 0;
  };

  cudaError_t prepare(OnDevice& on) const;
  cudaError_t present_device(OnDevice** on);

  const void* function_;
  int threads_;
  std::size_t shared_bytes_;
  std::array<OnDevice, kMaxDevices> devices_;
};

}  // namespace trunkline::cuda
