// What both kernels that plan do, whatever their team.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "exec/cuda/planner/plan_kernel.hpp"
#include "plan/team/alike_requests.hpp"
#include "plan/team/near_forest.hpp"
#include "plan/team/plan_sketch.hpp"
#include "plan/team/team_plan.hpp"

namespace trunkline::cuda {

/// Room for something that is copied part by part, by some threads of a block.
template <class T>
class CopiedWords {
 public:
  __device__ T& get() { return *reinterpret_cast<T*>(words_); }
  /// What was a parameter of the kernel, of which each part is read by itself. \param thread of those that copy
  __device__ void copy(const T& from, std::int32_t thread, std::int32_t threads) {
#pragma unroll 1
    for (std::int32_t i = thread; i < kParts; i += threads) {
      reinterpret_cast<uint2*>(words_)[i] = reinterpret_cast<const uint2*>(&from)[i];
    }
  }
  /// What is in device memory, as copy_ahead().
  __device__ void copy_ahead_of(const T& from, std::int32_t thread, std::int32_t threads) {
#pragma unroll 1
    for (std::int32_t i = thread; i < kParts; i += threads) {
      copy_ahead<sizeof(uint2)>(reinterpret_cast<uint2*>(words_)[i], reinterpret_cast<const uint2*>(&from)[i]);
    }
  }

 private:
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) == sizeof(uint2));
  static constexpr auto kParts = static_cast<std::int32_t>(sizeof(T) / sizeof(uint2));

  alignas(16) std::uint32_t words_[sizeof(T) / sizeof(std::uint32_t)];
};

/// Rows that a block's own memory has room for: as many as the batch has, whatever room for more the planner has.
inline __host__ __device__ std::int32_t planned_rows(const PlanArgs& args) {
  return most(args.forest.rows, 1);
}

/// What a launch has decided of a planning block's shared memory.
struct PlanRoom {
  std::int32_t histograms;    ///< BlockMemory's
  bool near;                  ///< there is a NearForest: then only what is over may be where the forest is found
  std::uint32_t over_begin;   ///< of BlockMemory, but for what is apart
  std::uint32_t near_begin;   ///< keep_near()'s
  std::uint32_t apart_begin;  ///< BlockMemory's
  std::size_t bytes;          ///< of all, with where the forest is found
};

/// How many steps were planned, and kept, before.
struct PlanSteps {
  std::uint64_t planned;
  std::uint64_t kept;

  __device__ void copy_ahead_of(const std::uint64_t* steps) {
    copy_ahead<sizeof(std::uint64_t)>(planned, steps[0]);
    copy_ahead<sizeof(std::uint64_t)>(kept, steps[1]);
  }
};

/// What all threads of a block are told, in its shared memory: there it takes no registers, and is near.
template <class Team>
struct BlockTask {
  __device__ BlockTask(const Team& its_team, const PlanArgs& args, const PlanRoom& room, std::byte* shared)
      : team(its_team), forest(args.forest), task{machine.get(), forest, memory.get(),
                                                  args.memory,   block,  guess.get()} {
    TeamMemory apart(shared + room.apart_begin);
    TeamMemory over(shared + room.over_begin);
    block.lay_out(apart, over, planned_rows(args), room.histograms);
  }
  __device__ void take(const ForestPhaseResult& found) {
    forest.node_count = found.node_count;
    forest.total_tokens = found.total_tokens;
    forest.distinct_tokens = found.distinct_tokens;
    faults = found.faults;
  }
  Team team;
  TeamForest forest;
  TeamFaults faults;
  PlanSteps steps;
  CopiedWords<TileGuess> guess;
  BlockMemory block;
  CopiedWords<PlanMemory> memory;
  CopiedWords<PlanLists> lists;
  CopiedWords<TeamMachine> machine;
  PlanTask task;
};

