// How packs are cut, and how long the plan's lists will be: what Division and PlanEmitter::make_room find, by one
// block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/cut_choice.hpp"
#include "plan/team/few_tiles.hpp"
#include "plan/team/pack_cut.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team.hpp"
#include "plan/team/team_cuts.hpp"
#include "plan/team/team_packs.hpp"

namespace trunkline {

template <class Block>
class PackDivider {
 public:
  TRUNKLINE_HOST_DEVICE PackDivider(Block& block, const PlanTask& task)
      : block_(block), task_(task), packs_(task.memory.shape[PlanMemory::kPacks]) {}

  /// \param cut as CutChoice finds it; else not at all
  TRUNKLINE_HOST_DEVICE void divide(bool cut) {
    if (cut && packs_are_tiles()) {
      if (task_.memory.shape[PlanMemory::kFewTiles] != 0) {
        if (FewTileDivider(block_, task_).divide()) return;
      } else {
        const Sums sums = divide_as_tried();
        if (sums.at[PackSums::kParts] < kOther) return place_packs(sums);
      }
      const PlanMemory& memory = task_.memory;
      block_.once([&memory] { memory.shape[PlanMemory::kOpenEnds] = 1; });
    }
    // The classes of more are counted where what few tiles stream may lie, if they are each block's own
    // (FewTileLister::list_by).
    static_assert(FewTiles::kMost <= FewCuts::kMostLoads);
    if (cut && packs_ <= FewCuts::kMostLoads) {
      const CutOutcome outcome = cut_few(block_, task_, packs_, needed_tokens());
      place_packs(find_lengths(outcome.pieces, outcome.reads.read_tokens));
    } else {
      const std::int64_t read = load_packs();
      const CutChoice::Pieces pieces = cut ? cut_for_balance(read) : price(read);
      place_packs(find_lengths(pieces, read));
    }
  }

 private:
  using Sums = PackSums::Words;
  /// Added to the parts for each pack that is not the tile that was tried: more than there are parts.
  static constexpr std::int64_t kOther = std::int64_t{1} << 40;

  /// Whether each pack is a whole tile, so that the cuts of the try are likely to be its own.
  TRUNKLINE_HOST_DEVICE bool packs_are_tiles() const {
    const BlockMemory::State& state = *task_.block.state;
    const std::int32_t listed = state.requests.count;
    return listed > 0 && listed == state.full && state.chosen.tiles == packs_ &&
           state.requests.distinct_tokens == task_.forest.distinct_tokens;
  }

  /// Cuts as the try at tiles did, whose costs the block's memory holds; which is right where all loads are the same.
  TRUNKLINE_HOST_DEVICE Sums divide_as_tried() {
    const PlanTask& task = task_;
    const std::int32_t packs = packs_;
    const Places to = places();
    return block_.sum(most(packs, kTeller + 1), Sums{}, [&task, to, packs](std::int32_t i) {
      const BlockMemory::State& state = *task.block.state;
      if (i == kTeller) tell_batch(task, state.chosen.reads.read_tokens);
      if (i >= packs) return Sums{};
      const PlannedPack pack = task.memory.packs[i];  // read before anything is written
      if (pack.tile < 0) return Sums{{kOther, 0, 0}};
      bool same = true;
      const PackCut cut = PackCut::as_tried(task, pack, same);
      Sums sums = put(task, i, cut, to);
      if (!same) sums.at[PackSums::kParts] += kOther;
      return sums;
    });
  }

  /// \return tokens that they read
  TRUNKLINE_HOST_DEVICE std::int64_t load_packs() {
    const PlanTask& task = task_;
    return block_.sum(packs_, std::int64_t{0}, [&task](std::int32_t i) {
      const TaskLoad load = PackCut::load_of(task, task.memory.packs[i]);
      task.memory.loads[i] = load;
      return load.tokens;
    });
  }

  /// QueryOrder::needed_tokens.
  TRUNKLINE_HOST_DEVICE std::int64_t needed_tokens() {
    const PlanTask& task = task_;
    const BlockMemory::State& state = *task.block.state;
    if (state.requests.count == state.full) return task.forest.distinct_tokens;
    return block_.sum(task.forest.node_count, std::int64_t{0}, [&task](std::int32_t i) {
      const ForestNode& node = task.forest.nodes[i];
      const std::int32_t* const position = task.memory.position;
      const bool read = position[node.requests.begin] < position[node.requests.end];
      return std::int64_t{read ? node.end - node.begin : 0};
    });
  }

