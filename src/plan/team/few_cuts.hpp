// A way to cut few loads, tried by one warp: each load's tasks are compared with all others', without a barrier.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cut_choice.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/team.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

struct FewCuts {
  static constexpr std::int32_t kMostLoads = 32;  // of more, counting by class is faster

  /// The tasks of a load, all of one class.
  struct alignas(16) Tasks {
    Nanoseconds cost;  ///< of all
    std::int32_t of_class;
    std::int32_t count;
  };

  /// \param number of the try; the first is not to cut
  TRUNKLINE_HOST_DEVICE static CutChoice::Pieces pieces_of(std::int32_t number, Nanoseconds ideal) {
    return number == 0 ? CutChoice::Pieces{} : CutChoice::pieces_of(number - 1, ideal);
  }
  /// The time of tasks without what too many partials would cost. \param bound of CostClasses, but for the mean
  TRUNKLINE_HOST_DEVICE static Nanoseconds time_of(const TaskCosts& costs, Nanoseconds work, std::int64_t tasks,
                                                   Nanoseconds bound) {
    const Nanoseconds all = CostClasses::product(work, costs.kv_heads);
    const std::int64_t busy = most<std::int64_t>(least<std::int64_t>(costs.workers, tasks * costs.kv_heads), 1);
    return costs.finish(most<Nanoseconds>(ceil_div<Nanoseconds>(all, costs.workers), bound), all / busy);
  }
  /// A try's scratch, in the classes, of which it leaves none used.
  TRUNKLINE_HOST_DEVICE static Tasks* tasks_of(const BlockMemory& memory, std::int32_t number) {
    static_assert(BlockMemory::kTries * kMostLoads * sizeof(Tasks) <=
                  sizeof(std::uint32_t) * 3 * BlockMemory::kClasses);
    return reinterpret_cast<Tasks*>(memory.classes) + number * kMostLoads;
  }

  /// Finds work and time of a try. \tparam kLanes of a warp \param number of the try, of which the first tells the
  /// block's memory what all have found \param distinct tokens that must be read
  /// \param load_at(i) an unpriced load, for all tries \param keep(i, load) once it is priced, by the first try
  template <std::int32_t kLanes, class Lanes, class LoadAt, class Keep>
  TRUNKLINE_HOST_DEVICE static void find(const BlockMemory& memory, std::int32_t number, std::int32_t count,
                                         std::int64_t distinct, const Lanes& lanes, LoadAt load_at, Keep keep) {
    constexpr std::size_t kHeld = kMostLoads / kLanes;
    BlockMemory::State& state = *memory.state;
    CutTry& result = state.tries[number];
    TaskLoad held[kHeld];
    std::int64_t tokens = 0;
    visit_held<kHeld>(lanes, count, [&](std::size_t k, std::int32_t i) {
      held[k] = load_at(i);
      tokens += held[k].tokens;
    });
    tokens = lanes.sum(tokens);
    // In memory, as a copy of a thread's own takes a third of its registers.
    if (lanes.index() == 0) {
      result.costs = state.costs;
      result.costs.set_rereads(distinct, tokens);
    }
    lanes.wait();
    const TaskCosts& costs = result.costs;
    Nanoseconds total = 0;
    visit_held<kHeld>(lanes, count, [&](std::size_t k, std::int32_t) {
      held[k].price(costs);
      total += held[k].whole;
    });
    total = least(lanes.sum(total), CostClasses::kMaxSum);
    const Nanoseconds ideal = most(CostClasses::product(total, costs.kv_heads) / costs.workers, costs.memory_time);
    const CutChoice::Pieces pieces = pieces_of(number, ideal);
    if (number == 0) {
      visit_held<kHeld>(lanes, count, [&](std::size_t k, std::int32_t i) { keep(i, held[k]); });
      if (lanes.index() == 0) {
        state.reads = {tokens, costs.memory_time, costs.memory_per_token};
        state.ideal = ideal;
      }
    }
    Tasks* const all = tasks_of(memory, number);
    Nanoseconds work = 0;
    std::int64_t partials = 0;  // and kOneEmpty for each task without tokens
    std::int32_t tasks = 0;
    bool large = false;
    visit_held<kHeld>(lanes, count, [&](std::size_t k, std::int32_t i) {
      const TaskLoad& load = held[k];
      const std::int32_t parts = CutChoice::parts(load, pieces);
      const Nanoseconds cost = parts == 1 ? load.whole : load.part_cost(costs, parts);
      const Tasks own{CostClasses::product(cost, parts), static_cast<std::int32_t>(CostClasses::class_of(cost)), parts};
      all[i] = own;
      large = large || own.cost >= kMostCost;
      work += own.cost;
      tasks += parts;
      partials += parts == 1 ? 0 : std::int64_t{parts} * load.queries;
      partials += load.tokens == 0 ? kOneEmpty : 0;
    });
    large = lanes.any(large);
    lanes.wait();
    const Nanoseconds bound = large ? 0 : bound_of(costs, all, count, lanes);
    lanes.wait();
    visit_held<kHeld>(lanes, count, [&](std::size_t, std::int32_t i) { all[i] = {}; });
    const TeamWords<2> sums = lanes.sum(TeamWords<2>{{work, partials}});  // steps of both take turns
    work = sums.at[0];
    partials = sums.at[1];
    tasks = lanes.sum(tasks);
    if (lanes.index() != 0) return;
    result.work = work;
    result.large = large ? 1 : 0;
    const bool worst =
        number > 0 && CutChoice::too_many(partials % kOneEmpty, tasks - partials / kOneEmpty, tokens, costs);
    result.time = worst ? CutChoice::kNever : time_of(costs, work, tasks, bound);
  }

 private:
  // Sums of so many stay below CostClasses::kMaxSum; parts are 2^20 at most.
  static constexpr Nanoseconds kMostCost = CostClasses::kMaxSum / kMostLoads;
  static constexpr std::int64_t kOneEmpty = std::int64_t{1} << 48;

  /// The highest of what the classes ask for.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static Nanoseconds bound_of(const TaskCosts& costs, const Tasks* all, std::int32_t count,
                                                    const Lanes& lanes) {
    constexpr std::int32_t kReads = 8;  // on their way together; what is behind the last load is clear
    static_assert(kMostLoads % kReads == 0);
    Nanoseconds bound = 0;
    for (std::int32_t i = lanes.index(); i < count; i += lanes.count()) {
      const std::int32_t own = all[i].of_class;
      std::int64_t through = 0;  // tasks of this class and those above
      std::int32_t of_class = 0;
      Nanoseconds cost = 0;
      for (std::int32_t first = 0; first < count; first += kReads) {
        Tasks others[kReads];
        for (std::int32_t k = 0; k < kReads; ++k) others[k] = all[first + k];
        for (const Tasks& other : others) {
          through += other.of_class >= own ? other.count : 0;
          of_class += other.of_class == own ? other.count : 0;
          cost += other.of_class == own ? other.cost : 0;
        }
      }
      bound = most(bound, CostClasses::product((through * costs.kv_heads - 1) / costs.workers + 1, cost / of_class));
    }
    return lanes.greatest(bound);
  }
};

}  // namespace trunkline
