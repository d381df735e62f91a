#include "exec/cuda/planner/plan_kernel.cuh"

#include "exec/cuda/planner/block_team.cuh"

namespace trunkline::cuda {
namespace {

using PlanTeam = BlockTeamOf<true>;

__global__ void __launch_bounds__(kPlanThreads, 1)
    plan_kernel(const __grid_constant__ PlanArgs args, std::int32_t histograms) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ TeamScratch scratch;
  __shared__ __align__(16) std::byte task[sizeof(BlockTask<PlanTeam>)];
  run_plan(PlanTeam(scratch), args, histograms, task, shared);
}

// What the kernels have in shared memory besides: a scratch and a task, with room to spare.
constexpr std::size_t kStaticBytes = 4096;

/// What a block of the current device may have; 0 where that cannot be asked.
std::size_t shared_memory_limit() {
  int device = 0;
  int bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) return 0;
  const auto limit = static_cast<std::size_t>(bytes);
  return limit > kStaticBytes ? limit - kStaticBytes : 0;
}

std::size_t block_bytes(std::int32_t rows, std::int32_t histograms) {
  BlockMemory memory{};
  return memory.lay_out(nullptr, rows, histograms);
}

}  // namespace

std::int32_t most_plan_rows() {
  const std::size_t limit = shared_memory_limit();
  const std::size_t fixed = block_bytes(0, 1);
  if (limit < fixed) return 0;
  const std::size_t row_bytes = (block_bytes(1024, 1) - fixed) / 1024 + 1;
  return static_cast<std::int32_t>((limit - fixed) / row_bytes);
}

cudaError_t launch_plan(const PlanArgs& args, bool cluster, cudaStream_t stream) {
  const std::int32_t rows = args.memory.rows;
  if (args.forest.rows < 0 || args.forest.rows > rows || rows > most_plan_rows()) return cudaErrorInvalidValue;
  // As many ways to cut side by side as fit.
  std::int32_t histograms = BlockMemory::kTries;
  while (histograms > 1 && block_bytes(rows, histograms) > shared_memory_limit()) --histograms;
  const std::size_t bytes = block_bytes(rows, histograms);
  const void* kernel = cluster ? cluster_plan_kernel() : reinterpret_cast<const void*>(&plan_kernel);
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kPlannerBlocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(cluster ? kPlannerBlocks : 1);
  config.blockDim = dim3(kPlanThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = cluster ? 1 : 0;
  PlanArgs copy = args;
  void* parameters[] = {&copy, &histograms};
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

}  // namespace trunkline::cuda
