// A way to cut few loads, tried by one warp or two: each load's tasks are compared with all others', without a barrier.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cut_choice.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/team.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

struct FewCuts {
  static constexpr std::int32_t kMostLoads = 64;

  /// The tasks of a load, all of one class.
  struct alignas(16) Tasks {
    std::uint32_t cost;  ///< of all
    std::int32_t of_class;
    std::uint32_t count;
  };

  /// \param number of the try; the first is not to cut
  TRUNKLINE_HOST_DEVICE static CutChoice::Pieces pieces_of(std::int32_t number, Nanoseconds ideal) {
    return number == 0 ? CutChoice::Pieces{} : CutChoice::pieces_of(number - 1, ideal);
  }
  /// The time of tasks without what too many partials would cost. \param all that they cost in all KV heads
  /// \param bound of CostClasses, but for the mean \param memory_time TaskCosts'
  template <class Number>
  TRUNKLINE_HOST_DEVICE static Nanoseconds time_of(const TaskCosts& costs, Number all, std::int64_t tasks, Number bound,
                                                   Nanoseconds memory_time) {
    const auto workers = static_cast<Number>(costs.workers);
    const std::int64_t busy = most<std::int64_t>(least<std::int64_t>(costs.workers, tasks * costs.kv_heads), 1);
    return costs.finish(most<Number>(ceil_div<Number>(all, workers), bound), all / static_cast<Number>(busy),
                        memory_time);
  }
  /// A try's scratch, in the classes, of which it leaves none used.
  TRUNKLINE_HOST_DEVICE static Tasks* tasks_of(const BlockMemory& memory, std::int32_t number) {
    static_assert(BlockMemory::kTries * kMostLoads * sizeof(Tasks) <= sizeof(CostClasses));  // own_lists are behind
    static_assert(kMostLoads == FewTiles::kMost && sizeof(Tasks) == sizeof(BlockMemory::FourWords));
    return reinterpret_cast<Tasks*>(memory.classes) + number * kMostLoads;
  }

  /// Finds work and time of a try, in 32 bits: sums over a warp and quotients take a fraction of what 64 take. Where
  /// one is too large for that, the try says so, and one thread is to cut. \tparam kLanes of a warp; two warps share a
  /// try where loads are more, and on the host there is one lane
  /// \param number of the try, of which the first tells the block's memory what all have found
  /// \param distinct tokens that must be read
  /// \param load_at(i) an unpriced load, for all tries \param keep(i, load) once it is priced, by the first try
  template <std::int32_t kLanes, class Lanes, class LoadAt, class Keep>
  TRUNKLINE_HOST_DEVICE static void find(const BlockMemory& memory, std::int32_t number, std::int32_t count,
                                         std::int64_t distinct, const Lanes& lanes, LoadAt load_at, Keep keep) {
    constexpr std::size_t kHeld = kLanes == 1 ? kMostLoads : 1;
    static_assert(kLanes == 1 || 2 * kLanes >= kMostLoads);
    BlockMemory::State& state = *memory.state;
    CutTry& result = state.tries[number];
    const TaskCosts& costs = state.costs;
    TaskLoad held[kHeld];
    visit_held<kHeld>(lanes, count, [&](std::size_t k, std::int32_t i) { held[k] = load_at(i); });
    const std::int64_t tokens = tokens_of<kHeld>(lanes, count, held);
    const TaskCosts::OfReads reads = costs.of_reads(distinct, tokens);
    bool large = costs.kv_heads > kMostHeads;
    std::uint32_t total = 0;
    visit_held<kHeld>(lanes, count, [&](std::size_t k, std::int32_t) {
      held[k].whole = held[k].uncut_cost(costs, reads.memory_per_token);
      large = large || held[k].whole >= kMostCost || held[k].tokens >= kMostTokens;
      total += static_cast<std::uint32_t>(held[k].whole);
    });
    const std::uint32_t in_all_heads = of_all_heads(lanes.sum(total), costs, large);
    const Nanoseconds ideal =
        most<Nanoseconds>(in_all_heads / static_cast<std::uint32_t>(costs.workers), reads.memory_time);
    if (number == 0) {
      visit_held<kHeld>(lanes, count, [&](std::size_t k, std::int32_t i) { keep(i, held[k]); });
      if (lanes.index() == 0) {
        state.reads = {tokens, reads};
        state.ideal = ideal;
      }
    }
    Tasks* const all = tasks_of(memory, number);
    const CutChoice::Pieces pieces = pieces_of(number, ideal);
    const auto piece = static_cast<std::uint32_t>(least<Nanoseconds>(pieces.cost, kMostSum));
    std::uint32_t work = 0;
    std::uint32_t tasks = 0;
    std::uint32_t partials = 0;
    std::uint32_t empty = 0;  // tasks without tokens
    visit_held<kHeld>(lanes, count, [&](std::size_t k, std::int32_t i) {
      const TaskLoad& load = held[k];
      const std::int32_t parts =
          CutChoice::parts<std::uint32_t>(static_cast<std::uint32_t>(least(load.whole, kMostSum)),
                                          static_cast<std::uint32_t>(load.tokens), piece, pieces.longer);
      const Nanoseconds cost = parts == 1 ? load.whole : load.part_cost(costs, parts, reads.memory_per_token);
      const auto its_tasks = static_cast<std::uint32_t>(parts);
      const std::uint64_t of_all = static_cast<std::uint64_t>(cost) * its_tasks;
      const auto its_cost = static_cast<std::uint32_t>(of_all);
      large = large || parts > kMostParts || of_all >= static_cast<std::uint64_t>(kMostCost);
      all[i] = {its_cost, static_cast<std::int32_t>(CostClasses::class_of(cost)), its_tasks};
      work += its_cost;
      tasks += its_tasks;
      partials += parts == 1 ? 0 : its_tasks * static_cast<std::uint32_t>(load.queries);
      empty += load.tokens == 0 ? 1 : 0;
    });
    lanes.wait();
    const std::uint32_t bound = bound_of(costs, all, count, lanes, large);
    lanes.wait();
    visit_held<kHeld>(lanes, count, [&](std::size_t, std::int32_t i) { all[i] = {}; });
    work = lanes.sum(work);
    tasks = lanes.sum(tasks);
    partials = lanes.sum(partials);
    empty = lanes.sum(empty);
    const std::uint32_t all_work = of_all_heads(work, costs, large);
    large = lanes.any(large);
    if (lanes.index() != 0) return;
    result.work = work;
    result.large = large ? 1 : 0;
    const bool worst = number > 0 && CutChoice::too_many(partials, std::int64_t{tasks} - empty, tokens, costs);
    result.time = worst ? CutChoice::kNever : time_of(costs, all_work, tasks, bound, reads.memory_time);
  }

