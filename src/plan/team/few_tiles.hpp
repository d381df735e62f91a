// Tiles that are packs as they are, and few: listed by warps of each block, a lane a tile or two, with one barrier.
// What they stream each block then finds for itself where its own memory has room for that, of all of them or of a
// share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/cost_classes.hpp"
#include "plan/team/pack_cut.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/team_more.hpp"
#include "plan/team/team_packs.hpp"
#include "plan/team/team_requests.hpp"

namespace trunkline {

template <class Block>
class FewTileLister {
 public:
  TRUNKLINE_HOST_DEVICE FewTileLister(Block& block, const PlanTask& task) : block_(block), task_(task) {}

  /// Whether these tiles are so, where packs are few.
  TRUNKLINE_HOST_DEVICE static bool are_few(const PlanTask& task, const TrunkChoice& choice) {
    return choice.tiles <= FewTiles::kMost && task.block.state->requests.count == task.forest.rows;
  }

  /// As PackLister::list_tiles. \param share_of(tiles) the block's BlockShare, where it has no room for all
  template <class ShareOf>
  TRUNKLINE_HOST_DEVICE void list(const TrunkChoice& choice, std::int32_t number, ShareOf share_of) {
    const PlanTask& task = task_;
    const std::int32_t tiles = choice.tiles;
    const std::int32_t width = choice.fill.width;
    block_.each_warp(3, [&task, share_of, tiles, width, number](std::int32_t i, auto&& lanes) {
      const std::int32_t* const begins = task.begins_of(number, tiles);
      if (i == 0) {
        list_by(lanes, task, tiles, width, begins, share_of);
      } else if (i == 1) {
        if (lanes.index() == 0) Lister::keep_cuts(task, number);
      } else {
        cut_by(lanes, task, tiles, width, number, begins);
      }
    });
  }

  /// Tiles that are guessed, of requests that are alike.
  /// \param priced finds what their costs depend on, too \param hot tokens that several of them read \param share_of
  /// list()'s
  template <class ShareOf>
  TRUNKLINE_HOST_DEVICE void list_sketch(bool priced, std::int64_t hot, ShareOf share_of) {
    const PlanTask& task = task_;
    block_.each_warp(priced ? 2 + task.guess.tiles.count : 1, [&task, share_of, hot](std::int32_t i, auto&& lanes) {
      const TileGuess& guess = task.guess;
      if (i == 0) {
        list_by(lanes, task, guess.tiles.count, guess.tiles.width, guess.begins, share_of);
      } else if (i == 1) {
        name_costs_by(lanes, task, hot);
      } else {
        sum_tokens_by(lanes, task, i - 2);
      }
    });
  }

 private:
  using Lister = PackLister<Block>;

  /// What all requests read together in the guessed tiles, and so what a token costs: of each tile's first request
  /// those tokens again that it shares with the one before.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void name_costs_by(const Lanes& lanes, const PlanTask& task, std::int64_t hot) {
    BlockMemory::State& state = *task.block.state;
    std::int64_t again = 0;
    visit_held<FewTiles::held<Block>()>(lanes, task.guess.tiles.count, [&](std::size_t, std::int32_t i) {
      again += i == 0 ? 0 : task.block.shared[task.guess.begins[i]];
    });
    again = lanes.sum(again);
    if (lanes.index() != 0) return;
    RequestLoader<Block>::name_costs(task, hot);
    const std::int64_t distinct = task.forest.distinct_tokens;
    state.reads = {distinct + again, state.costs.of_reads(distinct, distinct + again)};
    state.costs.set(state.reads.costs);
  }

