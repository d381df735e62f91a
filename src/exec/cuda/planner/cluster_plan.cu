#include "exec/cuda/planner/cluster_team.cuh"
#include "exec/cuda/planner/plan_kernel.cuh"

namespace trunkline::cuda {
namespace {

using PlanTeam = ClusterTeamOf<BlockTeamOf<true>>;

__global__ void __launch_bounds__(kPlanThreads, 1)
    plan_kernel(const __grid_constant__ PlanArgs args, std::int32_t histograms, bool near) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ TeamScratch scratch;
  static_assert(sizeof(TeamScratch) + sizeof(BlockTask<PlanTeam>) + 32 <= kPlanStaticBytes);  // aligned to 16
  __shared__ __align__(16) std::byte task[sizeof(BlockTask<PlanTeam>)];
  run_plan(PlanTeam(scratch), args, histograms, near, task, shared);
}

}  // namespace

const void* cluster_plan_kernel() {
  return reinterpret_cast<const void*>(&plan_kernel);
}

}  // namespace trunkline::cuda
