// Memory of planning that each block has for itself: on devices best in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cost_classes.hpp"
#include "plan/cut_choice.hpp"
#include "plan/policies/trunk_core.hpp"
#include "plan/team/item_lists.hpp"
#include "plan/team/planned_pack.hpp"
#include "plan/team/team_machine.hpp"
#include "plan/team/team_memory.hpp"
#include "plan/team/team_more.hpp"
#include "plan/team/tile_guess.hpp"

namespace trunkline {

/// Of one try at cuts (team_cuts.hpp).
struct CutTry {
  std::uint32_t bound;
  std::uint32_t cost_low;
  std::uint32_t cost_high;
  std::uint32_t partials;
  std::uint32_t empty;  ///< tasks without tokens
  std::uint32_t large;  ///< of few loads: sums would overflow
  Nanoseconds work;     ///< both once all is summed
  Nanoseconds time;
};

/// What all items read, and what depends on it.
struct ReadCosts {
  std::int64_t read_tokens;
  TaskCosts::OfReads costs;
};

/// How items are cut, as CutChoice has it.
struct CutOutcome {
  Nanoseconds time;
  Nanoseconds work;
  Nanoseconds ideal;
  CutChoice::Pieces pieces;
  ReadCosts reads;
};

/// How the items of the chosen tiles are cut, unless packs are others than tiles.
struct ChosenCuts {
  CutChoice::Pieces pieces;
  ReadCosts reads;
  std::int32_t number;  ///< of the try
  std::int32_t tiles;
  std::int32_t width;  ///< before narrow ones are chosen for what is left
};

/// A try at tiles, of which all blocks are told.
struct TriedTiles {
  static constexpr std::int32_t kMost = TeamMachine::kMaxHeights + TrunkCore::kEarlyTries;

  TrunkChoice choice;
  CutChoice::Pieces pieces;  ///< how its items are cut
  ReadCosts reads;
  std::int32_t possible;                     ///< 1: it is
  std::int32_t other_begins;                 ///< 1: some of as many as TileGuess has are others than its
  std::int32_t may_close;                    ///< of possible full tiles; 0: those with a cap would be the same
  std::int32_t may_share;                    ///< 1: there are tiles of a share of the queries, of these, too
  std::int32_t begins[FewTiles::kMost + 1];  ///< of few tiles: each one's first request, among those that tiles hold

  /// Those that others are told of.
  TRUNKLINE_HOST_DEVICE std::int32_t words() const {
    constexpr auto kBefore = static_cast<std::int32_t>(offsetof(TriedTiles, begins) / sizeof(std::int32_t));
    return kBefore + (possible != 0 && choice.tiles <= FewTiles::kMost ? choice.tiles + 1 : 0);
  }
};

/// A plan that is made while tiles are tried.
struct PlanSketch {
  /// What all blocks are told.
  struct alignas(16) Made {
    std::int32_t by_try;  ///< whose tiles it has; -1: there is none
    std::int32_t longer;  ///< CutChoice::Pieces, by which they are cut, as what follows
    Nanoseconds cost;
  };
  Made made;
  CutChoice::Pieces pieces;  ///< as is guessed, by each block that makes it
  TeamPlanStatus status;     ///< known to the last block
};

/// What each block has for itself.
struct BlockMemory {
  static constexpr std::int32_t kTries = 1 + CutChoice::kRounds;
  static_assert(kTries + 1 <= 8);  // each_warp_for
  static constexpr std::int32_t kClasses = static_cast<std::int32_t>(CostClasses::kClasses);
  static constexpr std::int32_t kChunk = 32;  // classes that one warp looks through
  static constexpr std::int32_t kChunks = kClasses / kChunk;
  static_assert(kChunk * kChunks == kClasses);

