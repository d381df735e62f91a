// Memory of planning by a team: what all blocks see, and what each block has for itself, which is best in shared
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cost_classes.hpp"
#include "plan/cut_choice.hpp"
#include "plan/policies/trunk_core.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/team_machine.hpp"
#include "plan/team/team_memory.hpp"
#include "plan/team/team_more.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// What a tile streams is dealt out from three lists (trunk_segments.cpp).
enum TileList : std::int32_t { kOwnList, kOwnOfSecondList, kCommonList, kTileLists };

/// A run of tokens that a tile streams.
struct alignas(16) TileSegment {
  std::int64_t first_token;       ///< those of its list before it, in slices (plan/slices.hpp)
  std::int32_t fragments_before;  ///< of its list: fragments are what dealing cuts segments into
  std::int32_t masked_before;     ///< those among them that not all queries of the tile see
  std::int32_t row;
  std::int32_t begin;
  std::int32_t end;
  Range readers;  ///< positions, as of QueryOrder
  bool open_ended;
  bool masked;
};

/// A list of a tile's segments.
struct DealtList {
  const TileSegment* segments;
  std::int64_t tokens;  ///< in slices
  std::int64_t piece;   ///< tokens that are dealt at a time; 0: a segment
  std::int64_t pieces;
  std::int32_t count;
  std::int32_t fragments;
  std::int32_t masked;
};

/// A fragment, and where it comes in its pack.
struct alignas(16) DealtFragment {
  std::int32_t pack;
  std::int32_t row;
  std::int32_t begin;  ///< token positions
  std::int32_t end;
  Range readers;
  bool open_ended;
  bool masked;
  std::int64_t first_token;    ///< tokens of the pack before it, in slices
  std::int32_t rank;           ///< fragments of the pack before it
  std::int32_t masked_before;  ///< of these, masked ones
};

/// Halves of a pack that some readers are in. \param held positions of its queries \param middle of its second half
TRUNKLINE_HOST_DEVICE inline std::int32_t halves_of(Range readers, Range held, std::int32_t middle) {
  const bool first = most(readers.begin, held.begin) < least(readers.end, middle);
  const bool second = most(readers.begin, middle) < least(readers.end, held.end);
  return (first ? 1 : 0) + (second ? 1 : 0);
}

/// Requests that stream their tokens together.
struct TileFrame {
  Range members;            ///< of Forest::order
  Range positions;          ///< of their queries
  std::int32_t first_node;  ///< that the first member ends in
  std::int32_t last_node;   ///< the last
  std::int32_t path;        ///< nodes from the root to first_node
  std::int32_t width;       ///< of TeamMachine
  std::int32_t middle;      ///< position of the second half's first query; 0: the tile works as one
};

/// And what they stream.
struct PlannedTile : TileFrame {
  std::int32_t raw_begin;  ///< of its segments, before they are parted into lists
  std::int32_t raw_end;
  std::int64_t tokens;
  std::int64_t cut_tokens;  ///< what its slices have room for
  std::int64_t matrix_tokens;
  std::int64_t open_tokens;  ///< of requests of their own
  DealtList lists[kTileLists];
};

/// Pack, with what cutting and laying out needs. Its queries are at one range of positions.
struct alignas(16) PlannedPack {
  std::int32_t tile;         ///< -1: one request alone, all of whose tokens are one segment
  std::int32_t order_index;  ///< of that request
  Range positions;
  std::int32_t width;
  std::int32_t first_half;
  std::int32_t parts;
  std::int32_t first_item;
  std::int32_t first_entry;  ///< of Plan::item_queries
  std::int32_t first_fragment;
  std::int32_t first_mask;
  std::int64_t tokens;
  std::int64_t cut_tokens;  ///< as cuts count them: a tile's in slices
};

/// A try at tiles.
struct TriedTiles {
  TrunkChoice choice;
  CutChoice::Pieces pieces;  ///< how its items are cut
  ReadCosts reads;
  bool possible;
};

/// What the planner says of the plan.
struct TeamPlanStatus {
  std::int32_t items;
  std::int32_t spans;
  std::int32_t masks;
  std::int32_t partials;
  std::int32_t fallbacks;  ///< 1 where a capacity forced the plan to `flat`
  std::int32_t unplanned;  ///< 1 where not even `flat` fits: the plan has no item
  std::int32_t growth;     ///< tokens by which rows may grow before planning anew pays (plan_growth.hpp)
  std::int64_t read_tokens;
  std::int64_t total_tokens;
  std::int64_t distinct_tokens;
};

/// What all blocks see.
struct PlanMemory {
  static constexpr std::int32_t kTries = TeamMachine::kMaxHeights + TrunkCore::kEarlyTries;

