#include "exec/cuda/planner/team_launch.hpp"

namespace trunkline::cuda {

cudaError_t launch_team(const TeamLaunch& launch, void** parameters, cudaStream_t stream) {
  const cudaError_t error = cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(launch.shared_bytes));
  if (error != cudaSuccess) return error;
  if (launch.cluster) {
    const cudaError_t wide = cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (wide != cudaSuccess) return wide;
  }
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kPlannerBlocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(launch.cluster ? kPlannerBlocks : 1);
  config.blockDim = dim3(static_cast<unsigned>(launch.threads));
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = launch.cluster ? 1 : 0;
  return cudaLaunchKernelExC(&config, launch.kernel, parameters);
}

std::size_t shared_memory_beside(std::size_t bytes) {
  int device = 0;
  int most = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) return 0;
  const auto limit = static_cast<std::size_t>(most);
  return limit > bytes ? limit - bytes : 0;
}

}  // namespace trunkline::cuda