/// Puts what each block has of requests behind its NearForest. \return bytes of both
/// \param base aligned to 16 bytes; null: counts only \param rows planned_rows()
inline __host__ __device__ std::size_t keep_near(std::byte* base, std::int32_t rows, PlanMemory& memory) {
  TeamMemory own(base);
  NearForest forest;
  forest.lay_out(own, rows);
  memory.keep_near(own, rows);
  return own.bytes();
}

__device__ inline void clear(const LaunchCounters& counters) {
  const auto first = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  const auto stride = static_cast<std::int32_t>(gridDim.x * blockDim.x);
#pragma unroll 1
  for (std::int32_t i = first; i < counters.queue_words; i += stride) counters.queues[i] = 0;
#pragma unroll 1
  for (std::int32_t i = first; i < counters.arrived_words; i += stride) counters.arrived[i] = 0;
}

/// By one thread. \param status, faults copies: a read behind a store would be waited for by itself, as it might be of
/// what was stored
__device__ inline void tell_plan(TeamPlanStatus status, TeamFaults faults, PlanSteps before, CudaPlanReport& report) {
  report.planned = before.planned + 1;
  report.reused = before.kept;
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

/// A block's part in making a plan, in three steps, each by all of its threads, which end with the last.
template <class Team>
class PlanningBlock {
 public:
  /// \param task room for a BlockTask, in shared memory \param shared of the block, as `room` has it
  __device__ PlanningBlock(const PlanArgs& args, const PlanRoom& room, std::byte* task, std::byte* shared)
      : args_(args), room_(room), told_(*reinterpret_cast<BlockTask<Team>*>(task)), shared_(shared) {}

  /// What needs nothing of the kernel that looks at rows, which may still run, nor of the forest, nor the shared memory
  /// but where that has something near. What is far is on its way then, until finish_copies().
  __device__ void tell(const Team& team) const {
    BlockTask<Team>& told = *Team::forgotten(&told_);
    const auto thread = static_cast<std::int32_t>(threadIdx.x);
    if (thread == 0) {
      new (&told_) BlockTask<Team>(team, args_, room_, shared_);
    } else if (thread >= kWarp) {
      const std::int32_t others = static_cast<std::int32_t>(blockDim.x) - kWarp;
      told.machine.copy_ahead_of(*args_.machine, thread - kWarp, others);
      if (thread == kWarp && args_.told != nullptr) told.steps.copy_ahead_of(args_.steps);
      told.guess.copy_ahead_of(*args_.memory.guess, others - 1 - (thread - kWarp), others);
      told.memory.copy(args_.memory, thread - kWarp, others);
      told.lists.copy(args_.lists, others - 1 - (thread - kWarp), others);
    }
  }
  /// Once the step is known to be planned.
  __device__ void settle() const {
    __syncthreads();
    if (!room_.near || threadIdx.x > 0) return;
    BlockTask<Team>& told = *Team::forgotten(&told_);
    keep_near(shared_ + room_.near_begin, planned_rows(args_), told.memory.get());
    told.block.begin();
  }
  /// Where a block has the forest near, if it does.
  __device__ NearForest near() const {
    TeamMemory memory(shared_ + room_.near_begin);
    NearForest forest;
    forest.lay_out(memory, planned_rows(args_));
    return forest;
  }
  /// Of a forest that is found near, as NothingBeside has it.
  __device__ void take(const NearRow& row, bool alike) const {
    AlikeRequests<Team>::take(Team::forgotten(&told_)->task, row, alike);
  }
  __device__ void take_hot(std::int64_t hot) const { told_.block.state->hot = hot; }
  /// \param near_found where the block has the forest near: of its first thread; null: it is where all see it
  __device__ void plan(const ForestPhaseResult* near_found) const {
    const PlanArgs& args = args_;
    BlockTask<Team>& told = *Team::forgotten(&told_);
    const ForestPhaseResult& found = near_found != nullptr ? *near_found : args.report->found;
    clear(args_.counters);
    if (room_.near && near_found == nullptr) {
      const std::int32_t nodes = found.node_count;
      const bool alike = found.unlike == 0;
      if (alike) __syncthreads();  // for where settle() has just put what is near
      told.team.own([&](auto& block, bool) {
        near().copy(block, args.forest, nodes, true);
        if (alike) AlikeRequests<std::decay_t<decltype(block)>>::copy(block, told.task, args.forest);
      });
    }
    if (threadIdx.x == 0) {
      told.take(found);
      const std::int32_t unlike = near_found != nullptr ? told.block.state->unlike : found.unlike;
      told.task.rows_told = room_.near && args.forest.rows > 0 && unlike == 0;
      if (near_found == nullptr) told.block.state->hot = found.hot_tokens;
      if (room_.near) {
        near().take_over(told.forest);
      } else {
        told.block.begin();
      }
    }
    finish_copies();
    __syncthreads();
    const bool sketched = PlanSketcher<Team>::may_make(told.team, told.task);
    TeamPlanner<Team>::plan(told.team, told.task, told.lists.get(), sketched,
                            [&args, &told](const TeamPlanStatus& status) {
                              if (args.kept_lists.counts != nullptr) {
                                args.kept_lists.counts->planner = args.kept_lists.planner;
                                *args.kept_lists.written = reinterpret_cast<std::uint64_t>(args.kept_lists.counts);
                              }
                              if (args.growth != nullptr) *args.growth = status.growth;
                              if (args.told == nullptr) return;
                              args.steps[0] = told.steps.planned + 1;
                              args.told->host = args.host;
                              tell_plan(status, told.faults, told.steps, args.told->report);
                            });
    __builtin_unreachable();  // its threads have left
  }

 private:
  static constexpr std::int32_t kWarp = 32;

  const PlanArgs& args_;
  const PlanRoom& room_;
  BlockTask<Team>& told_;
  std::byte* shared_;
};

/// By all threads: the plan is kept, once more. What tell() copies is not waited for. Added where it is, so that nobody
/// waits for what it was.
__device__ inline void count_kept(const PlanArgs& args) {
  if (args.told == nullptr || blockIdx.x != 0 || threadIdx.x != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&args.steps[1]), 1ULL);
  atomicAdd(reinterpret_cast<unsigned long long*>(&args.told->report.reused), 1ULL);
}

