#include "exec/cuda/planner/plan_kernel.cuh"

#include "exec/cuda/planner/block_team.cuh"
#include "exec/cuda/planner/cluster_planner.hpp"
#include "exec/cuda/planner/team_launch.hpp"

namespace trunkline::cuda {
namespace {

using PlanTeam = BlockTeamOf<true>;

__global__ void __launch_bounds__(kPlannerThreads, 1)
    plan_kernel(const __grid_constant__ PlanArgs args, const __grid_constant__ PlanRoom room) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ TeamScratch scratch;
  static_assert(sizeof(TeamScratch) + sizeof(BlockTask<PlanTeam>) + 32 <= kTeamStaticBytes);  // aligned to 16
  __shared__ __align__(16) std::byte task[sizeof(BlockTask<PlanTeam>)];
  if (args.report->kept != 0) return count_kept(args);
  const PlanningBlock<PlanTeam> block(args, room, task, shared);
  block.tell(PlanTeam(scratch));
  block.settle();
  block.plan(nullptr);
}

std::size_t block_bytes(std::int32_t rows, std::int32_t histograms) {
  BlockMemory memory{};
  TeamMemory counted(nullptr);
  memory.lay_out(counted, counted, rows, histograms);
  return counted.bytes();
}

}  // namespace

std::int32_t most_plan_rows() {
  const std::size_t limit = team_shared_limit();
  std::int32_t most_rows = 0;
  for (std::int32_t step = kMaxTeamRows / 2 + 1; step > 0; step /= 2) {
    if (block_bytes(most_rows + step, 1) <= limit) most_rows += step;
  }
  return most_rows;
}

bool has_room(const PlanArgs& args) {
  const std::int32_t rows = args.memory.rows;
  return args.forest.rows >= 0 && args.forest.rows <= rows && rows <= most_plan_rows();
}

cudaError_t launch_plan(const PlanArgs& args, bool cluster, cudaStream_t stream) {
  if (!has_room(args)) return cudaErrorInvalidValue;
  if (cluster) return launch_cluster(nullptr, &args, stream);
  PlanRoom room = plan_room(args, 0, team_shared_limit());
  const TeamLaunch launch{.kernel = reinterpret_cast<const void*>(&plan_kernel),
                          .blocks = 1,
                          .threads = kPlannerThreads,
                          .shared_bytes = room.bytes};
  PlanArgs copy = args;
  void* parameters[] = {&copy, &room};
  return launch_team(launch, parameters, stream);
}

}  // namespace trunkline::cuda
