#include "exec/cuda/planner/cluster_team.cuh"
#include "exec/cuda/planner/forest_kernel.cuh"

namespace trunkline::cuda {
namespace {

__global__ void __launch_bounds__(kPlannerThreads) forest_kernel(const __grid_constant__ ForestArgs args) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ BlockTeam::Scratch scratch;
  ClusterTeam team(scratch);
  team.arrive();
  run_forest(team, args, args.scratch != nullptr ? args.scratch : team.of_lead(&shared[0]));
}

}  // namespace

const void* cluster_forest_kernel() {
  return reinterpret_cast<const void*>(&forest_kernel);
}

}  // namespace trunkline::cuda
