// What both kernels that plan do, whatever their team.
#pragma once

#include <cstddef>
#include <new>

#include "exec/cuda/planner/plan_kernel.hpp"
#include "plan/team/team_plan.hpp"

namespace trunkline::cuda {

/// What all threads of a block are told, in its shared memory: there it takes no registers.
template <class Team>
struct BlockTask {
  __device__ BlockTask(const Team& its_team, const PlanArgs& args, std::int32_t histograms, std::byte* shared)
      : team(its_team), forest(args.forest), task{*args.machine, forest, args.memory, block} {
    forest.node_count = args.result->node_count;
    forest.total_tokens = args.result->total_tokens;
    forest.distinct_tokens = args.result->distinct_tokens;
    block.lay_out(shared, args.memory.rows, histograms);
  }

  Team team;
  TeamForest forest;
  BlockMemory block;
  PlanTask task;
};

/// \param task room for a BlockTask, in shared memory \param shared of the block, BlockMemory's for so many histograms
template <class Team>
__device__ __forceinline__ void run_plan(const Team& team, const PlanArgs& args, std::int32_t histograms,
                                         std::byte* task, std::byte* shared) {
  if (threadIdx.x == 0) new (task) BlockTask<Team>(team, args, histograms, shared);
  __syncthreads();
  BlockTask<Team>& told = *reinterpret_cast<BlockTask<Team>*>(task);
  TeamPlanner(told.team, told.task, args.lists).plan();
}

/// The same kernel for clusters, which is compiled for devices that have them.
const void* cluster_plan_kernel();

}  // namespace trunkline::cuda
