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
        list_by(lanes, task, tiles, width, task.begins_of(number, tiles));
      } else if (i == 1) {
        if (lanes.index() == 0) Lister::keep_cuts(task, number);
      } else {
        cut_by(lanes, task, tiles, width, number);
      }
    });
  }

  /// Tiles that are guessed, without cuts. Who leads the sketch finds what they cost, too, and whether they are those
  /// of the guessed try.
  TRUNKLINE_HOST_DEVICE void list_sketch(SketchPart part) {
    const PlanTask& task = task_;
    Block& block = block_;
    block_.each_warp(part == SketchPart::kLeads ? 3 : 1, [&task, &block](std::int32_t i, auto&& lanes) {
      const TileGuess& guess = task.guess;
      if (i == 0) {
        list_by(lanes, task, guess.tiles, guess.width, guess.begins);
      } else if (i == 1) {
        const bool right = TileTry(block, task).are_tiles_of(lanes, guess);
        if (lanes.index() == 0) task.block.state->sketch.right = right ? 1 : 0;
      } else {
        price_by(lanes, task);
      }
    });
  }

 private:
  using Lister = PackLister<Block>;

  /// Frames, packs and shape; and whether each block has room for what all tiles stream.
  /// \param begins of tiles, among the requests that they hold
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void list_by(const Lanes& lanes, const PlanTask& task, std::int32_t tiles,
                                            std::int32_t width, const std::int32_t* begins) {
    constexpr std::size_t kHeld = FewTiles::kMost / Block::kLanes;
    PlanMemory& memory = task.memory;
    FewPacks& few = *task.block.few;
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
    few.shape[PlanMemory::kAsTried] = 1;
    memory.keep_few(few);
    const bool own =
        before <= task.block.own_tiles.segment_room && task.forest.query_begin[task.forest.rows] <= task.block.rows;
    few.shape[PlanMemory::kOwnTiles] = own ? 1 : 0;
    if (!own) return;
    memory.keep_own_tiles(task.block.own_tiles);
    task.block.state->clear = 0;
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

  /// Loads of a sketch's tiles, none of which is cut, and what they read.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void price_by(const Lanes& lanes, const PlanTask& task) {
    constexpr std::size_t kHeld = FewTiles::kMost / Block::kLanes;
    const TileGuess& guess = task.guess;
    BlockMemory::State& state = *task.block.state;
    FewPacks& few = *task.block.few;
    TaskLoad held[kHeld];
    std::int64_t tokens = 0;
    visit_held<kHeld>(lanes, guess.tiles, [&](std::size_t k, std::int32_t i) {
      held[k] = PackCut::tried_load(task, guess.width, {guess.begins[i], guess.begins[i + 1]});
      tokens += held[k].tokens;
    });
    tokens = lanes.sum(tokens);
    const ReadCosts reads = {tokens, state.costs.of_reads(state.requests.distinct_tokens, tokens)};
    lanes.wait();
    visit_held<kHeld>(lanes, guess.tiles, [&](std::size_t k, std::int32_t i) {
      held[k].whole = held[k].uncut_cost(state.costs, reads.costs.memory_per_token);
      few.loads[i] = held[k];
      few.classes[i] = static_cast<std::uint16_t>(CostClasses::class_of(held[k].whole));
    });
    if (lanes.index() != 0) return;
    state.chosen = {{}, reads, guess.tiles, guess.width};
    state.costs.set(reads.costs);
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

  /// As PackDivider::divide. \return whether all loads are those tried, which who follows does not know: else
  /// nothing is divided
  TRUNKLINE_HOST_DEVICE bool divide(SketchPart part) {
    const PlanTask& task = task_;
    block_.each_warp(part == SketchPart::kFollows ? 1 : 2, [&task, part](std::int32_t i, auto&& lanes) {
      const bool sketch = part != SketchPart::kNone;
      if (i == 0) {
        place_by(lanes, *Block::forgotten(&task), sketch);
      } else {
        check_by(lanes, *Block::forgotten(&task), sketch);
      }
    });
    if (part == SketchPart::kFollows) return true;
    const std::int32_t* const shape = task_.memory.shape;
    return shape[PlanMemory::kFits] != kTooMany && shape[PlanMemory::kAsTried] != 0;
  }

 private:
  static constexpr std::int32_t kTooMany = 2;
  static constexpr std::size_t kHeld = FewTiles::kMost / Block::kLanes;

  /// \param whole no pack is cut; else parts are known
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void place_by(const Lanes& lanes, const PlanTask& task, bool whole) {
    const PlanMemory& memory = task.memory;
    const std::int32_t packs = memory.shape[PlanMemory::kPacks];
    PackCut::Counts all{};
    std::int32_t partials = 0;
    bool many = false;
    visit_whole<kHeld>(lanes, packs, [&](std::size_t, std::int32_t i, bool here) {
      PackCut::Counts own{};
      if (here) {
        own = PackCut::counts_of(memory, memory.packs[i], whole ? 1 : memory.packs[i].parts);
        PackCut::put_tile<Block>(memory, i, own.parts);
        partials += own.parts > 1 ? own.entries : 0;
        many = many || own.parts > kMostParts || own.fragments > kMostFragments;
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

  /// \param sketch whose packs are told to be tiles
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE static void check_by(const Lanes& lanes, const PlanTask& task, bool sketch) {
    const PlanMemory& memory = task.memory;
    bool other = sketch && task.block.state->requests.distinct_tokens != task.forest.distinct_tokens;
    visit_held<kHeld>(lanes, memory.shape[PlanMemory::kPacks], [&](std::size_t, std::int32_t i) {
      const TaskLoad tried = memory.loads[i];
      other = other || !PackCut::load_of(task, memory.packs[i]).costs_as(tried);
      if (!sketch)
        memory.classes[i] = static_cast<std::uint16_t>(CostClasses::class_of(tried.whole));  // where none is cut
    });
    other = lanes.any(other);
    if (lanes.index() != 0) return;
    if (other) memory.shape[PlanMemory::kAsTried] = 0;
    tell_batch(task, task.block.state->chosen.reads.read_tokens);
  }

  // Their sums stay below 2^31.
  static constexpr std::int32_t kMostParts = 1 << 15;
  static constexpr std::int32_t kMostFragments = 1 << 25;

  Block& block_;
  const PlanTask& task_;
};

}  // namespace trunkline
