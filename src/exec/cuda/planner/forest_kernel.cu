#include "exec/cuda/planner/forest_kernel.cuh"

#include "exec/cuda/planner/block_team.cuh"
#include "exec/cuda/planner/cluster_planner.hpp"
#include "exec/cuda/planner/look_kernel.hpp"
#include "exec/cuda/planner/team_launch.hpp"

namespace trunkline::cuda {
namespace {

__global__ void __launch_bounds__(kPlannerThreads, 1) forest_kernel(const __grid_constant__ ForestArgs args) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ BlockTeam::Scratch scratch;
  BlockTeam team(scratch);
  std::byte* const memory = args.scratch != nullptr ? args.scratch : &shared[0];
  run_forest(team, args, memory, memory, NothingBeside());
}

}  // namespace

std::size_t forest_shared_bytes(const ForestArgs& args) {
  return args.scratch != nullptr ? 0 : ForestPhaseMemory(nullptr, args.batch.rows).bytes;
}

std::size_t forest_scratch_bytes(std::int32_t rows) {
  const std::size_t bytes = ForestPhaseMemory(nullptr, rows).bytes;
  return bytes <= team_shared_limit() ? 0 : bytes;
}

cudaError_t launch_forest(const ForestArgs& args, bool cluster, cudaStream_t stream) {
  if (args.batch.rows < 0 || args.batch.rows > kMaxTeamRows) return cudaErrorInvalidValue;
  if (cluster) return launch_cluster(&args, nullptr, stream);
  if (looks_at_rows(args.batch, args.steady)) {
    const cudaError_t error = launch_look(args.batch, args.steady, 1, stream);
    if (error != cudaSuccess) return error;
  }
  const TeamLaunch launch{.kernel = reinterpret_cast<const void*>(&forest_kernel),
                          .blocks = 1,
                          .threads = kPlannerThreads,
                          .shared_bytes = forest_shared_bytes(args)};
  ForestArgs copy = args;
  void* parameters[] = {&copy};
  return launch_team(launch, parameters, stream);
}

}  // namespace trunkline::cuda
