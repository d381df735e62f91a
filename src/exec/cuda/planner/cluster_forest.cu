#include "exec/cuda/planner/cluster_team.cuh"
#include "exec/cuda/planner/forest_kernel.cuh"

namespace trunkline::cuda {
namespace {

__global__ void __launch_bounds__(kPlannerThreads) forest_kernel(const __grid_constant__ ForestArgs args) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ BlockTeam::Scratch scratch;
  ClusterTeam team(scratch);
  std::byte* const own = args.scratch != nullptr ? args.scratch : &shared[0];
  run_forest(team, args, own, args.scratch != nullptr ? own : team.of_lead(own));
}

}  // namespace

const void* cluster_forest_kernel() {
  return reinterpret_cast<const void*>(&forest_kernel);
}

}  // namespace trunkline::cuda
