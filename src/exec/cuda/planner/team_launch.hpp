// How kernels that plan are launched: by one block, or on Hopper by a cluster.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace trunkline::cuda {

/// Blocks of a planning cluster at most.
inline constexpr std::int32_t kMostBlocks = 16;
/// What every device with clusters has.
inline constexpr std::int32_t kPortableBlocks = 8;

struct TeamLaunch {
  const void* kernel;
  std::int32_t blocks;  ///< of a cluster at most: where the device has no room for kMostBlocks it has kPortableBlocks;
                        ///< 1: no cluster
  std::int32_t threads;
  std::size_t shared_bytes;
  std::int32_t least_blocks = 1;  ///< in all; clusters are as many as that takes
  bool early = false;  ///< its blocks may come while the kernel before runs, and wait for it (wait_for_kernel_before)
};

/// \param parameters of the kernel, as cudaLaunchKernelExC has them
cudaError_t launch_team(const TeamLaunch& launch, void** parameters, cudaStream_t stream);

/// What planning kernels have in static shared memory at most, with what alignment may add.
inline constexpr std::size_t kTeamStaticBytes = 4096;
/// Bytes that a block of the current device may have beside it; 0 where that cannot be asked.
std::size_t team_shared_limit();

}  // namespace trunkline::cuda
