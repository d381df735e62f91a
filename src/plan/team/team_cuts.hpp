// CutChoice by a team: all ways to cut are tried side by side.
#pragma once

#include <cstdint>

#include "plan/cut_choice.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/few_cuts.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

/// The same as CutChoice::choose, with few partials: prices the loads and finds how to cut them. The block's memory
/// holds the costs.
/// The tasks of each try are counted by class; for few loads see few_cuts.hpp.
template <class Block>
class TeamCuts {
 public:
  /// \param tokens of all loads
  TRUNKLINE_HOST_DEVICE TeamCuts(Block& block, const BlockMemory& memory, TaskLoad* loads, std::int32_t count,
                                 std::int64_t tokens)
      : block_(block), memory_(memory), costs_(memory.state->costs), loads_(loads), count_(count), tokens_(tokens) {}

  TRUNKLINE_HOST_DEVICE CutOutcome choose() {
    const std::int32_t room = least(memory_.histograms, BlockMemory::kTries);
    const bool cleared = memory_.state->clear != 0;
    if (!cleared) memory_.clear_classes(block_);
    const Nanoseconds total = price(cleared);
    ideal_ = most(CostClasses::product(least(total, CostClasses::kMaxSum), costs_.kv_heads) / costs_.workers,
                  costs_.memory_time);
    CutOutcome best{CutChoice::kNever, 0, ideal_, {}, {tokens_, {costs_.memory_time, costs_.memory_per_token}}};
    for (std::int32_t first = 0; first < BlockMemory::kTries; first += room) {
      const std::int32_t tries = least(room, BlockMemory::kTries - first);
      if (first > 0 && !CutChoice::may_gain(best.time, ideal_)) break;
      if (first > 0) clear_chunks();
      fill_classes(first, tries);
      find_bounds(first, tries);
      if (memory_.state->large != 0) return choose_serially(block_, memory_, loads_, count_, best.reads);
      take_best(*memory_.state, {first, first + tries}, best);
    }
    return best;
  }

  /// The best of some tries and the one so far, tried in order.
  TRUNKLINE_HOST_DEVICE static void take_best(const BlockMemory::State& state, Range tries, CutOutcome& best) {
    TRUNKLINE_ROLLED
    for (std::int32_t i = tries.begin; i < tries.end; ++i) {
      if (i > 0 && !CutChoice::may_gain(best.time, best.ideal)) break;
      const CutTry& result = state.tries[i];
      if (i > 0 && result.time >= best.time) continue;
      best.time = result.time;
      best.work = result.work;
      best.pieces = FewCuts::pieces_of(i, best.ideal);
    }
  }

  /// One load after the other, whose numbers are too large. \param reads which the costs may not hold yet
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static CutOutcome choose_serially(Block& block, const BlockMemory& memory,
                                                                                TaskLoad* loads, std::int32_t count,
                                                                                ReadCosts reads) {
    const auto clear = [&block, &memory] {
      block.each(static_cast<std::int32_t>((sizeof(CostClasses) + 3) / 4),
                 [&memory](std::int32_t i) { memory.classes[i] = 0; });
    };
    clear();
    block.once([&memory, loads, count, reads] {
      memory.state->costs.set(reads.costs);
      CutChoice cut(memory.state->costs, *reinterpret_cast<CostClasses*>(memory.classes), true);
      const Nanoseconds time = cut.choose(count, [loads](std::int32_t i) -> TaskLoad& { return loads[i]; });
      memory.state->serial = {time, cut.work(), cut.ideal(), cut.pieces(), reads};
    });
    clear();
    return memory.state->serial;
  }

 private:
  // Sums of costs are kept in two 32-bit parts, as additions of 64 bits in shared memory are slow where many threads
  // add to one place. What does not fit is left to one thread: more than 4,096 loads, or costs of days.
  static constexpr int kLowBits = 20;
  static constexpr std::int32_t kMostLoads = 4096;
  static constexpr Nanoseconds kMostCost = Nanoseconds{1} << 51;
  static constexpr std::int32_t kMostTasks = std::int32_t{1} << 27;