  /// Tokens of a guessed tile: those of its first request, and what each other one does not share with the one before.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void sum_tokens_by(const Lanes& lanes, const PlanTask& task, std::int32_t tile) {
    const std::int32_t first = task.guess.begins[tile];
    std::int64_t tokens = 0;
    TRUNKLINE_ROLLED
    for (std::int32_t i = first + lanes.index(); i < task.guess.begins[tile + 1]; i += lanes.count()) {
      tokens += task.block.tokens[i] - (i == first ? 0 : task.block.shared[i]);
    }
    tokens = lanes.sum(tokens);
    if (lanes.index() == 0) task.block.few->loads[tile].tokens = tokens;
  }

  /// Frames, packs and shape; and whether each block has room for what tiles stream.
  /// \param begins of tiles, among the requests that they hold
  template <class Lanes, class ShareOf>
  TRUNKLINE_HOST_DEVICE static void list_by(const Lanes& lanes, const PlanTask& task, std::int32_t tiles,
                                            std::int32_t width, const std::int32_t* begins, ShareOf share_of) {
    PlanMemory& memory = task.memory;
    FewPacks& few = *task.block.few;
    std::int32_t before = 0;
    std::int32_t most_segments = 0;
    visit_whole<FewTiles::held<Block>()>(lanes, tiles, [&](std::size_t, std::int32_t i, bool here) {
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
      most_segments = most(most_segments, segments);
      if (!here) return;
      few.frames[i] = tile;
      PlannedPack& pack = few.packs[i];
      pack.tile = i;
      pack.order_index = 0;
      pack.positions = tile.positions;
      pack.width = tile.width;
      pack.first_half = task.machine.first_half(tile.width, size_of(tile.positions));
    });
    most_segments = lanes.greatest(most_segments);
    lanes.wait();  // for frames
    if (lanes.index() != 0) return;
    few.shape[PlanMemory::kRaw] = before;
    few.shape[PlanMemory::kTiles] = tiles;
    few.shape[PlanMemory::kPacks] = tiles;
    few.shape[PlanMemory::kOpenEnds] = 1;
    few.shape[PlanMemory::kFewTiles] = 1;
    few.shape[PlanMemory::kAsTried] = 1;
    memory.keep_few(few);
    const bool near = task.forest.query_begin[task.forest.rows] <= task.block.rows;
    OwnTiles own = kNoTiles;
    if (near && memory.keep_all_tiles(task.block, before)) {
      own = kAllTiles;
    } else if (near && memory.keep_own_tiles(task.block, share_of(tiles), most_segments)) {
      own = kSharedTiles;
    }
    few.shape[PlanMemory::kOwnTiles] = own;
    if (own != kNoTiles) task.block.state->clear = 0;
  }

  /// Loads of the tiles and how they are cut, as the try found it: what FewTileDivider compares with.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void cut_by(const Lanes& lanes, const PlanTask& task, std::int32_t tiles,
                                           std::int32_t width, std::int32_t number, const std::int32_t* begins) {
    const BlockMemory::State& state = *task.block.state;
    const TriedTiles& tried = state.tried[number];
    FewPacks& few = *task.block.few;
    visit_held<FewTiles::held<Block>()>(lanes, tiles, [&](std::size_t, std::int32_t i) {
      TaskLoad load = PackCut::tried_load(task, width, {begins[i], begins[i + 1]});
      load.whole = load.uncut_cost(state.costs, tried.reads.costs.memory_per_token);
      few.loads[i] = load;
      few.packs[i].parts = CutChoice::parts(load, tried.pieces);
    });
  }

  Block& block_;
  const PlanTask& task_;
};

/// Cuts such packs as the try at their tiles did: by a warp, which places them, too, while another one sees to their
/// loads.
template <class Block>
class FewTileDivider {
 public:
  TRUNKLINE_HOST_DEVICE FewTileDivider(Block& block, const PlanTask& task) : block_(block), task_(task) {}

