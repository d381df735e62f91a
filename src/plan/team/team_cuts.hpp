// CutChoice by a team: all ways to cut are tried side by side.
#pragma once

#include <cstdint>

#include "plan/cut_choice.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

/// The same as CutChoice::choose, with few partials: prices the loads and finds how to cut them. The block's memory
/// holds the costs.
template <class Block>
class TeamCuts {
 public:
  /// \param tokens of all loads
  TRUNKLINE_HOST_DEVICE TeamCuts(Block& block, const BlockMemory& memory, TaskLoad* loads, std::int32_t count,
                                 std::int64_t tokens)
      : block_(block), memory_(memory), costs_(memory.state->costs), loads_(loads), count_(count), tokens_(tokens) {}

  TRUNKLINE_HOST_DEVICE CutOutcome choose() {
    const std::int32_t room = least(memory_.histograms, BlockMemory::kTries);
    const Nanoseconds total = price(room);
    ideal_ = most(CostClasses::product(least(total, CostClasses::kMaxSum), costs_.kv_heads) / costs_.workers,
                  costs_.memory_time);
    CutOutcome best{CutChoice::kNever, 0, ideal_, {}};
    for (std::int32_t first = 0; first < BlockMemory::kTries; first += room) {
      const std::int32_t tries = least(room, BlockMemory::kTries - first);
      if (first > 0 && !CutChoice::may_gain(best.time, ideal_)) break;
      if (first > 0) {
        const BlockMemory& memory = memory_;
        block_.each(cleared_parts(tries), [&memory, first](std::int32_t i) { clear(memory, first, i); });
      }
      fill_classes(first, tries);
      find_bounds(first, tries);
      if (memory_.state->large != 0) {
        choose_serially(block_, memory_, loads_, count_);
        return memory_.state->serial;
      }
      for (std::int32_t i = first; i < first + tries; ++i) {
        if (i > 0 && !CutChoice::may_gain(best.time, ideal_)) break;
        const CutTry& result = memory_.state->tries[i];
        if (i > 0 && result.time >= best.time) continue;
        best.time = result.time;
        best.work = result.work;
        best.pieces = pieces_of(i, ideal_);
      }
    }
    return best;
  }

 private:
  // Sums of costs are kept in two 32-bit parts, as additions of 64 bits in shared memory are slow where many threads
  // add to one place. What does not fit is left to one thread: more than 4,096 loads, or costs of days.
  static constexpr int kLowBits = 20;
  static constexpr std::int32_t kMostLoads = 4096;
  static constexpr Nanoseconds kMostCost = Nanoseconds{1} << 51;
  static constexpr std::int32_t kMostTasks = std::int32_t{1} << 27;

  TRUNKLINE_HOST_DEVICE static CutChoice::Pieces pieces_of(std::int32_t number, Nanoseconds ideal) {
    return number == 0 ? CutChoice::Pieces{} : CutChoice::pieces_of(number - 1, ideal);
  }

  /// Prices the loads, and clears what so many tries are summed in. \return what all loads cost
  TRUNKLINE_HOST_DEVICE Nanoseconds price(std::int32_t tries) {
    const BlockMemory& memory = memory_;
    const TaskCosts& costs = costs_;
    TaskLoad* const loads = loads_;
    const std::int32_t count = count_;
    const std::int32_t parts = cleared_parts(tries);
    return block_.sum(most(count, parts), Nanoseconds{0}, [=, &memory, &costs](std::int32_t i) {
      if (i == 0) memory.state->large = 0;
      if (i < parts) clear(memory, 0, i);
      if (i >= count) return Nanoseconds{0};
      loads[i].price(costs);
      return loads[i].whole;
    });
  }

  // What is stored at once.
  struct alignas(16) FourWords {
    std::uint32_t words[4];
  };
  static_assert(BlockMemory::kClasses % 4 == 0);

