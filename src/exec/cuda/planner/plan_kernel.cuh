// What both kernels that plan do, whatever their team.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "exec/cuda/planner/plan_kernel.hpp"
#include "plan/team/team_plan.hpp"

namespace trunkline::cuda {

/// Room for something that is copied word by word, by all threads of a block.
template <class T>
class CopiedWords {
 public:
  __device__ T& get() { return *reinterpret_cast<T*>(words_); }
  __device__ void copy(const T& from) {
    for (std::size_t i = threadIdx.x; i < kWords; i += blockDim.x) {
      words_[i] = reinterpret_cast<const std::uint32_t*>(&from)[i];
    }
  }

 private:
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint32_t) == 0);
  static constexpr std::size_t kWords = sizeof(T) / sizeof(std::uint32_t);

  alignas(T) std::uint32_t words_[kWords];
};

/// What all threads of a block are told, in its shared memory: there it takes no registers, and is near.
template <class Team>
struct BlockTask {
  __device__ BlockTask(const Team& its_team, const PlanArgs& args, std::int32_t histograms, std::byte* shared)
      : team(its_team), forest(args.forest), task{machine.get(), forest, memory.get(), block} {
    forest.node_count = args.report->found.node_count;
    forest.total_tokens = args.report->found.total_tokens;
    forest.distinct_tokens = args.report->found.distinct_tokens;
    block.lay_out(shared, args.memory.rows, histograms);
  }

  Team team;
  TeamForest forest;
  BlockMemory block;
  CopiedWords<PlanMemory> memory;
  CopiedWords<PlanLists> lists;
  CopiedWords<TeamMachine> machine;
  PlanTask task;
};

/// \param task room for a BlockTask, in shared memory \param shared of the block, BlockMemory's for so many histograms
template <class Team>
__device__ __forceinline__ void run_plan(const Team& team, const PlanArgs& args, std::int32_t histograms,
                                         std::byte* task, std::byte* shared) {
  if (args.report->kept != 0) return;
  if (threadIdx.x == 0) new (task) BlockTask<Team>(team, args, histograms, shared);
  __syncthreads();
  BlockTask<Team>& told = *Team::forgotten(reinterpret_cast<BlockTask<Team>*>(task));
  told.memory.copy(args.memory);
  told.lists.copy(args.lists);
  told.machine.copy(*args.machine);
  __syncthreads();
  TeamPlanner(told.team, told.task, told.lists.get()).plan();
}

/// The same kernel for clusters, which is compiled for devices that have them.
const void* cluster_plan_kernel();

}  // namespace trunkline::cuda