  /// Numbers that all threads of a block need.
  struct State {
    TaskCosts costs;
    TrunkRequests requests;
    CutTry tries[kTries];
    TriedTiles tried[TriedTiles::kMost];
    PlanSketch sketch;
    CutOutcome serial;
    ReadCosts reads;    ///< of few loads, as what follows
    Nanoseconds ideal;  ///< were all workers busy to the end
    ChosenCuts chosen;
    std::uint32_t large;       ///< numbers are too large for 32-bit sums
    std::int32_t busy_chunks;  ///< that have tasks
    std::int32_t widest;       ///< the most queries of a request, 1 at least
    std::int32_t first_width;  ///< of TeamMachine: the narrowest that holds the widest request
    std::int32_t full;         ///< requests that have tokens
    std::int32_t tiles;        ///< of a try; -1: not counted yet
    std::int32_t clear;        ///< 1: all classes are
    std::int32_t unlike;       ///< of what AlikeRequests were told: 1: some are not
    std::int64_t hot;          ///< tokens that several of them read
    std::int32_t in_order;     ///< 1: the requests that tiles hold are the first of Forest::order, without a gap
  };

  // Told before planning begins, or by blocks that are ahead.
  State* state;
  TileSums* tile_sums;   // [FewTiles::kMost] which blocks tell each other, as those below
  ItemMark* item_marks;  // [FewItems::kMost]
  std::int32_t* tokens;  // [rows] TrunkRequests, as those below
  std::int32_t* shared;  // [rows]

  std::int64_t* fresh_before;  // [rows + 1]
  std::int32_t* query_begin;   // [rows + 1]
  std::int64_t* listed;        // [rows]
  std::int32_t* begins;        // [rows + 1] of tiles
  std::int32_t* chunk_tasks;   // [kTries, kChunks]
  std::int32_t* busy_chunks;   // [kTries * kChunks] those that have tasks
  std::uint32_t* classes;      // [histograms, 3, kClasses] tasks, and their costs in two parts; clear between choices,
                               // where State::clear says so, until what is own lies there
  std::int32_t* ends;          // [rows] of tries: of the tile that begins at each request
  std::int32_t* jumps;         // [2, rows]
  std::int32_t* reached;       // [2, rows]
  TaskLoad* loads;             // [rows] over ends, jumps and reached, by which tiles are found
  FewPacks* few;               // of what is chosen, over the end of these
  std::byte* own_lists;        // take_own(): over the classes, behind what one thread cuts with, and tries, up to `few`
  std::int32_t own_bytes;
  TileLists own_tiles;  // of all of few tiles, behind their items there
  std::int32_t rows;    // room: whole_room() of those asked for
  std::int32_t histograms;

  /// \param apart what is told \param memory for all else: where it is of no use before planning begins, finding the
  /// forest may use it till then \param cut_tries from 1 to kTries that are made together, at 16.5 KiB each
  TRUNKLINE_HOST_DEVICE void lay_out(TeamMemory& apart, TeamMemory& memory, std::int32_t row_room,
                                     std::int32_t cut_tries) {
    rows = whole_room(row_room);
    histograms = cut_tries;
    const std::int32_t length = whole_room(row_room + 1);
    take_list(apart, state, 1);
    take_list(apart, tile_sums, FewTiles::kMost);
    take_list(apart, item_marks, FewItems::kMost);
    take_list(apart, tokens, rows);
    take_list(apart, shared, rows);
    take_list(memory, fresh_before, length);
    take_list(memory, query_begin, length);
    take_list(memory, listed, rows);
    take_list(memory, begins, length);
    take_list(memory, chunk_tasks, kTries * kChunks);
    take_list(memory, busy_chunks, kTries * kChunks);
    take_list(memory, classes, std::int64_t{4} * class_parts());
    take_tries(memory);
    take_own_tiles();
  }

  /// To be called once before all else, by one thread.
  TRUNKLINE_HOST_DEVICE void begin() const {
    state->widest = 1;
    state->unlike = 0;
    state->clear = 0;
  }
  template <class Block>
  TRUNKLINE_HOST_DEVICE void clear_classes(Block& block) const {
    FourWords* const parts = reinterpret_cast<FourWords*>(classes);
    block.each(class_parts(), [parts](std::int32_t i) { parts[i] = {}; });
  }
  /// Those that FewCuts needs clear, which nothing is that lies over classes. Without a barrier.
  template <class Block>
  TRUNKLINE_HOST_DEVICE void clear_few_classes(Block& block) const {
    FourWords* const parts = reinterpret_cast<FourWords*>(classes);
    block.each_at_last(kFewCutParts, [parts](std::int32_t i) { parts[i] = {}; });
  }