  TRUNKLINE_HOST_DEVICE static std::int32_t cleared_parts(std::int32_t tries) {
    return tries * 3 * BlockMemory::kClasses / 4;
  }
  /// A part of the classes of some tries, and of what is summed beside.
  TRUNKLINE_HOST_DEVICE static void clear(const BlockMemory& memory, std::int32_t first, std::int32_t part) {
    reinterpret_cast<FourWords*>(memory.classes)[part] = {};
    if (part < BlockMemory::kTries * BlockMemory::kChunks) memory.chunk_tasks[part] = 0;
    if (first + part < BlockMemory::kTries) memory.state->tries[first + part] = {};
  }

  /// Puts the tasks of some tries into their classes.
  TRUNKLINE_HOST_DEVICE void fill_classes(std::int32_t first, std::int32_t tries) {
    const BlockMemory& memory = memory_;
    const TaskLoad* const loads = loads_;
    const TaskCosts& costs = costs_;
    const std::int32_t count = count_;
    const Nanoseconds ideal = ideal_;
    const std::int32_t most_tasks = kMostTasks / most(count, 1);  // of each load
    block_.each(tries * count, [=, &memory, &costs](std::int32_t i) {
      const std::int32_t place = i / count;
      const TaskLoad& load = loads[i - place * count];
      const std::int32_t parts = CutChoice::parts(load, pieces_of(first + place, ideal));
      const Nanoseconds cost = parts == 1 ? load.whole : load.part_cost(costs, parts);
      const Nanoseconds all = CostClasses::product(cost, parts);
      const std::int64_t partials = parts == 1 ? 0 : std::int64_t{parts} * load.queries;
      if (count > kMostLoads || all > most_tasks * (kMostCost / kMostTasks) ||
          most<std::int64_t>(partials, parts) > most_tasks) {
        Block::fetch_greatest(memory.state->large, std::uint32_t{1});
        return;
      }
      const auto index = static_cast<std::int32_t>(CostClasses::class_of(cost));
      std::uint32_t* const to = memory.classes + place * 3 * BlockMemory::kClasses + index;
      Block::fetch_add(to[0], static_cast<std::uint32_t>(parts));
      Block::fetch_add(to[BlockMemory::kClasses], low_part(all));
      Block::fetch_add(to[2 * BlockMemory::kClasses], high_part(all));
      const std::int32_t chunk = BlockMemory::kChunks - 1 - index / BlockMemory::kChunk;
      Block::fetch_add(memory.chunk_tasks[place * BlockMemory::kChunks + chunk], parts);
      if (partials > 0)
        Block::fetch_add(memory.state->tries[first + place].partials, static_cast<std::uint32_t>(partials));
    });
  }

  /// CostClasses::bound and total, and the time that follows.
  TRUNKLINE_HOST_DEVICE void find_bounds(std::int32_t first, std::int32_t tries) {
    const BlockMemory& memory = memory_;
    const TaskCosts& costs = costs_;
    const std::int32_t chunks = tries * BlockMemory::kChunks;
    const std::int32_t tasks = block_.scan_exclusive(memory.chunk_tasks, chunks);
    block_.each_warp(chunks, [=, &memory, &costs](std::int32_t i, auto&& lanes) {
      const std::int32_t before = memory.chunk_tasks[i];
      if (before == (i + 1 == chunks ? tasks : memory.chunk_tasks[i + 1])) return;
      const std::int32_t place = i / BlockMemory::kChunks;
      bound_chunk(memory, costs, i, before - memory.chunk_tasks[place * BlockMemory::kChunks],
                  memory.state->tries[first + place], lanes);
    });
    const std::int64_t tokens = tokens_;
    block_.each(tries, [=, &memory, &costs](std::int32_t i) {
      const std::int32_t end = i + 1 == tries ? tasks : memory.chunk_tasks[(i + 1) * BlockMemory::kChunks];
      find_time(costs, end - memory.chunk_tasks[i * BlockMemory::kChunks], first + i > 0, tokens,
                memory.state->tries[first + i]);
    });
  }

