#include "exec/cuda/planner/team_launch.hpp"

#include <array>
#include <atomic>

#include "base/host_device.hpp"

namespace trunkline::cuda {
namespace {

/// A launch and what it points to.
struct TeamConfig {
  TeamConfig(const TeamLaunch& launch, std::int32_t blocks, cudaStream_t stream) {
    if (launch.blocks > 1) add(cudaLaunchAttributeClusterDimension).clusterDim = {static_cast<unsigned>(blocks), 1, 1};
    if (launch.early)
      add(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3(static_cast<unsigned>(ceil_div(launch.least_blocks, blocks) * blocks));
    config.blockDim = dim3(static_cast<unsigned>(launch.threads));
    config.dynamicSmemBytes = launch.shared_bytes;
    config.stream = stream;
    config.attrs = attributes.data();
  }
  TeamConfig(const TeamConfig&) = delete;
  TeamConfig& operator=(const TeamConfig&) = delete;

  cudaLaunchAttributeValue& add(cudaLaunchAttributeID id) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = id;
    return attribute.val;
  }

  std::array<cudaLaunchAttribute, 2> attributes{};
  cudaLaunchConfig_t config{};
};

/// Whether some GPC of the current device has a multiprocessor for each of kMostBlocks blocks.
bool has_room_for_most(const TeamLaunch& launch) {
  TeamLaunch of_most = launch;
  of_most.shared_bytes = team_shared_limit();
  const TeamConfig largest(of_most, kMostBlocks, nullptr);
  int clusters = 0;
  const bool known = cudaOccupancyMaxActiveClusters(&clusters, launch.kernel, &largest.config) == cudaSuccess;
  if (!known) cudaGetLastError();
  return known && clusters > 0;
}

/// Asked once for each device, as it takes as long as a launch, whatever the kernel: all have as many threads.
std::int32_t blocks_for(const TeamLaunch& launch) {
  if (launch.blocks <= kPortableBlocks) return launch.blocks;
  static std::array<std::atomic<std::int32_t>, 64> known{};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return kPortableBlocks;
  const auto slot = static_cast<std::size_t>(device);
  std::int32_t blocks = slot < known.size() ? known[slot].load() : 0;
  if (blocks == 0) blocks = has_room_for_most(launch) ? kMostBlocks : kPortableBlocks;
  if (slot < known.size()) known[slot].store(blocks);
  return blocks;
}

}  // namespace

cudaError_t launch_team(const TeamLaunch& launch, void** parameters, cudaStream_t stream) {
  // The same for all launches of a kernel, so that threads which launch at once do not take each other's.
  cudaError_t error = cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(team_shared_limit()));
  if (error == cudaSuccess && launch.blocks > kPortableBlocks) {
    error = cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  if (error != cudaSuccess) return error;
  const TeamConfig team(launch, blocks_for(launch), stream);
  return cudaLaunchKernelExC(&team.config, launch.kernel, parameters);
}

std::size_t team_shared_limit() {
  int device = 0;
  int most = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) return 0;
  const auto limit = static_cast<std::size_t>(most);
  return limit > kTeamStaticBytes ? limit - kTeamStaticBytes : 0;
}

}  // namespace trunkline::cuda