  /// Items of few tiles. \return behind them
  TRUNKLINE_HOST_DEVICE TeamMemory take_own(ItemLists& items) const {
    TeamMemory memory(own_lists);
    items.take_items(memory, FewItems::kMost, rows);
    items.item_marks = item_marks;
    return memory;
  }
  /// What a share of few tiles streams, beside the items of all, once there are frames. \param most_segments of a tile
  /// \return whether there is room
  TRUNKLINE_HOST_DEVICE bool take_own(TileLists& lists, const BlockShare& share, std::int32_t most_segments) const {
    ItemLists items;
    TeamMemory memory = take_own(items);
    take_tiles(memory, lists, share.most, share.most * most_segments);
    lists.first_tile = share.own.begin;
    lists.first_raw = size_of(share.own) > 0 ? few->frames[share.own.begin].raw_begin : 0;
    return memory.bytes() <= static_cast<std::size_t>(own_bytes);
  }

  // What is stored at once.
  struct alignas(16) FourWords {
    std::uint32_t words[4];
  };
  static constexpr std::int32_t kFewCutParts = kTries * FewTiles::kMost;  ///< of the classes, which FewCuts needs clear

 private:
  /// Ends, jumps and reached together are no longer than loads.
  TRUNKLINE_HOST_DEVICE void take_tries(TeamMemory& memory) {
    static_assert(5 * sizeof(std::int32_t) <= sizeof(TaskLoad) && sizeof(FewPacks) % sizeof(FourWords) == 0);
    static_assert(kFewCutParts <= kSerial);
    TeamMemory of_ends = memory;
    take_list(of_ends, ends, rows);
    take_list(of_ends, jumps, 2 * rows);
    take_list(of_ends, reached, 2 * rows);
    const std::int32_t bytes =
        most(rows * static_cast<std::int32_t>(sizeof(TaskLoad)), static_cast<std::int32_t>(sizeof(FewPacks)));
    auto* const begin = memory.take<std::byte>(bytes);
    loads = reinterpret_cast<TaskLoad*>(begin);
    few = reinterpret_cast<FewPacks*>(begin + bytes) - 1;
    own_lists = reinterpret_cast<std::byte*>(reinterpret_cast<FourWords*>(classes) + kSerial);
    own_bytes = (class_parts() - kSerial) * static_cast<std::int32_t>(sizeof(FourWords)) + bytes -
                static_cast<std::int32_t>(sizeof(FewPacks));
  }

  TRUNKLINE_HOST_DEVICE void take_tiles(TeamMemory& memory, TileLists& lists, std::int32_t tile_room,
                                        std::int32_t segment_room) const {
    lists.sums = tile_sums;
    lists.segment_room = segment_room;
    take_list(memory, lists.tiles, tile_room);
    take_list(memory, lists.query_at, rows);
    take_list(memory, lists.raw, segment_room);
    take_list(memory, lists.segments, std::int64_t{2} * segment_room);
  }
  TRUNKLINE_HOST_DEVICE void take_own_tiles() {
    constexpr auto kSegmentBytes = static_cast<std::int32_t>(sizeof(std::int32_t) + 2 * sizeof(TileSegment));
    constexpr std::int32_t kPadding = 3 * 16;  // TeamMemory's
    ItemLists items;
    TeamMemory memory = take_own(items);
    TeamMemory without_segments = memory;
    take_tiles(without_segments, own_tiles, FewTiles::kMost, 0);
    const std::int32_t left = own_bytes - static_cast<std::int32_t>(without_segments.bytes()) - kPadding;
    take_tiles(memory, own_tiles, FewTiles::kMost, most(left / kSegmentBytes, 0));
    own_tiles.first_tile = own_tiles.first_raw = 0;
  }

  // What CostClasses take, with which one thread cuts.
  static constexpr auto kSerial =
      static_cast<std::int32_t>((sizeof(CostClasses) + sizeof(FourWords) - 1) / sizeof(FourWords));

  TRUNKLINE_HOST_DEVICE std::int32_t class_parts() const {
    static_assert(kClasses % 4 == 0);
    return most(3 * kClasses / 4 * histograms, kSerial);
  }
};

}  // namespace trunkline
