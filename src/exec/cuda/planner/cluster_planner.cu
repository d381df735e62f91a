#include "exec/cuda/planner/cluster_planner.hpp"

#include "exec/cuda/planner/cluster_team.cuh"
#include "exec/cuda/planner/forest_kernel.cuh"
#include "exec/cuda/planner/look_kernel.hpp"
#include "exec/cuda/planner/plan_kernel.cuh"
#include "exec/cuda/planner/team_launch.hpp"

namespace trunkline::cuda {
namespace {

using ForestTeam = ClusterTeamOf<BlockTeamOf<false>>;
using PlanTeam = ClusterTeamOf<BlockTeamOf<true>>;

struct ClusterArgs {
  ForestArgs find;
  PlanArgs plan;
  PlanRoom room;
  bool finds;
  bool plans;
};

static_assert(kPlannerThreads == 32 * kMostBlocks);  // a warp tells each block (ClusterTeamOf::tell_all)

// While block 0 finds a forest by rounds, the others are ready to plan; so planning is led by one of them.
constexpr std::int32_t kPlanLead = 1;

/// What a block does for planning beside finding the forest.
struct PlanBeside {
  __device__ bool plans() const { return args.plans; }
  __device__ void settle() const {
    if (args.plans) block.settle();
  }
  __device__ bool has_near() const { return args.plans && args.room.near && args.find.scratch == nullptr; }
  __device__ NearForest near() const { return block.near(); }
  __device__ void take(const NearRow& row, bool alike) const { block.take(row, alike); }
  __device__ void take_hot(std::int64_t hot) const { block.take_hot(hot); }

  const ClusterArgs& args;
  const PlanningBlock<PlanTeam>& block;
};

/// Apart from the kernel, whose registers would not be enough for both.
__device__ __noinline__ FoundForest find_forest_of(const ClusterArgs& args, ForestTeam team,
                                                   PlanningBlock<PlanTeam> block, std::byte* own) {
  std::byte* const lead = args.find.scratch != nullptr ? own : team.of_lead(own);
  return run_forest(team, args.find, own, lead, PlanBeside{args, block});
}

__global__ void __launch_bounds__(kPlannerThreads, 1) planner_kernel(const __grid_constant__ ClusterArgs args) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ TeamScratch scratch;
  static_assert(sizeof(TeamScratch) + sizeof(BlockTask<PlanTeam>) + 32 <= kTeamStaticBytes);  // aligned to 16
  __shared__ __align__(16) std::byte task[sizeof(BlockTask<PlanTeam>)];
  const PlanningBlock<PlanTeam> block(args.plan, args.room, task, shared);
  std::byte* const own = args.find.scratch != nullptr ? args.find.scratch : &shared[0];
  FoundForest found = FoundForest::kAll;
  ForestTeam team(scratch);
  team.begin();
  // While rows are being looked at.
  if (args.plans) block.tell(PlanTeam(scratch, kPlanLead));
  if (args.finds) {
    found = find_forest_of(args, team, block, own);
  } else if (args.plan.report->kept != 0) {
    found = FoundForest::kKept;
  } else {  // no block writes to another before that runs
    team.arrive();
    if (args.plans) block.settle();
    team.wait();
  }
  if (!args.plans) return;
  if (found == FoundForest::kKept) return count_kept(args.plan);
  block.plan(found == FoundForest::kNear ? ForestPhaseMemory(own, args.find.batch.rows).result : nullptr);
}

}  // namespace

cudaError_t launch_cluster(const ForestArgs* find, const PlanArgs* plan, cudaStream_t stream,
                           std::int32_t most_blocks) {
  if (find != nullptr && (find->batch.rows < 0 || find->batch.rows > kMaxTeamRows)) return cudaErrorInvalidValue;
  if (plan != nullptr && !has_room(*plan)) return cudaErrorInvalidValue;
  ClusterArgs args{};
  std::size_t bytes = 0;
  const bool looks = find != nullptr && looks_at_rows(find->batch, find->steady);
  if (looks) {
    const cudaError_t error = launch_look(find->batch, find->steady, most_blocks, stream);
    if (error != cudaSuccess) return error;
  }
  if (find != nullptr) {
    args.find = *find;
    args.finds = true;
    bytes = forest_shared_bytes(*find);
  }
  if (plan != nullptr) {
    args.plan = *plan;
    args.plans = true;
    args.room = plan_room(*plan, bytes, team_shared_limit());
    bytes = args.room.bytes;
  }
  const TeamLaunch launch{.kernel = reinterpret_cast<const void*>(&planner_kernel),
                          .blocks = most_blocks,
                          .threads = kPlannerThreads,
                          .shared_bytes = bytes,
                          .early = looks};
  void* parameters[] = {&args};
  return launch_team(launch, parameters, stream);
}

}  // namespace trunkline::cuda