  /// \param chunk of those of all tries: each try's count from its highest classes on \param before tasks of the try's
  /// chunks before it
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void bound_chunk(const BlockMemory& memory, const TaskCosts& costs, std::int32_t chunk,
                                                std::int32_t before, CutTry& result, const Lanes& lanes) {
    const std::int32_t place = chunk / BlockMemory::kChunks;
    const std::int32_t above = (chunk - place * BlockMemory::kChunks) * BlockMemory::kChunk;
    const std::uint32_t* const highest =
        memory.classes + place * 3 * BlockMemory::kClasses + BlockMemory::kClasses - 1 - above;
    for (std::int32_t base = 0; base < BlockMemory::kChunk; base += lanes.count()) {
      const std::uint32_t* const own = highest - base - lanes.index();
      const auto tasks = static_cast<std::int32_t>(own[0]);
      std::int32_t total = 0;
      const std::int64_t through = before + sum_before(lanes, tasks, total) + tasks;
      before += total;
      if (tasks == 0) continue;
      const std::uint32_t low = own[BlockMemory::kClasses];
      const std::uint32_t high = own[2 * BlockMemory::kClasses];
      const Nanoseconds mean = (low + (static_cast<Nanoseconds>(high) << kLowBits)) / tasks;
      const Nanoseconds bound = CostClasses::product((through * costs.kv_heads - 1) / costs.workers + 1, mean);
      if (bound >> 32 != 0) Block::fetch_greatest(memory.state->large, std::uint32_t{1});
      Block::fetch_greatest(result.bound, static_cast<std::uint32_t>(bound));
      Block::fetch_add(result.cost_low, low & ((std::uint32_t{1} << kLowBits) - 1));
      Block::fetch_add(result.cost_high, high + (low >> kLowBits));
    }
  }

  /// \param tasks of the try \param limited too many partials make it the worst
  TRUNKLINE_HOST_DEVICE static void find_time(const TaskCosts& costs, std::int32_t tasks, bool limited,
                                              std::int64_t tokens, CutTry& result) {
    const Nanoseconds total = result.cost_low + (static_cast<Nanoseconds>(result.cost_high) << kLowBits);
    const Nanoseconds all = CostClasses::product(total, costs.kv_heads);
    const Nanoseconds bound = most<Nanoseconds>(ceil_div<Nanoseconds>(all, costs.workers), result.bound);
    const std::int64_t copies = std::int64_t{tasks} * costs.kv_heads;
    const std::int64_t busy = most<std::int64_t>(least<std::int64_t>(costs.workers, copies), 1);
    result.work = total;
    result.time = limited && CutChoice::too_many(result.partials, tokens, costs) ? CutChoice::kNever
                                                                                 : costs.finish(bound, all / busy);
  }

  TRUNKLINE_HOST_DEVICE static std::uint32_t low_part(Nanoseconds cost) {
    return static_cast<std::uint32_t>(cost & ((Nanoseconds{1} << kLowBits) - 1));
  }
  TRUNKLINE_HOST_DEVICE static std::uint32_t high_part(Nanoseconds cost) {
    return static_cast<std::uint32_t>(cost >> kLowBits);
  }
  /// Into BlockMemory::State::serial.
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static void choose_serially(Block& block, const BlockMemory& memory,
                                                                          TaskLoad* loads, std::int32_t count) {
    block.each(static_cast<std::int32_t>((sizeof(CostClasses) + 3) / 4),
               [&memory](std::int32_t i) { memory.classes[i] = 0; });
    block.once([&memory, loads, count] {
      CutChoice cut(memory.state->costs, *reinterpret_cast<CostClasses*>(memory.classes), true);
      const Nanoseconds time = cut.choose(count, [loads](std::int32_t i) -> TaskLoad& { return loads[i]; });
      memory.state->serial = {time, cut.work(), cut.ideal(), cut.pieces()};
    });
  }

  Block& block_;
  const BlockMemory& memory_;
  const TaskCosts& costs_;
  TaskLoad* loads_;
  std::int32_t count_;
  std::int64_t tokens_;
  Nanoseconds ideal_ = 0;
};

}  // namespace trunkline
