// How the packs of a sketch (plan_sketch.hpp) are cut: as is guessed, or as the try at its tiles has found it. What
// does not depend on that another warp finds beside.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "base/quotient.hpp"
#include "plan/cost_classes.hpp"
#include "plan/cut_choice.hpp"
#include "plan/task_costs.hpp"
#include "plan/team/few_tiles.hpp"
#include "plan/team/item_lists.hpp"
#include "plan/team/pack_cut.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/planned_pack.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

class SketchCuts {
 public:
  /// \param tried null: as is guessed \return whether they fit, whatever is split: each item may add a span
  template <class Block>
  TRUNKLINE_HOST_DEVICE static bool cut(Block& block, const PlanTask& task, const CutChoice::Pieces* tried) {
    if (tried != nullptr) block.each(0, [](std::int32_t) {});  // all have read what the guess came to
    block.each_warp(tried == nullptr ? 2 : 1, [&task, tried](std::int32_t i, auto&& lanes) {
      if (i == 1) return place_fragments<Block>(lanes, *Block::forgotten(&task));
      const CutChoice::Pieces pieces = tried != nullptr ? *tried : guess<Block>(lanes, *Block::forgotten(&task));
      cut_by<Block>(lanes, *Block::forgotten(&task), pieces);
    });
    const std::int32_t* const shape = task.memory.shape;
    const std::int32_t items = shape[PlanMemory::kItems];
    const bool cut = shape[PlanMemory::kPartials] > 0;
    const std::int64_t spans = std::int64_t{shape[PlanMemory::kFragments]} + (cut ? items : 0);
    return (!cut || FewItems::are_few(shape)) && items <= task.machine.capacity.items &&
           shape[PlanMemory::kPartials] <= task.machine.capacity.partials && spans <= task.machine.capacity.spans;
  }

 private:
  /// What packs cost, and how the guessed round of CutChoice cuts them: as the try at them, if that takes this round.
  template <class Block, class Lanes>
  TRUNKLINE_HOST_DEVICE static CutChoice::Pieces guess(const Lanes& lanes, const PlanTask& task) {
    const PlanMemory& memory = task.memory;
    FewTileDivider<Block>::price_by(lanes, task);
    Nanoseconds total = 0;
    visit_held<FewTiles::held<Block>()>(lanes, memory.shape[PlanMemory::kPacks],
                                        [&](std::size_t, std::int32_t i) { total += memory.loads[i].whole; });
    const TaskCosts& costs = task.block.state->costs;
    const Nanoseconds in_all_heads = CostClasses::product(sum_of(lanes, total), costs.kv_heads);
    const Nanoseconds ideal = most(share_of(in_all_heads, costs.workers), costs.memory_time);
    const std::int32_t round = task.guess.round;
    const CutChoice::Pieces pieces = round < 0 ? CutChoice::Pieces{} : CutChoice::pieces_of(round, ideal);
    if (lanes.index() == 0) task.block.state->sketch.pieces = pieces;
    return pieces;
  }

  template <class Block, class Lanes>
  TRUNKLINE_HOST_DEVICE static void cut_by(const Lanes& lanes, const PlanTask& task, const CutChoice::Pieces& pieces) {
    PlanMemory& memory = task.memory;
    if (lanes.index() == 0) memory.shape[PlanMemory::kOpenEnds] = 1;  // of other parts, before
    lanes.wait();
    std::int32_t items = 0;
    std::int32_t entries = 0;
    std::int32_t partials = 0;
    visit_whole<FewTiles::held<Block>()>(lanes, memory.shape[PlanMemory::kPacks],
                                         [&](std::size_t, std::int32_t i, bool here) {
                                           PlannedPack& pack = memory.packs[i];
                                           std::int32_t parts = 0;
                                           if (here) {
                                             parts = least(parts_of(memory.loads[i], pieces), kMostParts);
                                             pack.parts = parts;
                                             PackCut::note_open_ends<Block>(memory, pack);
                                           }
                                           const std::int32_t own = here ? parts * size_of(pack.positions) : 0;
                                           partials += parts > 1 ? own : 0;
                                           std::int32_t values[] = {parts, own};
                                           std::int32_t sums[2];
                                           sums_before(lanes, values, sums);
                                           if (here) pack.first_item = items + values[0];
                                           if (here) pack.first_entry = entries + values[1];
                                           items += sums[0];
                                           entries += sums[1];
                                         });
    partials = lanes.sum(partials);
    if (lanes.index() != 0) return;
    memory.shape[PlanMemory::kItems] = items;
    memory.shape[PlanMemory::kEntries] = entries;
    memory.shape[PlanMemory::kPartials] = partials;
    if (partials > 0 && FewItems::are_few(memory.shape)) memory.keep_own_items(task.block);
  }
  // More are no few items, and their sums stay below 2^31.
  static constexpr std::int32_t kMostParts = FewItems::kMost + 1;

  /// What does not depend on how packs are cut.
  template <class Block, class Lanes>
  TRUNKLINE_HOST_DEVICE static void place_fragments(const Lanes& lanes, const PlanTask& task) {
    const PlanMemory& memory = task.memory;
    std::int32_t fragments = 0;
    std::int32_t masks = 0;
    bool many = false;
    visit_whole<FewTiles::held<Block>()>(lanes, memory.shape[PlanMemory::kPacks],
                                         [&](std::size_t, std::int32_t i, bool here) {
                                           PlannedPack& pack = memory.packs[i];
                                           std::int32_t values[] = {0, 0};
                                           if (here) {
                                             const TileSums& tile = memory.sums[pack.tile];
                                             many = many || tile.fragments > FewTiles::kMostFragments;
                                             pack.tokens = tile.tokens;
                                             pack.cut_tokens = tile.cut_tokens;
                                             values[0] = tile.fragments;
                                             values[1] = tile.masked;
                                           }
                                           std::int32_t sums[2];
                                           sums_before(lanes, values, sums);
                                           if (here) pack.first_fragment = fragments + values[0];
                                           if (here) pack.first_mask = masks + values[1];
                                           fragments += sums[0];
                                           masks += sums[1];
                                         });
    many = lanes.any(many);
    if (lanes.index() != 0) return;
    memory.shape[PlanMemory::kFragments] = many ? INT32_MAX : fragments;
    memory.shape[PlanMemory::kMasks] = masks;
  }

  // On devices numbers of 32 bits are added and divided in a fraction of the time.
  static constexpr Nanoseconds kSmall = Nanoseconds{1} << 31;

  /// Over the lanes.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static Nanoseconds sum_of(const Lanes& lanes, Nanoseconds value) {
    if (lanes.any(value >= kSmall / lanes.count())) return lanes.sum(value);
    return lanes.sum(static_cast<std::uint32_t>(value));
  }
  TRUNKLINE_HOST_DEVICE static Nanoseconds share_of(Nanoseconds total, std::int32_t workers) {
    if (total >= kSmall) return quotient(total, workers);
    return static_cast<std::uint32_t>(total) / static_cast<std::uint32_t>(workers);
  }
  TRUNKLINE_HOST_DEVICE static std::int32_t parts_of(const TaskLoad& load, const CutChoice::Pieces& pieces) {
    if (load.whole >= kSmall || load.tokens >= kSmall) return CutChoice::parts(load, pieces);
    return CutChoice::parts(static_cast<std::uint32_t>(load.whole), static_cast<std::uint32_t>(load.tokens),
                            static_cast<std::uint32_t>(least(pieces.cost, kSmall)), pieces.longer);
  }
};

}  // namespace trunkline
