// CutChoice by a team: all ways to cut are tried side by side.
#pragma once

#include <cstdint>

#include "plan/cut_choice.hpp"
#include "plan/team/block_memory.hpp"

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
    TaskLoad* const loads = loads_;
    const TaskCosts& costs = costs_;
    const BlockMemory& memory = memory_;
    const std::int32_t words = cleared_words(least(memory.histograms, BlockMemory::kTries));
    const std::int32_t count = count_;
    block_.each(count + words, [loads, &costs, &memory, count](std::int32_t i) {
      if (i < count) {
        loads[i].price(costs);
      } else {
        clear(memory, 0, i - count);
      }
      if (i == 0) memory.state->large = 0;
    });
    const Nanoseconds total = block_.sum(count_, Nanoseconds{0}, [loads](std::int32_t i) { return loads[i].whole; });
    ideal_ = most(CostClasses::product(least(total, CostClasses::kMaxSum), costs.kv_heads) / costs.workers,
                  costs.memory_time);
    CutOutcome best{CutChoice::kNever, 0, ideal_, {}};
    for (std::int32_t first = 0; first < BlockMemory::kTries; first += memory_.histograms) {
      const std::int32_t tries = least(memory_.histograms, BlockMemory::kTries - first);
      if (first > 0 && !CutChoice::may_gain(best.time, ideal_)) break;
      if (first > 0) block_.each(cleared_words(tries), [&memory, first](std::int32_t i) { clear(memory, first, i); });
      fill_classes(first, tries);
      const std::int32_t tasks = find_bounds(first, tries);
      if (memory_.state->large != 0) return choose_serially();
      for (std::int32_t i = 0; i < tries; ++i)
        take_better(first + i, memory.state->tries[first + i], tasks_of(i, tries, tasks), best);
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

  /// Words of the classes of some tries, and of what is summed beside.
  TRUNKLINE_HOST_DEVICE static std::int32_t cleared_words(std::int32_t tries) {
    return tries * 3 * BlockMemory::kClasses;
  }
  TRUNKLINE_HOST_DEVICE static void clear(const BlockMemory& memory, std::int32_t first, std::int32_t word) {
    memory.classes[word] = 0;
    if (first + word < BlockMemory::kTries) memory.state->tries[first + word] = {};
  }

  /// Puts the tasks of some tries into their classes.
  TRUNKLINE_HOST_DEVICE void fill_classes(std::int32_t first, std::int32_t tries) {
    const BlockMemory& memory = memory_;
    const TaskLoad* const loads = loads_;
    const TaskCosts& costs = costs_;
    const std::int32_t count = count_;
    const Nanoseconds ideal = ideal_;
    block_.each(tries * count, [=, &memory, &costs](std::int32_t i) {
      const std::int32_t place = i / count;
      const TaskLoad& load = loads[i - place * count];
      const std::int32_t parts = CutChoice::parts(load, pieces_of(first + place, ideal));
      const Nanoseconds cost = parts == 1 ? load.whole : load.part_cost(costs, parts);
      const Nanoseconds all = CostClasses::product(cost, parts);
      const std::int64_t partials = parts == 1 ? 0 : std::int64_t{parts} * load.queries;
      if (count > kMostLoads || all > kMostCost / count || most<std::int64_t>(partials, parts) > kMostTasks / count) {
        Block::fetch_greatest(memory.state->large, std::uint32_t{1});
        return;
      }
      std::uint32_t* const to = memory.classes + place * 3 * BlockMemory::kClasses + CostClasses::class_of(cost);
      Block::fetch_add(to[0], static_cast<std::uint32_t>(parts));
      Block::fetch_add(to[BlockMemory::kClasses], low_part(all));
      Block::fetch_add(to[2 * BlockMemory::kClasses], high_part(all));
      if (partials > 0)
        Block::fetch_add(memory.state->tries[first + place].partials, static_cast<std::uint32_t>(partials));
    });
  }

  /// CostClasses::bound and total. \return tasks of all these tries
  TRUNKLINE_HOST_DEVICE std::int32_t find_bounds(std::int32_t first, std::int32_t tries) {
    const BlockMemory& memory = memory_;
    const std::int32_t chunks = tries * BlockMemory::kChunks;
    block_.each(chunks, [&memory](std::int32_t i) {
      const std::uint32_t* const classes = highest_of(memory, i);
      std::uint32_t tasks = 0;
      for (std::int32_t k = 0; k < BlockMemory::kChunk; ++k) tasks += classes[-k];
      memory.chunk_tasks[i] = static_cast<std::int32_t>(tasks);
    });
    const std::int32_t tasks = block_.scan_exclusive(memory.chunk_tasks, chunks);
    const std::int64_t copies = costs_.kv_heads;
    const std::int64_t workers = costs_.workers;
    block_.each(chunks, [&memory, first, copies, workers](std::int32_t i) {
      const std::int32_t place = i / BlockMemory::kChunks;
      const std::uint32_t* const classes = highest_of(memory, i);
      std::int64_t before = (memory.chunk_tasks[i] - memory.chunk_tasks[place * BlockMemory::kChunks]) * copies;
      Nanoseconds bound = 0;
      Nanoseconds total = 0;
      for (std::int32_t k = 0; k < BlockMemory::kChunk; ++k) {
        if (classes[-k] == 0) continue;
        before += classes[-k] * copies;
        const Nanoseconds sum = classes[BlockMemory::kClasses - k] +
                                (static_cast<Nanoseconds>(classes[2 * BlockMemory::kClasses - k]) << kLowBits);
        total += sum;
        bound = most(bound, CostClasses::product((before - 1) / workers + 1, sum / classes[-k]));
      }
      if (total == 0 && bound == 0) return;
      CutTry& result = memory.state->tries[first + place];
      if (bound >> 32 != 0) Block::fetch_greatest(memory.state->large, std::uint32_t{1});
      Block::fetch_greatest(result.bound, static_cast<std::uint32_t>(bound));
      Block::fetch_add(result.cost_low, low_part(total));
      Block::fetch_add(result.cost_high, high_part(total));
    });
    return tasks;
  }

  TRUNKLINE_HOST_DEVICE static std::uint32_t low_part(Nanoseconds cost) {
    return static_cast<std::uint32_t>(cost & ((Nanoseconds{1} << kLowBits) - 1));
  }
  TRUNKLINE_HOST_DEVICE static std::uint32_t high_part(Nanoseconds cost) {
    return static_cast<std::uint32_t>(cost >> kLowBits);
  }
  /// The tasks of the highest class of a chunk; chunks count from the highest classes on.
  TRUNKLINE_HOST_DEVICE static const std::uint32_t* highest_of(const BlockMemory& memory, std::int32_t chunk) {
    const std::int32_t place = chunk / BlockMemory::kChunks;
    const std::int32_t above = (chunk - place * BlockMemory::kChunks) * BlockMemory::kChunk;
    return memory.classes + place * 3 * BlockMemory::kClasses + BlockMemory::kClasses - 1 - above;
  }

  /// \param place among tries that were made together, which have so many tasks
  TRUNKLINE_HOST_DEVICE std::int64_t tasks_of(std::int32_t place, std::int32_t tries, std::int32_t tasks) const {
    const std::int32_t end = place + 1 == tries ? tasks : memory_.chunk_tasks[(place + 1) * BlockMemory::kChunks];
    return std::int64_t{end - memory_.chunk_tasks[place * BlockMemory::kChunks]};
  }

  /// A step of CutChoice::choose.
  TRUNKLINE_HOST_DEVICE void take_better(std::int32_t number, const CutTry& result, std::int64_t tasks,
                                         CutOutcome& best) const {
    if (number > 0 && !CutChoice::may_gain(best.time, ideal_)) return;
    if (number > 0 && CutChoice::too_many(result.partials, tokens_, costs_)) return;
    const Nanoseconds total = result.cost_low + (static_cast<Nanoseconds>(result.cost_high) << kLowBits);
    const Nanoseconds all = CostClasses::product(total, costs_.kv_heads);
    const Nanoseconds bound = most<Nanoseconds>(ceil_div<Nanoseconds>(all, costs_.workers), result.bound);
    const std::int64_t busy = most<std::int64_t>(least<std::int64_t>(costs_.workers, tasks * costs_.kv_heads), 1);
    const Nanoseconds time = costs_.finish(bound, all / busy);
    if (number > 0 && time >= best.time) return;
    best.time = time;
    best.work = total;
    best.pieces = pieces_of(number, ideal_);
  }

  TRUNKLINE_HOST_DEVICE CutOutcome choose_serially() {
    const BlockMemory& memory = memory_;
    block_.each(static_cast<std::int32_t>((sizeof(CostClasses) + 3) / 4),
                [&memory](std::int32_t i) { memory.classes[i] = 0; });
    TaskLoad* const loads = loads_;
    const std::int32_t count = count_;
    block_.once([&memory, loads, count] {
      CutChoice cut(memory.state->costs, *reinterpret_cast<CostClasses*>(memory.classes), true);
      const Nanoseconds time = cut.choose(count, [loads](std::int32_t i) -> TaskLoad& { return loads[i]; });
      memory.state->serial = {time, cut.work(), cut.ideal(), cut.pieces()};
    });
    return memory.state->serial;
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