  // By index of Forest::order; of each block for itself where `near` is set.
  std::int32_t* queries;       // [rows]
  std::int32_t* path_tokens;   // [rows] to the end of its node; -1: an empty request
  std::int32_t* position;      // [rows + 1] of its first query
  std::int32_t* tails_before;  // [rows + 1] requests before it that end where others go on
  std::int32_t* try_orders;    // [rows] those that tiles hold
  // By position.
  std::int32_t* query_at;  // [queries]
  // By query.
  std::int64_t* slots_of;  // [queries + 1] partial slots of those before it; and above 32 bits, how many have some

  TriedTiles* tries;         // [kTries]
  std::int32_t* try_begins;  // [kTries, rows + 1] first request of each tile, among those that tiles hold
  PlannedTile* tiles;        // [rows]
  std::int32_t* raw;         // [spans] node, or -1 - index of Forest::order of a tail
  TileSegment* segments;     // [kTileLists, spans]
  DealtFragment* fragments;  // [spans] of plans with cuts
  std::int32_t* pack_begin;  // [rows] of each request that is in no tile
  PlannedPack* packs;        // [queries]
  TaskLoad* loads;           // [queries]
  std::int64_t* pack_sums;   // [2, queries] scanned: items and entries, fragments and masks

  // By item.
  std::int32_t* item_pack;    // [items]
  std::uint16_t* item_class;  // [items] of its cost
  std::int32_t* item_rank;    // [items] fragments of its pack that begin before it
  std::int64_t* item_splits;  // [items + 1] cuts inside of fragments up to its begin; above 32 bits, of masked ones
  std::int32_t* item_place;   // [items] in the schedule
  TaskCosts* costs;           // of the batch, once it is known what is read again
  TeamPlanStatus* status;
  std::int32_t* shape;  // [kShapeFields] numbers that one block finds for all
  std::int32_t rows;    // room
  std::int32_t near;    // 1: keep_near() was called

  /// \return bytes. \param base 256-byte aligned; null: counts only
  TRUNKLINE_HOST_DEVICE std::size_t lay_out(std::byte* base, std::int32_t row_room, const PlanCapacity& room) {
    rows = row_room;
    near = 0;
    TeamMemory memory(base);
    take_requests(memory);
    take_list(memory, query_at, room.queries);
    take_list(memory, slots_of, room.queries + 1);
    take_list(memory, tries, kTries);
    take_list(memory, try_begins, kTries * (rows + 1));
    take_list(memory, tiles, rows);
    take_list(memory, raw, room.spans);
    take_list(memory, segments, std::int64_t{kTileLists} * room.spans);
    take_list(memory, fragments, room.spans);
    take_list(memory, pack_begin, rows);
    take_list(memory, packs, room.queries);
    take_list(memory, loads, room.queries);
    take_list(memory, pack_sums, std::int64_t{2} * room.queries);
    take_list(memory, item_pack, room.items);
    take_list(memory, item_class, room.items);
    take_list(memory, item_rank, room.items);
    take_list(memory, item_splits, room.items + std::int64_t{1});
    take_list(memory, item_place, room.items);
    take_list(memory, costs, 1);
    take_list(memory, status, 1);
    take_list(memory, shape, kShapeFields);
    return memory.bytes();
  }

  /// Puts what is known of requests into a block's own memory, where all blocks fill theirs.
  TRUNKLINE_HOST_DEVICE void keep_near(TeamMemory& own) {
    take_requests(own);
    near = 1;
  }

  TRUNKLINE_HOST_DEVICE void place_item(std::int32_t item, std::int32_t pack, Nanoseconds cost) const {
    item_pack[item] = pack;
    item_class[item] = static_cast<std::uint16_t>(CostClasses::class_of(cost));
    item_rank[item] = 0;
    item_splits[item] = 0;
    item_place[item] = 0;
  }

  enum ShapeField : std::int32_t {
    kTiles,
    kPacks,
    kRaw,
    kFirstWidth,
    kListed,  // requests that tiles hold
    kFull,    // requests that have tokens
    kItems,
    kEntries,
    kFragments,
    kMasks,
    kSplits,
    kMaskedSplits,
    kPartials,
    kMerges,
    kFits,
    kOpenEnds,  // the most of an item, about
    kShapeFields
  };

 private:
  TRUNKLINE_HOST_DEVICE void take_requests(TeamMemory& memory) {
    take_list(memory, queries, rows);
    take_list(memory, path_tokens, rows);
    take_list(memory, position, rows + 1);
    take_list(memory, tails_before, rows + 1);
    take_list(memory, try_orders, rows);
  }
};

}  // namespace trunkline
