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

/// What planning asks of a forest and its requests again and again, in a block's own memory, where that takes a tenth
/// of what L2 takes.
struct NearForest {
  ForestNode* nodes;
  std::int32_t* order;
  std::int32_t* node;
  std::int32_t* query_begin;

  /// \return bytes \param base aligned to 16 bytes; null: counts only \param memory whose lists of requests come after
  static __host__ __device__ std::size_t lay_out(std::byte* base, NearForest& forest, PlanMemory& memory) {
    const std::int64_t rows = memory.rows;
    TeamMemory own(base);
    forest.nodes = own.take<ForestNode>(2 * rows);
    forest.order = own.take<std::int32_t>(rows);
    forest.node = own.take<std::int32_t>(rows);
    forest.query_begin = own.take<std::int32_t>(rows + 1);
    memory.keep_near(own);
    return own.bytes();
  }
  /// By all threads of a block: what is read first by each is on its way together.
  __device__ void copy(const TeamForest& from, std::int32_t node_count) const {
    constexpr std::int32_t kWords = sizeof(ForestNode) / sizeof(uint4);
    const auto* const node_words = reinterpret_cast<const uint4*>(from.nodes);
    auto* const near_words = reinterpret_cast<uint4*>(nodes);
    const std::int32_t words = kWords * node_count;
    const auto first = static_cast<std::int32_t>(threadIdx.x);
    const auto step = static_cast<std::int32_t>(blockDim.x);
    for (std::int32_t i = first; i < most(words, from.rows + 1); i += step) {
      const uint4 word = i < words ? node_words[i] : uint4{};
      const std::int32_t row = i < from.rows ? from.order[i] : 0;
      const std::int32_t its_node = i < from.rows ? from.node[i] : 0;
      const std::int32_t begin = i <= from.rows ? from.query_begin[i] : 0;
      if (i < words) near_words[i] = word;
      if (i < from.rows) order[i] = row;
      if (i < from.rows) node[i] = its_node;
      if (i <= from.rows) query_begin[i] = begin;
    }
  }
};

/// What all threads of a block are told, in its shared memory: there it takes no registers, and is near.
template <class Team>
struct BlockTask {
  __device__ BlockTask(const Team& its_team, const PlanArgs& args, std::int32_t histograms, std::byte* shared)
      : team(its_team), forest(args.forest), task{machine.get(), forest, memory.get(), block} {
    near_memory = shared + block.lay_out(shared, args.memory.rows, histograms);
  }
  __device__ void take(const ForestPhaseResult& found) {
    forest.node_count = found.node_count;
    forest.total_tokens = found.total_tokens;
    forest.distinct_tokens = found.distinct_tokens;
    faults = found.faults;
  }
  __device__ void take_near() {
    forest.nodes = near.nodes;
    forest.order = near.order;
    forest.node = near.node;
    forest.query_begin = near.query_begin;
  }

  Team team;
  TeamForest forest;
  NearForest near;
  TeamFaults faults;
  std::uint64_t steps;  ///< planned before
  std::byte* near_memory;
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

/// By one thread. \param status, faults near: a read from afar would be waited for at each store, as it might be of
/// what was stored before
__device__ inline void tell_plan(const TeamPlanStatus& status, const TeamFaults& faults, std::uint64_t steps,
                                 CudaPlanReport& report) {
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

/// What a launch has decided of a planning block's memory.
struct PlanRoom {
  std::int32_t histograms;  ///< BlockMemory's
  bool near;                ///< there is a NearForest behind it
  std::size_t bytes;        ///< of both
};

/// A block's part in making a plan, in three steps, each by all of its threads.
template <class Team>
class PlanningBlock {
 public:
  /// \param task room for a BlockTask, in shared memory \param shared of the block, as `room` has it
  __device__ PlanningBlock(const PlanArgs& args, const PlanRoom& room, std::byte* task, std::byte* shared)
      : args_(args), room_(room), told_(*reinterpret_cast<BlockTask<Team>*>(task)), shared_(shared) {}

  /// What needs nothing of the forest, nor the shared memory.
  __device__ void tell(const Team& team) const {
    if (threadIdx.x == 0) new (&told_) BlockTask<Team>(team, args_, room_.histograms, shared_);
    __syncthreads();
    BlockTask<Team>& told = *Team::forgotten(&told_);
    told.memory.copy(args_.memory);
    told.lists.copy(args_.lists);
    told.machine.copy(*args_.machine);
    __syncthreads();
    if (room_.near && threadIdx.x == 0) NearForest::lay_out(told.near_memory, told.near, told.memory.get());
  }
  /// What needs the shared memory, too.
  __device__ void begin() const {
    BlockTask<Team>& told = *Team::forgotten(&told_);
    told.team.own([&told](auto& block, bool) { told.block.begin(block); });
  }
  __device__ void plan() const {
    const PlanArgs& args = args_;
    BlockTask<Team>& told = *Team::forgotten(&told_);
    const ForestPhaseResult found = args.report->found;
    const std::uint64_t steps = args.told != nullptr ? args.steps[0] : 0;
    clear(args.counters);
    if (room_.near) told.near.copy(args.forest, found.node_count);
    if (threadIdx.x == 0) {
      told.take(found);
      told.steps = steps;
      if (room_.near) told.take_near();
    }
    __syncthreads();
    TeamPlanner(told.team, told.task, told.lists.get()).plan([&args, &told](const TeamPlanStatus& status) {
      if (args.kept_lists.counts != nullptr) {
        args.kept_lists.counts->planner = args.kept_lists.planner;
        *args.kept_lists.written = reinterpret_cast<std::uint64_t>(args.kept_lists.counts);
      }
      if (args.growth != nullptr) *args.growth = status.growth;
      if (args.told == nullptr) return;
      args.steps[0] = told.steps + 1;
      tell_plan(status, told.faults, told.steps + 1, *args.told);
    });
  }

 private:
  const PlanArgs& args_;
  const PlanRoom& room_;
  BlockTask<Team>& told_;
  std::byte* shared_;
};

/// How often a plan was kept: read ahead of what decides it.
class KeptCount {
 public:
  __device__ explicit KeptCount(const PlanArgs& args)
      : counts_(args.told != nullptr && blockIdx.x == 0 && threadIdx.x == 0), before_(counts_ ? args.steps[1] : 0) {}
  __device__ void add_one(const PlanArgs& args) const {
    if (counts_) args.told->kept = args.steps[1] = before_ + 1;
  }

 private:
  bool counts_;
  std::uint64_t before_;
};

/// \param limit bytes \return with as many ways to cut side by side as fit, and then what is near
inline PlanRoom plan_room(const PlanArgs& args, std::size_t limit) {
  const std::int32_t rows = args.memory.rows;
  BlockMemory memory{};
  PlanRoom room{.histograms = BlockMemory::kTries, .near = false, .bytes = 0};
  room.bytes = memory.lay_out(nullptr, rows, room.histograms);
  while (room.histograms > 1 && room.bytes > limit) room.bytes = memory.lay_out(nullptr, rows, --room.histograms);
  NearForest near_forest;
  PlanMemory near_memory = args.memory;
  const std::size_t near_bytes = NearForest::lay_out(nullptr, near_forest, near_memory);
  room.near = room.bytes + near_bytes <= limit;
  if (room.near) room.bytes += near_bytes;
  return room;
}

}  // namespace trunkline::cuda
