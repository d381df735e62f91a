#include "exec/cuda/planner/plan_kernel.cuh"

#include "exec/cuda/planner/block_team.cuh"
#include "exec/cuda/planner/team_launch.hpp"

namespace trunkline::cuda {
namespace {

using PlanTeam = BlockTeamOf<true>;

__global__ void __launch_bounds__(kPlanThreads, 1)
    plan_kernel(const __grid_constant__ PlanArgs args, std::int32_t histograms, bool near) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ TeamScratch scratch;
  static_assert(sizeof(TeamScratch) + sizeof(BlockTask<PlanTeam>) + 32 <= kPlanStaticBytes);  // aligned to 16
  __shared__ __align__(16) std::byte task[sizeof(BlockTask<PlanTeam>)];
  run_plan(PlanTeam(scratch), args, histograms, near, task, shared);
}

std::size_t shared_memory_limit() {
  return shared_memory_beside(kPlanStaticBytes);
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
  std::size_t bytes = block_bytes(rows, histograms);
  NearForest near_forest;
  PlanMemory near_memory = args.memory;
  const std::size_t near_bytes = NearForest::lay_out(nullptr, near_forest, near_memory);
  bool near = bytes + near_bytes <= shared_memory_limit();
  if (near) bytes += near_bytes;
  const void* kernel = cluster ? cluster_plan_kernel() : reinterpret_cast<const void*>(&plan_kernel);
  // What it needs no forest for comes first.
  const TeamLaunch launch{
      .kernel = kernel, .cluster = cluster, .early = true, .threads = kPlanThreads, .shared_bytes = bytes};
  PlanArgs copy = args;
  void* parameters[] = {&copy, &histograms, &near};
  return launch_team(launch, parameters, stream);
}

}  // namespace trunkline::cuda