 private:
  // Of so many loads costs and tokens stay below 2^32, and tasks of so many heads no higher than 2^31.
  static constexpr Nanoseconds kMostSum = Nanoseconds{1} << 31;
  static constexpr Nanoseconds kMostCost = (Nanoseconds{1} << 32) / kMostLoads;
  static constexpr std::int64_t kMostTokens = (std::int64_t{1} << 32) / kMostLoads;
  static constexpr std::int32_t kMostParts = 1 << 15;
  static constexpr std::int32_t kMostHeads = 1 << 10;

  /// Exact, whatever their number.
  template <std::size_t kHeld, class Lanes>
  TRUNKLINE_HOST_DEVICE static std::int64_t tokens_of(const Lanes& lanes, std::int32_t count, const TaskLoad* held) {
    std::int64_t tokens = 0;
    bool many = false;
    visit_held<kHeld>(lanes, count, [&](std::size_t k, std::int32_t) {
      tokens += held[k].tokens;
      many = many || held[k].tokens >= kMostTokens;
    });
    return lanes.any(many) ? lanes.sum(tokens) : lanes.sum(static_cast<std::uint32_t>(tokens));
  }

  TRUNKLINE_HOST_DEVICE static std::uint32_t of_all_heads(std::uint32_t work, const TaskCosts& costs, bool& large) {
    const std::uint64_t all = std::uint64_t{work} * static_cast<std::uint32_t>(costs.kv_heads);
    large = large || all >= kMostSum;
    return static_cast<std::uint32_t>(all);
  }

  /// The highest of what the classes ask for.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static std::uint32_t bound_of(const TaskCosts& costs, const Tasks* all, std::int32_t count,
                                                      const Lanes& lanes, bool& large) {
    constexpr std::int32_t kReads = 4;  // on their way together; what is behind the last load is clear
    static_assert(kMostLoads % kReads == 0);
    std::uint32_t bound = 0;
    TRUNKLINE_ROLLED
    for (std::int32_t i = lanes.index(); i < count; i += lanes.count()) {
      const std::int32_t own = all[i].of_class;
      std::uint32_t through = 0;  // tasks of this class and those above
      std::uint32_t of_class = 0;
      std::uint32_t cost = 0;
      TRUNKLINE_ROLLED
      for (std::int32_t first = 0; first < count; first += kReads) {
        Tasks others[kReads];
        for (std::int32_t k = 0; k < kReads; ++k) others[k] = all[first + k];
        for (const Tasks& other : others) {
          through += other.of_class >= own ? other.count : 0;
          of_class += other.of_class == own ? other.count : 0;
          cost += other.of_class == own ? other.cost : 0;
        }
      }
      const std::uint32_t tasks = through * static_cast<std::uint32_t>(costs.kv_heads);
      const std::uint32_t rounds = (tasks - 1) / static_cast<std::uint32_t>(costs.workers) + 1;
      const std::uint64_t its_bound = std::uint64_t{rounds} * (cost / of_class);
      large = large || its_bound >= kMostSum;
      bound = most(bound, static_cast<std::uint32_t>(its_bound));
    }
    return lanes.greatest(bound);
  }
};

}  // namespace trunkline
