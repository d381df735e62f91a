// What a plan is made of before its lists are written: tiles, what they stream, packs.
#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cut_choice.hpp"
#include "plan/task_costs.hpp"
#include "plan/team/team.hpp"
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

/// Whole pieces of so many tokens, a power of two: on devices divisions are slow.
template <class Sum>
TRUNKLINE_HOST_DEVICE Sum whole_pieces(Sum tokens, Sum piece) {
#if defined(__CUDA_ARCH__)
  return tokens >> (__ffsll(piece) - 1);
#else
  return tokens >> std::countr_zero(static_cast<std::uint64_t>(piece));
#endif
}

/// A list of a tile's segments.
struct DealtList {
  const TileSegment* segments;
  std::int64_t tokens;  ///< in slices
  std::int64_t piece;   ///< tokens that are dealt at a time, a power of two; 0: a segment
  std::int64_t pieces;
  std::int32_t count;
  std::int32_t fragments;
  std::int32_t masked;

  /// Whole ones in so many tokens.
  TRUNKLINE_HOST_DEVICE std::int64_t pieces_in(std::int64_t token_count) const {
    return whole_pieces(token_count, piece);
  }
};

/// A fragment, and where it comes in its pack.
struct DealtFragment {
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
  std::int32_t raw_begin;   ///< of its segments, before they are parted into lists
  std::int32_t raw_end;
};

/// What they stream.
struct PlannedTile {
  DealtList lists[kTileLists];
};

/// What of that all need to know.
struct alignas(16) TileSums {
  std::int64_t tokens;
  std::int64_t cut_tokens;  ///< what its slices have room for
  std::int64_t matrix_tokens;
  std::int64_t open_tokens;  ///< of requests of their own
  std::int64_t own_piece;    ///< of its first list, where that is dealt between what all have in common; -1: it is not
  std::int32_t fragments;    ///< of all lists, as what follows
  std::int32_t masked;
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

/// Numbers of a plan.
struct PlanShape {
  enum ShapeField : std::int32_t {
    kTiles,
    kPacks,
    kRaw,
    kItems,
    kEntries,
    kFragments,
    kMasks,
    kPartials,
    kFits,
    kOpenEnds,  // the most of an item, about
    kOwnTiles,  // OwnTiles
    kFewTiles,  // 1: packs are FewTileLister's
    kAsTried,   // 1: and cost what the try at their tiles took them to
    kShapeFields
  };
};

/// Whether each block has TileLists of its own.
enum OwnTiles : std::int32_t {
  kNoTiles,
  kSharedTiles,  // with what a share of the tiles streams
  kAllTiles,
};

/// What is known of a plan's packs.
struct PackLists {
  std::int32_t* shape;       // [PlanShape::kShapeFields]
  TileFrame* frames;         // [rows]
  std::int32_t* pack_begin;  // [rows] of each request that is in no tile
  PlannedPack* packs;        // [queries]
  TaskLoad* loads;           // [queries]
  std::uint16_t* classes;    // [queries] of costs, where no pack is cut
  TaskCosts* costs;          // of the batch, once it is known what is read again
  TeamPlanStatus* status;
};

/// What is known of what tiles stream: of all, for all blocks; or of all or a share, in each block's own memory.
struct TileLists {
  TileSums* sums;             // [rows], or FewTiles::kMost: of all tiles
  PlannedTile* tiles;         // [rows], or those of the share
  std::int32_t* raw;          // [segment_room] node, or -1 - index of Forest::order of a tail
  TileSegment* segments;      // [2, segment_room] own lists, and what is in common
  std::int32_t* query_at;     // [queries] by position, or [rows] where there are no more
  std::int64_t segment_room;  // in each of two
  std::int32_t first_tile;    // of those in `tiles`
  std::int32_t first_raw;     // TileFrame::raw_begin of that

  TRUNKLINE_HOST_DEVICE PlannedTile& tile(std::int32_t i) const { return tiles[i - first_tile]; }
};

/// Packs that are whole tiles, of which each block is told: a lane of the warps that list and divide them has one or
/// two.
struct FewTiles {
  static constexpr std::int32_t kMost = 64;
  /// Of one: their sum stays below 2^31.
  static constexpr std::int32_t kMostFragments = 1 << 24;

  /// What a lane has at most.
  template <class Block>
  TRUNKLINE_HOST_DEVICE static constexpr std::size_t held() {
    return static_cast<std::size_t>(kMost / Block::kLanes);
  }
};

/// What a plan of few packs is made of. Each block finds all of it for itself, in its own memory: then none waits for
/// another, nor for L2.
struct FewPacks {
  static constexpr std::int32_t kMost = 64;

  std::int32_t shape[PlanShape::kShapeFields];
  TileFrame frames[kMost];
  PlannedPack packs[kMost];
  TaskLoad loads[kMost];
  std::int64_t sums[kMost];
  std::int32_t begins[kMost];
  std::uint16_t classes[kMost];
  TaskCosts costs;
  TeamPlanStatus status;
};

}  // namespace trunkline