  /// Prices the loads, and clears what is summed beside the classes. \param cleared the classes were, before
  /// \return what all loads cost
  TRUNKLINE_HOST_DEVICE Nanoseconds price(bool cleared) {
    const BlockMemory& memory = memory_;
    const TaskCosts& costs = costs_;
    TaskLoad* const loads = loads_;
    const std::int32_t count = count_;
    return block_.sum(most(count, kSums), Nanoseconds{0}, [=, &memory, &costs](std::int32_t i) {
      if (i == 0 && !cleared) memory.state->clear = 1;
      if (i == 0) memory.state->large = 0;
      if (i == 0) memory.state->busy_chunks = 0;
      if (i < kSums) memory.chunk_tasks[i] = 0;
      if (i < BlockMemory::kTries) memory.state->tries[i] = {};
      if (i >= count) return Nanoseconds{0};
      loads[i].price(costs);
      return loads[i].whole;
    });
  }
  static constexpr std::int32_t kSums = BlockMemory::kTries * BlockMemory::kChunks;

  TRUNKLINE_HOST_DEVICE void clear_chunks() {
    const BlockMemory& memory = memory_;
    block_.each(kSums, [&memory](std::int32_t i) {
      if (i == 0) memory.state->busy_chunks = 0;
      memory.chunk_tasks[i] = 0;
    });
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
      const std::int32_t parts = CutChoice::parts(load, FewCuts::pieces_of(first + place, ideal));
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
      const std::int32_t number = place * BlockMemory::kChunks + chunk;
      if (Block::fetch_add(memory.chunk_tasks[number], parts) == 0) {
        memory.busy_chunks[Block::fetch_add(memory.state->busy_chunks, 1)] = number;
      }
      if (partials > 0)
        Block::fetch_add(memory.state->tries[first + place].partials, static_cast<std::uint32_t>(partials));
      if (load.tokens == 0) Block::fetch_add(memory.state->tries[first + place].empty, std::uint32_t{1});
    });
  }

  /// CostClasses::bound and total, and the time that follows. Leaves the classes clear.
  TRUNKLINE_HOST_DEVICE void find_bounds(std::int32_t first, std::int32_t tries) {
    const BlockMemory& memory = memory_;
    const TaskCosts& costs = costs_;
    block_.each_warp(memory.state->busy_chunks, [=, &memory, &costs](std::int32_t i, auto&& lanes) {
      const std::int32_t chunk = memory.busy_chunks[i];
      const std::int32_t place = chunk / BlockMemory::kChunks;
      const std::int32_t before = tasks_of(memory, place, chunk - place * BlockMemory::kChunks, lanes);
      bound_chunk(memory, costs, chunk, before, memory.state->tries[first + place], lanes);
    });
    const std::int64_t tokens = tokens_;
    block_.each_warp(tries, [=, &memory, &costs](std::int32_t i, auto&& lanes) {
      const std::int32_t tasks = tasks_of(memory, i, BlockMemory::kChunks, lanes);
      if (lanes.index() == 0) find_time(costs, tasks, first + i > 0, tokens, memory.state->tries[first + i]);
    });
  }

  /// Of the first chunks of a try.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static std::int32_t tasks_of(const BlockMemory& memory, std::int32_t place, std::int32_t chunks,
                                                     const Lanes& lanes) {
    std::int32_t tasks = 0;
    TRUNKLINE_ROLLED
    for (std::int32_t k = lanes.index(); k < chunks; k += lanes.count()) {
      tasks += memory.chunk_tasks[place * BlockMemory::kChunks + k];
    }
    return lanes.sum(tasks);
  }

  /// \param chunk of those of all tries: each try's count from its highest classes on \param before tasks of the try's
  /// chunks before it
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void bound_chunk(const BlockMemory& memory, const TaskCosts& costs, std::int32_t chunk,
                                                std::int32_t before, CutTry& result, const Lanes& lanes) {
    const std::int32_t place = chunk / BlockMemory::kChunks;
    const std::int32_t above = (chunk - place * BlockMemory::kChunks) * BlockMemory::kChunk;
    std::uint32_t* const highest =
        memory.classes + place * 3 * BlockMemory::kClasses + BlockMemory::kClasses - 1 - above;
    for (std::int32_t base = 0; base < BlockMemory::kChunk; base += lanes.count()) {
      std::uint32_t* const own = highest - base - lanes.index();
      const auto tasks = static_cast<std::int32_t>(own[0]);
      std::int32_t total = 0;
      const std::int64_t through = before + sum_before(lanes, tasks, total) + tasks;
      before += total;
      if (tasks == 0) continue;
      const std::uint32_t low = own[BlockMemory::kClasses];
      const std::uint32_t high = own[2 * BlockMemory::kClasses];
      own[0] = own[BlockMemory::kClasses] = own[2 * BlockMemory::kClasses] = 0;
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
    result.work = result.cost_low + (static_cast<Nanoseconds>(result.cost_high) << kLowBits);
    const bool worst =
        limited && CutChoice::too_many(result.partials, tasks - std::int64_t{result.empty}, tokens, costs);
    result.time = worst ? CutChoice::kNever
                        : FewCuts::time_of<Nanoseconds>(costs, CostClasses::product(result.work, costs.kv_heads), tasks,
                                                        result.bound, costs.memory_time);
  }

  TRUNKLINE_HOST_DEVICE static std::uint32_t low_part(Nanoseconds cost) {
    return static_cast<std::uint32_t>(cost & ((Nanoseconds{1} << kLowBits) - 1));
  }
  TRUNKLINE_HOST_DEVICE static std::uint32_t high_part(Nanoseconds cost) {
    return static_cast<std::uint32_t>(cost >> kLowBits);
  }
  Block& block_;
  const BlockMemory& memory_;
  const TaskCosts& costs_;
  TaskLoad* loads_;
  std::int32_t count_;
  std::int64_t tokens_;
  Nanoseconds ideal_ = 0;
};

