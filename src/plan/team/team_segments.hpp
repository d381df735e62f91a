// What each tile streams, parted into the lists that are dealt out, as TileSegments makes them.
#pragma once

#include <cstdint>

#include "plan/team/deal_order.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/team_more.hpp"
#include "plan/team/team_packs.hpp"

namespace trunkline {

/// Parts the segments of each tile into the lists that are dealt out. A warp a tile.
class SegmentLister {
 public:
  TRUNKLINE_HOST_DEVICE SegmentLister(const PlanTask& task, std::int32_t tile)
      : task_(task), tile_(task.memory.frames[tile]), to_(task.memory.tiles[tile]) {}

  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void list(const Lanes& lanes) {
    gather(lanes);
    // Where the tile works as one, nothing is to be gained by cutting what is its own.
    const bool cuts_own = tile_.middle > 0;
    std::int64_t tokens[kTileLists] = {};     // in slices
    std::int64_t fragments[kTileLists] = {};  // above 32 bits: masked ones
    std::int32_t counts[kTileLists] = {};
    std::int64_t all_tokens = 0;
    std::int64_t matrix_tokens = 0;
    std::int64_t open_tokens = 0;
    std::uint32_t ends_without_tokens = 0;  // bit by list: whether its last segment has none
    Found found = find_at(tile_.raw_begin + lanes.index());
    for (std::int32_t base = tile_.raw_begin; base < tile_.raw_end; base += lanes.count()) {
      const Found next = find_at(base + lanes.count() + lanes.index());  // its reads take as long as what follows here
      const std::int64_t length = found.segment.end - found.segment.begin;
      const std::int64_t sliced = task_.machine.slices.room(found.segment.begin, found.segment.end);
      all_tokens += length;
      matrix_tokens += length * found.halves;
      open_tokens += found.segment.open_ended ? length : 0;
      for (std::int32_t list = 0; list < kTileLists; ++list) {
        const bool here = found.list == list;
        if (!lanes.any(here)) continue;
        std::int64_t total = 0;
        const std::int64_t sums = sum_before(lanes, here ? sliced + kOneSegment : 0, total);
        const std::int64_t first = tokens[list] + sums % kOneSegment;
        const auto count = static_cast<std::int32_t>(total / kOneSegment);
        const auto place = static_cast<std::int32_t>(sums / kOneSegment);
        const std::int64_t made = !here ? 0 : count_fragments(list, cuts_own, first, first + sliced);
        std::int64_t total_made = 0;
        const std::int64_t before =
            fragments[list] + sum_before(lanes, made + (found.segment.masked ? made << 32 : 0), total_made);
        if (here) {
          found.segment.first_token = first;
          found.segment.fragments_before = static_cast<std::int32_t>(before);
          found.segment.masked_before = static_cast<std::int32_t>(before >> 32);
          // The second half's come after the first's: requests are in order.
          const std::int32_t others = list == kOwnOfSecondList ? counts[kOwnList] : 0;
          store_whole(segments(list)[others + counts[list] + place], found.segment);
        }
        const bool empty_end = lanes.any(here && place + 1 == count && length == 0);
        ends_without_tokens = (ends_without_tokens & ~(1u << list)) | (empty_end ? 1u << list : 0u);
        tokens[list] += total % kOneSegment;
        counts[list] += count;
        fragments[list] += total_made;
      }
      found = next;
    }
    all_tokens = lanes.sum(all_tokens);
    matrix_tokens = lanes.sum(matrix_tokens);
    open_tokens = lanes.sum(open_tokens);
    if (lanes.index() != 0) return;
    static_cast<TileFrame&>(to_) = tile_;
    for (std::int32_t list = 0; list < kTileLists; ++list) {
      const bool empty_end = (ends_without_tokens >> list & 1) != 0;
      const std::int64_t piece = list == kCommonList ? kCommonPiece : cuts_own ? kOwnPiece : 0;
      to_.lists[list] = {segments(list) + (list == kOwnOfSecondList ? counts[kOwnList] : 0),
                         tokens[list],
                         piece,
                         count_pieces(list, cuts_own, tokens[list], counts[list], empty_end),
                         counts[list],
                         static_cast<std::int32_t>(fragments[list]),
                         static_cast<std::int32_t>(fragments[list] >> 32)};
    }
    to_.tokens = all_tokens;
    to_.cut_tokens = tokens[kOwnList] + tokens[kOwnOfSecondList] + tokens[kCommonList];
    to_.matrix_tokens = matrix_tokens;
    to_.open_tokens = open_tokens;
  }

 private:
  // As in trunk_segments.cpp.
  static constexpr std::int64_t kCommonPiece = 64;
  static constexpr std::int64_t kOwnPiece = HalfChanges::kPieceTokens;
  // Segments are counted above their tokens, which are fewer than 2^37 in 32 of them.
  static constexpr std::int64_t kOneSegment = std::int64_t{1} << 48;

  struct Found {
    TileSegment segment;
    std::int32_t list;
    std::int32_t halves;  ///< of the tile that see it; 1 where it works as one
  };

