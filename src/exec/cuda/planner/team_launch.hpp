// How kernels that plan are launched: by one block, or on Hopper by a cluster.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace trunkline::cuda {

/// Blocks of a cluster: the most that every device with clusters has.
inline constexpr std::int32_t kPlannerBlocks = 16;

struct TeamLaunch {
  const void* kernel;
  bool cluster;  ///< kPlannerBlocks blocks, else one
  std::int32_t threads;
  std::size_t shared_bytes;
};

/// \param parameters of the kernel, as cudaLaunchKernelExC has them
cudaError_t launch_team(const TeamLaunch& launch, void** parameters, cudaStream_t stream);

/// What a block of the current device may have beside so much; 0 where that cannot be asked.
std::size_t shared_memory_beside(std::size_t bytes);

}  // namespace trunkline::cuda