/// Compiled once for all who cut: what devices run once is waited for.
template <class Block>
TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE CutOutcome choose_cuts(Block& block, const BlockMemory& memory,
                                                                   TaskLoad* loads, std::int32_t count,
                                                                   std::int64_t tokens) {
  return TeamCuts<Block>(block, memory, loads, count, tokens).choose();
}

/// The same for few loads, a warp or two a try: in one step, with what all of them read. The block's memory holds the
/// costs, but for ReadCosts, which are in the outcome. \param distinct, load_at FewCuts::find's \param loads [count] to
/// be filled with what is priced \param tell(i) by some thread, once for each load \param beside(lanes) by another warp
template <class Block, class LoadAt, class Tell, class Beside>
TRUNKLINE_HOST_DEVICE CutOutcome choose_few_cuts(Block& block, const BlockMemory& memory, TaskLoad* loads,
                                                 std::int32_t count, std::int64_t distinct, LoadAt load_at, Tell tell,
                                                 Beside beside) {
  block.each_warp_for(BlockMemory::kTries + 1, count, [=, &memory](std::int32_t number, auto&& lanes) {
    if (number == BlockMemory::kTries) return beside(lanes);
    const auto keep = [loads, tell](std::int32_t i, const TaskLoad& load) {
      loads[i] = load;
      tell(i);
    };
    FewCuts::find<Block::kLanes>(memory, number, count, distinct, lanes, load_at, keep);
  });
  const BlockMemory::State& state = *memory.state;
  CutOutcome best{CutChoice::kNever, 0, state.ideal, {}, state.reads};
  std::uint32_t large = 0;
  for (const CutTry& result : state.tries) large |= result.large;
  if (large != 0) return TeamCuts<Block>::choose_serially(block, memory, loads, count, best.reads);
  TeamCuts<Block>::take_best(state, {0, BlockMemory::kTries}, best);
  return best;
}

}  // namespace trunkline
