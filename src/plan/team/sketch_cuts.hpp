// How the packs of a sketch (plan_sketch.hpp) are cut: as is guessed, or as the try at its tiles has found it. Cuts
// follow from what requests share, so that a warp finds them while others find what tiles stream; then, where items are
// few, all that is to be known of them is found in one step and a scan.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "base/quotient.hpp"
#include "plan/cost_classes.hpp"
#include "plan/cut_choice.hpp"
#include "plan/task_costs.hpp"
#include "plan/team/few_tiles.hpp"
#include "plan/team/item_lists.hpp"
#include "plan/team/item_places.hpp"
#include "plan/team/pack_cut.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/planned_pack.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

class SketchCuts {
 public:
  /// What packs cost, and how the guessed round of CutChoice cuts them: as the try at them, if that takes this round.
  /// Needs nothing of what tiles stream. By a warp. \param cuts they may be cut
  template <class Block, class Lanes>
  TRUNKLINE_HOST_DEVICE static void guess(const Lanes& lanes, const PlanTask& task, bool cuts) {
    const PlanMemory& memory = task.memory;
    FewTileDivider<Block>::price_by(lanes, task);
    if (!cuts) return;
    Nanoseconds total = 0;
    visit_held<FewTiles::held<Block>()>(lanes, memory.shape[PlanMemory::kPacks],
                                        [&](std::size_t, std::int32_t i) { total += memory.loads[i].whole; });
    const TaskCosts& costs = task.block.state->costs;
    const Nanoseconds in_all_heads = CostClasses::product(sum_of(lanes, total), costs.kv_heads);
    const Nanoseconds ideal = most(share_of(in_all_heads, costs.workers), costs.memory_time);
    const std::int32_t round = task.guess.round;
    const CutChoice::Pieces pieces = round < 0 ? CutChoice::Pieces{} : CutChoice::pieces_of(round, ideal);
    if (lanes.index() == 0) task.block.state->sketch.pieces = pieces;
    cut_by<Block>(lanes, task, pieces);
  }

  /// Where lists of packs begin, once these are cut and it is known what tiles stream; and where few items begin.
  /// \param tried null: as is guessed \return whether they fit, whatever is split: each item may add a span
  template <class Block>
  TRUNKLINE_HOST_DEVICE static bool place(Block& block, const PlanTask& task, const CutChoice::Pieces* tried) {
    if (tried != nullptr) {
      block.each_warp(
          1, [&task, tried](std::int32_t, auto&& lanes) { cut_by<Block>(lanes, *Block::forgotten(&task), *tried); });
    }
    const std::int32_t* const shape = task.memory.shape;
    const bool places = places_items(task.memory);
    const std::int32_t parts = places ? shape[PlanMemory::kItems] - shape[PlanMemory::kPacks] : 0;
    // One warp lays out fragments and items, another one partials, where there is one; then a warp each part.
    const std::int32_t before = places && parts < kPlacedParts ? 2 : 1;
    block.each_warp(before + parts, [&task, places, before](std::int32_t i, auto&& lanes) {
      const PlanTask& its = *Block::forgotten(&task);
      if (i >= before) return mark_part<Block>(lanes, its, i - before);
      if (i == 0) place_fragments<Block>(lanes, its);
      if (!places) return;
      if (i == 0) {
        lanes.wait();
        place_by(lanes, its, {0, its.memory.shape[PlanMemory::kItems]});
      }
      if (i == before - 1) place_slots(lanes, its);
    });
    if (places) {
      block.each_warp(1, [&task](std::int32_t, auto&& lanes) { sum_splits<Block>(lanes, *Block::forgotten(&task)); });
    }
    const std::int32_t items = shape[PlanMemory::kItems];
    const bool cut = shape[PlanMemory::kPartials] > 0;
    const std::int64_t spans = std::int64_t{shape[PlanMemory::kFragments]} + (cut ? items : 0);
    return (!cut || FewItems::are_few(shape)) && items <= task.machine.capacity.items &&
           shape[PlanMemory::kPartials] <= task.machine.capacity.partials && spans <= task.machine.capacity.spans;
  }
  /// Whether place() lays items out, too: few of them, of which no block is told.
  TRUNKLINE_HOST_DEVICE static bool places_items(const PlanMemory& memory) {
    const std::int32_t* const shape = memory.shape;
    return shape[PlanMemory::kPartials] > 0 && shape[PlanMemory::kOwnTiles] == kAllTiles &&
           shape[PlanMemory::kItems] - shape[PlanMemory::kPacks] <= kPlacedParts && FewItems::are_few(shape);
  }

