#include "exec/cuda/planner/forest_kernel.cuh"

#include "exec/cuda/planner/block_team.cuh"

namespace trunkline::cuda {
namespace {

__global__ void __launch_bounds__(kPlannerThreads) forest_kernel(const __grid_constant__ ForestArgs args) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ BlockTeam::Scratch scratch;
  BlockTeam team(scratch);
  run_forest(team, args, args.scratch != nullptr ? args.scratch : shared);
}

// Of a team itself, with what alignment may add.
constexpr std::size_t kTeamBytes = sizeof(BlockTeam::Scratch) + 16;

/// What a block of the current device may have besides the team's own; 0 where that cannot be asked.
std::size_t shared_memory_limit() {
  int device = 0;
  int bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) return 0;
  const auto limit = static_cast<std::size_t>(bytes);
  return limit > kTeamBytes ? limit - kTeamBytes : 0;
}

}  // namespace

std::size_t forest_scratch_bytes(std::int32_t rows) {
  const std::size_t bytes = ForestPhaseMemory(nullptr, rows).bytes;
  return bytes <= shared_memory_limit() ? 0 : bytes;
}

cudaError_t launch_forest(const ForestArgs& args, bool cluster, cudaStream_t stream) {
  if (args.batch.rows < 0 || args.batch.rows > kMaxTeamRows) return cudaErrorInvalidValue;
  const void* kernel = cluster ? cluster_forest_kernel() : reinterpret_cast<const void*>(&forest_kernel);
  const std::size_t bytes = args.scratch != nullptr ? 0 : ForestPhaseMemory(nullptr, args.batch.rows).bytes;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kPlannerBlocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(cluster ? kPlannerBlocks : 1);
  config.blockDim = dim3(kPlannerThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = cluster ? 1 : 0;
  ForestArgs copy = args;
  void* parameters[] = {&copy};
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

}  // namespace trunkline::cuda