  // All price the loads too.
  /// A function of its own: mostly the try at the tiles has found it.
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static CutOutcome cut_few(Block& block, const PlanTask& task,
                                                                        std::int32_t packs, std::int64_t needed) {
    const BlockMemory& own = task.block;
    const CutOutcome outcome = choose_few_cuts(
        block, own, task.memory.loads, packs, needed,
        [&task](std::int32_t i) { return PackCut::load_of(task, task.memory.packs[i]); }, [](std::int32_t) {},
        [](const auto&) {});
    block.once([&own, &outcome] { own.state->costs.set(outcome.reads.costs); });
    return outcome;
  }
  TRUNKLINE_HOST_DEVICE CutChoice::Pieces cut_for_balance(std::int64_t read) {
    set_costs(needed_tokens(), read);
    return choose_cuts(block_, task_.block, task_.memory.loads, packs_, read).pieces;
  }
  TRUNKLINE_HOST_DEVICE CutChoice::Pieces price(std::int64_t read) {
    set_costs(needed_tokens(), read);
    const PlanMemory& memory = task_.memory;
    const TaskCosts& costs = task_.block.state->costs;
    block_.each(packs_, [&memory, &costs](std::int32_t i) { memory.loads[i].price(costs); });
    return {};
  }
  TRUNKLINE_HOST_DEVICE void set_costs(std::int64_t needed, std::int64_t read) {
    const BlockMemory& own = task_.block;
    block_.once([&own, read, needed] { own.state->costs.set_rereads(needed, read); });
  }

  /// Where what a pack brings is to be scanned.
  struct Places {
    std::int64_t* items;  ///< and their queries
    std::int64_t* spans;  ///< and masks
  };
  /// Few are scanned in the block's memory.
  TRUNKLINE_HOST_DEVICE Places places() const {
    if (packs_ <= least(FewPacks::kMost, task_.block.rows)) return {task_.block.listed, task_.block.few->sums};
    return {task_.memory.pack_sums, task_.memory.pack_sums + packs_};
  }

  /// Beside that, what others are told of the batch.
  TRUNKLINE_HOST_DEVICE Sums find_lengths(const CutChoice::Pieces& pieces, std::int64_t read) {
    const PlanTask& task = task_;
    const std::int32_t packs = packs_;
    const Places to = places();
    return block_.sum(most(packs, kTeller + 1), Sums{}, [&task, &pieces, to, packs, read](std::int32_t i) {
      if (i == kTeller) tell_batch(task, read);
      if (i >= packs) return Sums{};
      const TaskLoad load = task.memory.loads[i];
      const std::int64_t spans = PackCut::spans_of(task.memory, task.memory.packs[i]);
      return put(task, i, {load, CutChoice::parts(load, pieces), spans}, to);
    });
  }

  TRUNKLINE_HOST_DEVICE static Sums put(const PlanTask& task, std::int32_t i, const PackCut& cut, const Places& to) {
    to.items[i] = cut.items();
    to.spans[i] = cut.spans;
    cut.put<Block>(task.memory, i);
    return cut.sums();
  }

  static constexpr std::int32_t kTeller = 32;  ///< not of the first warp, which has packs to do

  /// Where the items of each pack, their queries, spans and masks begin; and, unless some are cut, their classes. Where
  /// lists are too long for their room, that alone is told; how many spans are cut is not known yet.
  TRUNKLINE_HOST_DEVICE void place_packs(const Sums& sums) {
    const PlanMemory& memory = task_.memory;
    if (!PackCut::fit(sums.at[PackSums::kParts], sums.at[PackSums::kPartials], sums.at[PackSums::kFragments],
                      task_.machine.capacity)) {
      block_.once([&memory] { memory.shape[PlanMemory::kFits] = 0; });
      return;
    }
    const std::int32_t packs = packs_;
    const bool cut = sums.at[PackSums::kPartials] > 0;
    const Places from = places();
    block_.template scan<TeamWords<2>>(
        packs,
        [from](std::int32_t i) {
          return TeamWords<2>{{from.items[i], from.spans[i]}};
        },
        [&memory, sums, packs, cut](std::int32_t i, const TeamWords<2>& before) {
          if (i == packs) {
            const auto partials = static_cast<std::int32_t>(sums.at[PackSums::kPartials]);
            return PackCut::tell(PackCut::counts(before.at[0], before.at[1]), partials, memory.shape);
          }
          if (!cut) memory.classes[i] = static_cast<std::uint16_t>(CostClasses::class_of(memory.loads[i].whole));
          if (!cut && packs > FewPacks::kMost) memory.item_place[i] = 0;  // counted for more items than one thread sees
          PackCut::place(memory.packs[i], PackCut::counts(before.at[0], before.at[1]));
        });
  }

  Block& block_;
  const PlanTask& task_;
  std::int32_t packs_;
};

}  // namespace trunkline
