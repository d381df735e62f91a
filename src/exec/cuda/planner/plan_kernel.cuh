// What both kernels that plan do, whatever their team.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "exec/cuda/planner/plan_kernel.hpp"
#include "plan/team/team_plan.hpp"

namespace trunkline::cuda {

/// What the kernels have in shared memory beside BlockMemory, at most.
inline constexpr std::size_t kPlanStaticBytes = 4096;

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
    block.lay_out(shared, args.memory.rows, histograms);
  }
  __device__ void take_counts(const ForestPhaseResult& found) {
    forest.node_count = found.node_count;
    forest.total_tokens = found.total_tokens;
    forest.distinct_tokens = found.distinct_tokens;
  }

  Team team;
  TeamForest forest;
  BlockMemory block;
  CopiedWords<PlanMemory> memory;
  CopiedWords<PlanLists> lists;
  CopiedWords<TeamMachine> machine;
  PlanTask task;
};

/// By all threads.
__device__ inline void clear(const LaunchCounters& counters) {
  const auto first = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  const auto stride = static_cast<std::int32_t>(gridDim.x * blockDim.x);
  for (std::int32_t i = first; i < counters.queue_words; i += stride) counters.queues[i] = 0;
  for (std::int32_t i = first; i < counters.arrived_words; i += stride) counters.arrived[i] = 0;
}

/// By one thread.
__device__ inline void tell_plan(const PlanArgs& args, std::uint64_t steps) {
  const TeamPlanStatus& status = *args.memory.status;
  const TeamFaults& faults = args.report->found.faults;
  CudaPlanReport& report = *args.told;
  report.planned = steps;
  report.kv_tokens_total = status.total_tokens;
  report.kv_tokens_distinct = status.distinct_tokens;
  report.kv_tokens_read = status.read_tokens;
  report.items = status.items;
  report.spans = status.spans;
  report.partials = status.partials;
  report.fallbacks = status.fallbacks;
  report.unplanned = status.unplanned;
  report.bad_lengths = faults.lengths;
  report.first_bad_length = faults.first_length;
  report.bad_length = faults.length;
  report.bad_queries = faults.queries;
  report.first_bad_queries = faults.first_queries;
  report.bad_query_start = faults.query_start;
}

/// \param task room for a BlockTask, in shared memory \param shared of the block, BlockMemory's for so many histograms
template <class Team>
__device__ __forceinline__ void run_plan(const Team& team, const PlanArgs& args, std::int32_t histograms,
                                         std::byte* task, std::byte* shared) {
  // What needs nothing of the forest: done while that is being found.
  if (threadIdx.x == 0) new (task) BlockTask<Team>(team, args, histograms, shared);
  __syncthreads();
  BlockTask<Team>& told = *Team::forgotten(reinterpret_cast<BlockTask<Team>*>(task));
  told.memory.copy(args.memory);
  told.lists.copy(args.lists);
  told.machine.copy(*args.machine);
  told.team.own([&told](auto& block, bool) { told.block.begin(block); });
  team.wait_for_last();
  const ForestPhaseResult found = args.report->found;  // read at once with what is asked first
  if (args.report->kept != 0) {
    if (args.told != nullptr && blockIdx.x == 0 && threadIdx.x == 0) args.told->kept = ++args.steps[1];
    return;
  }
  clear(args.counters);
  if (threadIdx.x == 0) told.take_counts(found);
  __syncthreads();
  TeamPlanner(told.team, told.task, told.lists.get()).plan([&args] {
    if (args.kept_lists.counts != nullptr) {
      args.kept_lists.counts->planner = args.kept_lists.planner;
      *args.kept_lists.written = reinterpret_cast<std::uint64_t>(args.kept_lists.counts);
    }
    if (args.growth != nullptr) *args.growth = args.memory.status->growth;
    if (args.told != nullptr) tell_plan(args, ++args.steps[0]);
  });
}

/// The same kernel for clusters, which is compiled for devices that have them.
const void* cluster_plan_kernel();

}  // namespace trunkline::cuda