  /// Puts what the tile streams into order, in PlanMemory::raw: the path of its first member, then nodes in depth-first
  /// order, each with the ends of those requests that end where others go on. A node that others have begun before is
  /// met on the path alone.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void gather(const Lanes& lanes) const {
    const TileFrame tile = tile_;
    const TeamForest& forest = task_.forest;
    const std::int32_t* const tails_before = task_.memory.tails_before;
    std::int32_t* const path = task_.memory.raw + tile_.raw_begin;
    std::int32_t* const rest = path + tile.path - tails_before[tile.members.begin];
    for (std::int32_t i = tile.first_node + 1 + lanes.index(); i <= tile.last_node; i += lanes.count()) {
      rest[tails_before[forest.nodes[i].requests.begin] + i - tile.first_node - 1] = i;
    }
    for (std::int32_t i = tile.members.begin + lanes.index(); i < tile.members.end; i += lanes.count()) {
      const std::int32_t before = tails_before[i];
      const std::int32_t next = tails_before[i + 1];
      const std::int32_t node = forest.node[forest.order[i]];
      if (next > before) rest[before + node - tile.first_node] = -1 - i;
    }
    list_path(lanes, tile, path);
    lanes.wait();
  }

  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void list_path(const Lanes& lanes, const TileFrame& tile, std::int32_t* path) const {
    constexpr std::int32_t kShort = 8;  // reads that follow each other
    const ForestNode* const nodes = task_.forest.nodes;
    if (tile.path > kShort) {
      for (std::int32_t i = lanes.index(); i <= tile.first_node; i += lanes.count()) {
        if (nodes[i].requests.end > tile.members.begin) path[nodes[i].depth] = i;
      }
      return;
    }
    std::int32_t node = tile.first_node;
    for (std::int32_t depth = tile.path - 1; depth >= 0; --depth) {
      if (lanes.index() == 0) path[depth] = node;
      node = depth == 0 ? node : nodes[node].parent;
    }
  }

  /// By constants, as divisions by what is not known beforehand are slow. \param cuts_own own lists are dealt in pieces
  TRUNKLINE_HOST_DEVICE static std::int64_t count_fragments(std::int32_t list, bool cuts_own, std::int64_t begin,
                                                            std::int64_t end) {
    if (list == kCommonList) return DealOrder::count_fragments(begin, end, kCommonPiece);
    return cuts_own ? DealOrder::count_fragments(begin, end, kOwnPiece) : 1;
  }

  TRUNKLINE_HOST_DEVICE static std::int64_t count_pieces(std::int32_t list, bool cuts_own, std::int64_t tokens,
                                                         std::int32_t segments, bool empty_end) {
    if (list == kCommonList) return DealOrder::count_pieces(tokens, kCommonPiece, segments, empty_end);
    return DealOrder::count_pieces(tokens, cuts_own ? kOwnPiece : 0, segments, empty_end);
  }

  TRUNKLINE_HOST_DEVICE TileSegment* segments(std::int32_t list) const {
    const PlanMemory& memory = task_.memory;
    return memory.segments + (list == kCommonList ? memory.segment_room : 0) + tile_.raw_begin;
  }

  /// The segment at an index of PlanMemory::raw; of no list behind the tile's.
  TRUNKLINE_HOST_DEVICE Found find_at(std::int32_t index) const {
    if (index < tile_.raw_end) return find(task_.memory.raw[index]);
    Found none{};
    none.list = kTileLists;
    return none;
  }
  /// \param raw as in PlanMemory::raw
  TRUNKLINE_HOST_DEVICE Found find(std::int32_t raw) const {
    const PlanMemory& memory = task_.memory;
    Found found{};
    TileSegment& segment = found.segment;
    bool common = false;
    if (raw < 0) {
      const std::int32_t member = -1 - raw;
      segment.row = task_.forest.order[member];
      segment.begin = segment.end = memory.path_tokens[member];
      segment.readers = positions({member, member + 1});
      segment.open_ended = true;
    } else {
      const ForestNode& node = task_.forest.nodes[raw];
      const Range requests = node.requests;
      segment.open_ended = size_of(requests) == 1;
      segment.row = segment.open_ended ? task_.forest.order[requests.begin] : node.row;
      segment.begin = node.begin;
      segment.end = node.end;
      segment.readers = positions(requests);
      common = !segment.open_ended && is_common(requests, segment.readers);
    }
    const Range held = tile_.positions;
    segment.masked = segment.readers.begin > held.begin || segment.readers.end < held.end;
    const bool second = tile_.middle > 0 && segment.readers.begin >= tile_.middle;
    found.list = common ? kCommonList : second ? kOwnOfSecondList : kOwnList;
    found.halves = tile_.middle == 0 ? 1 : halves_of(segment.readers, held, tile_.middle);
    return found;
  }

  TRUNKLINE_HOST_DEVICE Range positions(Range requests) const {
    return {task_.memory.position[requests.begin], task_.memory.position[requests.end]};
  }
  /// TileSegments::in_common.
  TRUNKLINE_HOST_DEVICE bool is_common(Range requests, Range readers) const {
    if (tile_.middle > 0) return readers.begin < tile_.middle && tile_.middle < readers.end;
    return requests.begin < tile_.members.begin || tile_.members.end < requests.end;
  }

  const PlanTask& task_;
  const TileFrame& tile_;
  PlannedTile& to_;
};

/// Beside the lists of all tiles, queries.
template <class Team>
TRUNKLINE_HOST_DEVICE void deal_lists(Team& team, const PlanTask& task) {
  constexpr std::int32_t kRows = 32;  // whose queries a warp writes
  const std::int32_t tiles = task.memory.shape[PlanMemory::kTiles];
  const bool own = task.memory.shape[PlanMemory::kOwnTiles] != 0;
  const std::int32_t warps = tiles + ceil_div(task.forest.rows, kRows);
  team.each_warp_where(own, warps, [&task, tiles](std::int32_t i, auto&& lanes) {
    if (i < tiles) {
      SegmentLister(task, i).list(lanes);
      return;
    }
    const std::int32_t begin = (i - tiles) * kRows;
    const std::int32_t end = least(begin + kRows, task.forest.rows);
    for (std::int32_t row = begin + lanes.index(); row < end; row += lanes.count()) place_queries_of(task, row);
  });
}

}  // namespace trunkline