  /// As PackDivider::divide. \return whether all loads are those tried: else nothing is divided
  TRUNKLINE_HOST_DEVICE bool divide() {
    const PlanTask& task = task_;
    block_.each_warp(2, [&task](std::int32_t i, auto&& lanes) {
      if (i == 0) {
        place_by(lanes, *Block::forgotten(&task), false);
      } else {
        check_by(lanes, *Block::forgotten(&task));
      }
    });
    const std::int32_t* const shape = task_.memory.shape;
    return shape[PlanMemory::kFits] != kTooMany && shape[PlanMemory::kAsTried] != 0;
  }
  /// A sketch's, none of which is cut. \return whether they fit
  TRUNKLINE_HOST_DEVICE bool divide_sketch() {
    const PlanTask& task = task_;
    block_.each_warp(1, [&task](std::int32_t, auto&& lanes) { place_by(lanes, *Block::forgotten(&task), true); });
    return task_.memory.shape[PlanMemory::kFits] == 1;
  }
  /// What packs that are tiles of requests that are alike cost, which a try at these tiles finds, too: once tokens are
  /// summed up, whatever tiles stream.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void price_by(const Lanes& lanes, const PlanTask& task) {
    const PlanMemory& memory = task.memory;
    BlockMemory::State& state = *task.block.state;
    const std::int32_t packs = memory.shape[PlanMemory::kPacks];
    visit_held<FewTiles::held<Block>()>(lanes, packs, [&](std::size_t, std::int32_t i) {
      TaskLoad load = PackCut::alike_load(task, memory.packs[i], memory.loads[i].tokens);
      load.price(state.costs);
      memory.loads[i] = load;
      memory.classes[i] = static_cast<std::uint16_t>(CostClasses::class_of(load.whole));
    });
    if (lanes.index() == 0) tell_batch(task, state.reads.read_tokens);
  }

 private:
  static constexpr std::int32_t kTooMany = 2;
  /// \param whole no pack is cut; else parts are known
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void place_by(const Lanes& lanes, const PlanTask& task, bool whole) {
    const PlanMemory& memory = task.memory;
    const std::int32_t packs = memory.shape[PlanMemory::kPacks];
    PackCut::Counts all{};
    std::int32_t partials = 0;
    bool many = false;
    visit_whole<FewTiles::held<Block>()>(lanes, packs, [&](std::size_t, std::int32_t i, bool here) {
      PackCut::Counts own{};
      if (here) {
        own = PackCut::counts_of(memory, memory.packs[i], whole ? 1 : memory.packs[i].parts);
        PackCut::put_tile<Block>(memory, i, own.parts);
        partials += own.parts > 1 ? own.entries : 0;
        many = many || own.parts > kMostParts || own.fragments > FewTiles::kMostFragments;
      }
      std::int32_t values[] = {own.parts, own.entries, own.fragments, own.masks};
      std::int32_t sums[4];
      sums_before(lanes, values, sums);
      const PackCut::Counts before{all.parts + values[0], all.entries + values[1], all.fragments + values[2],
                                   all.masks + values[3]};
      all = {all.parts + sums[0], all.entries + sums[1], all.fragments + sums[2], all.masks + sums[3]};
      if (here) PackCut::place(memory.packs[i], before);
    });
    many = lanes.any(many);
    partials = lanes.sum(partials);
    if (lanes.index() != 0) return;
    if (many || !PackCut::fit(all.parts, partials, all.fragments, task.machine.capacity)) {
      memory.shape[PlanMemory::kFits] = many ? kTooMany : 0;
      return;
    }
    PackCut::tell(all, partials, memory.shape);
  }

  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void check_by(const Lanes& lanes, const PlanTask& task) {
    const PlanMemory& memory = task.memory;
    bool other = false;
    visit_held<FewTiles::held<Block>()>(lanes, memory.shape[PlanMemory::kPacks], [&](std::size_t, std::int32_t i) {
      const TaskLoad tried = memory.loads[i];
      other = other || !PackCut::load_of(task, memory.packs[i]).costs_as(tried);
      memory.classes[i] = static_cast<std::uint16_t>(CostClasses::class_of(tried.whole));  // where none is cut
    });
    other = lanes.any(other);
    if (lanes.index() != 0) return;
    if (other) memory.shape[PlanMemory::kAsTried] = 0;
    tell_batch(task, task.block.state->chosen.reads.read_tokens);
  }

  static constexpr std::int32_t kMostParts = 1 << 15;  // their sum stays below 2^31

  Block& block_;
  const PlanTask& task_;
};

}  // namespace trunkline
