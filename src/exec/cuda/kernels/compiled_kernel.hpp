// A forward kernel as the host sees it: what it takes on each device, and its launch.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "trunkline/types.hpp"

namespace trunkline::cuda {

/// What one kernel takes on the present device.
struct KernelFacts {
  TileShape tile;  ///< 0 x 0: a kernel of all tiles in one
  int threads;
  int registers;
  std::size_t shared_bytes;  ///< static and dynamic
  std::size_t local_bytes;   ///< a thread's stack: not 0 where registers spill
  int ctas_per_sm;
};

/// Thread-safe, as all processes' executors use the same.
class CompiledKernel {
 public:
  /// \param shared_bytes dynamic
  CompiledKernel(const void* function, int threads, std::size_t shared_bytes)
      : function_(function), threads_(threads), shared_bytes_(shared_bytes) {}

  /// Dynamic.
  std::size_t shared_bytes() const { return shared_bytes_; }
  /// Whether the present device has machine code for it, and shared memory and registers for one CTA.
  bool runs_here();
  /// On the present device. \return what CUDA said where it cannot run there.
  cudaError_t facts(TileShape tile, KernelFacts& facts);
  /// As many CTAs as the present device, of `sms` multiprocessors, holds at once.
  /// \param parameters pointers to the kernel's, in order
  /// \param early while the kernel before still ends: the kernel must wait for it before it reads memory
  cudaError_t launch(void** parameters, std::int32_t sms, bool early, cudaStream_t stream);

 private:
  static constexpr int kMaxDevices = 64;

  /// Found out once, as asking takes longer than launching.
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