 private:
  static constexpr std::int32_t kPlacedParts = 15;  // of which each has one of a block's sixteen warps, and one is left

  template <class Block, class Lanes>
  TRUNKLINE_HOST_DEVICE static void cut_by(const Lanes& lanes, const PlanTask& task, const CutChoice::Pieces& pieces) {
    PlanMemory& memory = task.memory;
    std::int32_t items = 0;
    std::int32_t entries = 0;
    std::int32_t partials = 0;
    visit_whole<FewTiles::held<Block>()>(lanes, memory.shape[PlanMemory::kPacks],
                                         [&](std::size_t, std::int32_t i, bool here) {
                                           PlannedPack& pack = memory.packs[i];
                                           std::int32_t parts = 0;
                                           if (here) {
                                             parts = least(parts_of(memory.loads[i], pieces), kManyParts);
                                             pack.parts = parts;
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
  static constexpr std::int32_t kManyParts = FewItems::kMost + 1;

  /// Tokens and fragments of packs, and what follows from them.
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
                                             PackCut::note_open_ends<Block>(memory, pack);
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

  /// Where an item begins that is not the first of its pack, which is the tile of its number. \param number of those
  template <class Block, class Lanes>
  TRUNKLINE_HOST_DEVICE static void mark_part(const Lanes& lanes, const PlanTask& task, std::int32_t number) {
    const PlanMemory& memory = task.memory;
    std::int32_t begun = 0;
    visit_held<FewTiles::held<Block>()>(lanes, memory.shape[PlanMemory::kPacks], [&](std::size_t, std::int32_t i) {
      begun += memory.packs[i].first_item - i <= number ? 1 : 0;
    });
    const std::int32_t tile = lanes.sum(begun) - 1;
    const std::int32_t item = number + tile + 1;
    const PlannedPack& pack = memory.packs[tile];  // some of which another warp writes: cut_tokens are a tile's, too
    const std::int64_t token =
        part_begin(memory.sums[tile].cut_tokens, CutChoice::kGranule, pack.parts, item - pack.first_item);
    const PartBegin begin = part_in(lanes, task, tile, token);
    if (lanes.index() == 0) store_whole(memory.item_marks[item], mark_of(begin));
  }
  /// Where the partials of each query begin, and of each pack that its first item begins where it does.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void place_slots(const Lanes& lanes, const PlanTask& task) {
    const PlanMemory& memory = task.memory;
    TRUNKLINE_ROLLED
    for (std::int32_t i = 0; i < memory.shape[PlanMemory::kPacks]; ++i) {
      const PlannedPack& pack = memory.packs[i];
      if (lanes.index() == 0) store_whole(memory.item_marks[pack.first_item], ItemMark{});
      count_partials(lanes, memory, pack);
    }
    lanes.wait();
    std::int64_t* const slots = memory.slots_of;
    const std::int32_t queries = task.forest.query_begin[task.forest.rows];
    const std::int32_t each = ceil_div(queries, lanes.count());
    const Range own = {least(lanes.index() * each, queries), least((lanes.index() + 1) * each, queries)};
    std::int64_t sum = 0;
    for (std::int32_t i = own.begin; i < own.end; ++i) sum += slots[i];
    std::int64_t all = 0;
    std::int64_t before = sum_before(lanes, sum, all);
    TRUNKLINE_ROLLED
    for (std::int32_t i = own.begin; i < own.end; ++i) {
      const std::int64_t its = slots[i];
      slots[i] = before;
      before += its;
    }
    if (lanes.index() == 0) slots[queries] = all;
  }
  /// How many spans cuts add before each item.
  template <class Block, class Lanes>
  TRUNKLINE_HOST_DEVICE static void sum_splits(const Lanes& lanes, const PlanTask& task) {
    const PlanMemory& memory = task.memory;
    const std::int32_t items = memory.shape[PlanMemory::kItems];
    std::int64_t before = 0;
    visit_whole<FewTiles::held<Block>()>(lanes, items, [&](std::size_t, std::int32_t i, bool here) {
      std::int64_t all = 0;
      const std::int64_t splits = sum_before(lanes, here ? memory.item_marks[i].splits : 0, all);
      if (here) memory.item_splits[i] = before + splits;
      before += all;
    });
    if (lanes.index() != 0) return;
    memory.item_splits[items] = before;
    const auto merges = static_cast<std::int32_t>(memory.slots_of[task.forest.query_begin[task.forest.rows]] >> 32);
    *memory.cuts = {static_cast<std::int32_t>(before), static_cast<std::int32_t>(before >> 32), merges, 1};
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
