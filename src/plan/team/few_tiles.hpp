// Tiles that are packs as they are, and few: listed by warps of each block, a lane a tile, with one barrier. What they
// stream is then found by each block for itself, where its own memory has room for that.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/team/pack_cut.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/team_more.hpp"
#include "plan/team/team_packs.hpp"

namespace trunkline {

template <class Block>
class FewTileLister {
 public:
  TRUNKLINE_HOST_DEVICE FewTileLister(Block& block, const PlanTask& task) : block_(block), task_(task) {}

  /// Whether these tiles are so, where packs are few.
  TRUNKLINE_HOST_DEVICE static bool are_few(const PlanTask& task, const TrunkChoice& choice) {
    return choice.tiles <= FewTiles::kMost && task.block.state->requests.count == task.forest.rows;
  }

  /// As PackLister::list_tiles.
  TRUNKLINE_HOST_DEVICE void list(const TrunkChoice& choice, std::int32_t number) {
    const PlanTask& task = task_;
    const std::int32_t tiles = choice.tiles;
    const std::int32_t width = choice.fill.width;
    block_.each_warp(3, [&task, tiles, width, number](std::int32_t i, auto&& lanes) {
      if (i == 0) {
        list_by(lanes, task, tiles, width, number);
      } else if (i == 1) {
        if (lanes.index() == 0) Lister::keep_cuts(task, number);
      } else {
        cut_by(lanes, task, tiles, width, number);
      }
    });
  }

 private:
  using Lister = PackLister<Block>;

  /// Frames, packs and shape; and whether each block has room for what all tiles stream.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void list_by(const Lanes& lanes, const PlanTask& task, std::int32_t tiles,
                                            std::int32_t width, std::int32_t number) {
    constexpr std::size_t kHeld = FewTiles::kMost / Block::kLanes;
    PlanMemory& memory = task.memory;
    FewPacks& few = *task.block.few;
    const std::int32_t* const begins = task.begins_of(number, tiles);
    std::int32_t before = 0;
    visit_whole<kHeld>(lanes, tiles, [&](std::size_t, std::int32_t i, bool here) {
      TileFrame tile{};
      std::int32_t segments = 0;
      if (here) {
        tile = Lister::frame_of(task, width, {begins[i], begins[i + 1]});
        segments = Lister::segments_of(memory, tile);
      }
      std::int32_t all = 0;
      tile.raw_begin = before + sum_before(lanes, segments, all);
      tile.raw_end = tile.raw_begin + segments;
      before += all;
      if (!here) return;
      few.frames[i] = tile;
      PlannedPack& pack = few.packs[i];
      pack.tile = i;
      pack.order_index = 0;
      pack.positions = tile.positions;
      pack.width = tile.width;
      pack.first_half = task.machine.first_half(tile.width, size_of(tile.positions));
    });
    if (lanes.index() != 0) return;
    few.shape[PlanMemory::kRaw] = before;
    few.shape[PlanMemory::kTiles] = tiles;
    few.shape[PlanMemory::kPacks] = tiles;
    few.shape[PlanMemory::kOpenEnds] = 1;
    few.shape[PlanMemory::kFewTiles] = 1;
    memory.keep_few(few);
    const bool own =
        before <= task.block.own_tiles.segment_room && task.forest.query_begin[task.forest.rows] <= task.block.rows;
    few.shape[PlanMemory::kOwnTiles] = own ? 1 : 0;
    if (own) memory.keep_own_tiles(task.block.own_tiles);
  }