/// So many ways to cut many tiles are side by side at least where there is something near. Of few tiles all are.
constexpr std::int32_t kFewestBesideNear = 2;

/// \param forest_bytes that finding the forest needs
inline PlanRoom plan_room_of(const PlanArgs& args, std::size_t forest_bytes, std::int32_t histograms, bool near) {
  const std::int32_t rows = planned_rows(args);
  BlockMemory memory{};
  TeamMemory apart(nullptr);
  TeamMemory over(nullptr);
  memory.lay_out(apart, over, rows, histograms);
  PlanRoom room{.histograms = histograms, .near = near, .over_begin = 0, .near_begin = 0, .apart_begin = 0, .bytes = 0};
  if (near) {
    PlanMemory near_memory = args.memory;
    const std::size_t near_begin = most(forest_bytes, over.bytes());
    const std::size_t apart_begin = near_begin + keep_near(nullptr, rows, near_memory);
    room.near_begin = static_cast<std::uint32_t>(near_begin);
    room.apart_begin = static_cast<std::uint32_t>(apart_begin);
    room.bytes = apart_begin + apart.bytes();
  } else {
    room.over_begin = static_cast<std::uint32_t>(apart.bytes());
    room.bytes = most(forest_bytes, apart.bytes() + over.bytes());
  }
  return room;
}

/// \param limit bytes \return with what is near, if that fits, and then with as many ways to cut side by side as fit
inline PlanRoom plan_room(const PlanArgs& args, std::size_t forest_bytes, std::size_t limit) {
  const bool near = plan_room_of(args, forest_bytes, kFewestBesideNear, true).bytes <= limit;
  PlanRoom room = plan_room_of(args, forest_bytes, BlockMemory::kTries, near);
  while (room.histograms > 1 && room.bytes > limit) {
    room = plan_room_of(args, forest_bytes, room.histograms - 1, near);
  }
  return room;
}

}  // namespace trunkline::cuda
