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
  static_assert(sizeof(TeamScratch) + sizeof(BlockTask<PlanTeam>) + 32 <= kPlanStaticBytes);  // aligned to 16
  __shared__ __align__(16) std::byte task[sizeof(BlockTask<PlanTeam>)];
  if (args.report->kept != 0) return KeptCount(args).add_one(args);
  const PlanningBlock<PlanTeam> block(args, room, task, shared);
  block.tell(PlanTeam(scratch));
  block.begin();
  block.plan();
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
  if (cluster) return launch_cluster(nullptr, &args, stream);
  PlanRoom room = plan_room(args, shared_memory_limit());
  const TeamLaunch launch{.kernel = reinterpret_cast<const void*>(&plan_kernel),
                          .blocks = 1,
                          .threads = kPlannerThreads,
                          .shared_bytes = room.bytes};
  PlanArgs copy = args;
  void* parameters[] = {&copy, &room};
  return launch_team(launch, parameters, stream);
}

}  // namespace trunkline::cuda