  /// Loads of the tiles and how they are cut, as the try found it: what FewTileDivider compares with.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void cut_by(const Lanes& lanes, const PlanTask& task, std::int32_t tiles,
                                           std::int32_t width, std::int32_t number) {
    constexpr std::size_t kHeld = FewTiles::kMost / Block::kLanes;
    const BlockMemory::State& state = *task.block.state;
    const TriedTiles& tried = state.tried[number];
    FewPacks& few = *task.block.few;
    visit_held<kHeld>(lanes, tiles, [&](std::size_t, std::int32_t i) {
      TaskLoad load = PackCut::tried_load(task, width, {tried.begins[i], tried.begins[i + 1]});
      load.whole = load.uncut_cost(state.costs, tried.reads.costs.memory_per_token);
      few.loads[i] = load;
      few.packs[i].parts = CutChoice::parts(load, tried.pieces);
    });
  }

  Block& block_;
  const PlanTask& task_;
};

/// Cuts such packs as the try at their tiles did: by one warp, which places them, too.
template <class Block>
class FewTileDivider {
 public:
  TRUNKLINE_HOST_DEVICE FewTileDivider(Block& block, const PlanTask& task) : block_(block), task_(task) {}

  /// As PackDivider::divide. \return whether all loads are those tried: else nothing is divided
  TRUNKLINE_HOST_DEVICE bool divide() {
    const PlanTask& task = task_;
    block_.each_warp(2, [&task](std::int32_t i, auto&& lanes) {
      if (i == 0) {
        divide_by(lanes, *Block::forgotten(&task));
      } else if (lanes.index() == 0) {
        tell_batch(task, task.block.state->chosen.reads.read_tokens);
      }
    });
    return task.memory.shape[PlanMemory::kFits] != kNotAsTried;
  }

 private:
  static constexpr std::int32_t kNotAsTried = 2;

  template <class Lanes>
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static void divide_by(const Lanes& lanes, const PlanTask& task) {
    constexpr std::size_t kHeld = FewTiles::kMost / Block::kLanes;
    const PlanMemory& memory = task.memory;
    const std::int32_t packs = memory.shape[PlanMemory::kPacks];
    PackCut::Counts counts[kHeld];
    std::int32_t partials = 0;
    bool other = false;  // or too many
    visit_held<kHeld>(lanes, packs, [&](std::size_t k, std::int32_t i) {
      const PlannedPack& pack = memory.packs[i];
      const TaskLoad tried = memory.loads[i];
      const bool same = PackCut::load_of(task, pack).costs_as(tried);
      const PackCut cut{tried, pack.parts, PackCut::spans_of(memory, pack)};
      cut.put<Block>(memory, i);
      counts[k] = cut.counts();
      partials += cut.parts > 1 ? counts[k].entries : 0;
      other = other || !same || cut.parts > kMostParts || counts[k].fragments > kMostFragments;
    });
    other = lanes.any(other);
    partials = lanes.sum(partials);
    const bool whole = partials == 0;
    PackCut::Counts all{};
    visit_whole<kHeld>(lanes, packs, [&](std::size_t k, std::int32_t i, bool here) {
      const PackCut::Counts own = here ? counts[k] : PackCut::Counts{};
      std::int32_t values[] = {own.parts, own.entries, own.fragments, own.masks};
      std::int32_t sums[4];
      sums_before(lanes, values, sums);
      const PackCut::Counts before{all.parts + values[0], all.entries + values[1], all.fragments + values[2],
                                   all.masks + values[3]};
      all = {all.parts + sums[0], all.entries + sums[1], all.fragments + sums[2], all.masks + sums[3]};
      if (!here) return;
      PackCut::place(memory.packs[i], before);
      if (whole) memory.classes[i] = static_cast<std::uint16_t>(CostClasses::class_of(memory.loads[i].whole));
    });
    if (lanes.index() != 0) return;
    if (other || !PackCut::fit(all.parts, partials, all.fragments, task.machine.capacity)) {
      memory.shape[PlanMemory::kFits] = other ? kNotAsTried : 0;
      return;
    }
    PackCut::tell(all, partials, memory.shape);
  }

  // Their sums stay below 2^31.
  static constexpr std::int32_t kMostParts = 1 << 15;
  static constexpr std::int32_t kMostFragments = 1 << 25;

  Block& block_;
  const PlanTask& task_;
};

}  // namespace trunkline
