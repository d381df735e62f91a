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
      : task_(task), tile_(task.memory.frames[tile]), to_(task.memory.tile(tile)), sums_(task.memory.sums[tile]) {}

  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void list(const Lanes& lanes) {
    gather(lanes);
    // On devices sums of 32 bits over a warp take a quarter of what those of 64 take.
    if (task_.forest.total_tokens < kFewTokens) {
      part<std::int32_t>(lanes);
    } else {
      part<std::int64_t>(lanes);
    }
  }

 private:
  // As in trunk_segments.cpp.
  static constexpr std::int32_t kCommonPiece = 64;
  static constexpr auto kOwnPiece = static_cast<std::int32_t>(HalfChanges::kPieceTokens);
  // No tile streams more than all requests have, but for the ends of slices, nor computes more than twice as much.
  static constexpr std::int64_t kFewTokens = std::int64_t{1} << 28;

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
    std::int32_t* const path = task_.memory.raw + (tile_.raw_begin - task_.memory.first_raw);
    std::int32_t* const rest = path + tile.path - tails_before[tile.members.begin];
    TRUNKLINE_ROLLED
    for (std::int32_t i = tile.first_node + 1 + lanes.index(); i <= tile.last_node; i += lanes.count()) {
      rest[tails_before[forest.nodes[i].requests.begin] + i - tile.first_node - 1] = i;
    }
    TRUNKLINE_ROLLED
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
      TRUNKLINE_ROLLED
      for (std::int32_t i = lanes.index(); i <= tile.first_node; i += lanes.count()) {
        if (nodes[i].requests.end > tile.members.begin) path[nodes[i].depth] = i;
      }
      return;
    }
    std::int32_t node = tile.first_node;
    TRUNKLINE_ROLLED
    for (std::int32_t depth = tile.path - 1; depth >= 0; --depth) {
      if (lanes.index() == 0) path[depth] = node;
      node = depth == 0 ? node : nodes[node].parent;
    }
  }

  /// What one list has got so far.
  template <class Sum>
  struct Listed {
    Sum tokens = 0;  // in slices
    std::int32_t count = 0;
    std::int32_t fragments = 0;
    std::int32_t masked = 0;
    bool empty_end = false;  ///< its last segment has no tokens
  };

  /// \tparam Sum of tokens
  template <class Sum, class Lanes>
  TRUNKLINE_HOST_DEVICE void part(const Lanes& lanes) {
    // Where the tile works as one, nothing is to be gained by cutting what is its own.
    const bool cuts_own = tile_.middle > 0;
    Listed<Sum> lists[kTileLists] = {};
    Sum all_tokens = 0;
    Sum matrix_tokens = 0;
    Sum open_tokens = 0;
    TRUNKLINE_ROLLED
    for (std::int32_t base = tile_.raw_begin; base < tile_.raw_end; base += lanes.count()) {
      Found found = find_at(base + lanes.index());
      const auto length = static_cast<Sum>(found.segment.end - found.segment.begin);
      const auto sliced = static_cast<Sum>(task_.machine.slices.room(found.segment.begin, found.segment.end));
      all_tokens += length;
      matrix_tokens += length * found.halves;
      open_tokens += found.segment.open_ended ? length : 0;
      for (std::int32_t list = 0; list < kTileLists; ++list) {
        const bool here = found.list == list;
        if (!lanes.any(here)) continue;
        const std::int32_t piece = piece_of(list, cuts_own);
        const std::int32_t place = add_to(lists[list], lanes, here, sliced, piece, found.segment);
        // The second half's come after the first's: requests are in order.
        const std::int32_t others = list == kOwnOfSecondList ? lists[kOwnList].count : 0;
        if (here) store_whole(segments(list)[others + place], found.segment);
      }
    }
    all_tokens = lanes.sum(all_tokens);
    matrix_tokens = lanes.sum(matrix_tokens);
    open_tokens = lanes.sum(open_tokens);
    if (lanes.index() != 0) return;
    TileSums sums{all_tokens, 0, matrix_tokens, open_tokens, -1, 0, 0};
    if (lists[kCommonList].tokens > 0) sums.own_piece = piece_of(kOwnList, cuts_own);
    for (std::int32_t list = 0; list < kTileLists; ++list) {
      const Listed<Sum>& listed = lists[list];
      sums.cut_tokens += listed.tokens;
      sums.fragments += listed.fragments;
      sums.masked += listed.masked;
      const std::int32_t piece = piece_of(list, cuts_own);
      to_.lists[list] = {segments(list) + (list == kOwnOfSecondList ? lists[kOwnList].count : 0),
                         listed.tokens,
                         piece,
                         DealOrder::count_pieces<Sum>(listed.tokens, piece, listed.count, listed.empty_end),
                         listed.count,
                         listed.fragments,
                         listed.masked};
    }
    store_whole(sums_, sums);
  }

  /// Adds the segments of those lanes that are `here`. \param sliced tokens of this lane's \param piece of the list
  /// \param[out] segment where it lies in the list \return its index
  template <class Sum, class Lanes>
  TRUNKLINE_HOST_DEVICE static std::int32_t add_to(Listed<Sum>& list, const Lanes& lanes, bool here, Sum sliced,
                                                   std::int32_t piece, TileSegment& segment) {
    std::int32_t count = 0;
    const std::int32_t place = rank_of(lanes, here, count);
    Sum tokens = 0;
    const Sum first = list.tokens + sum_before<Lanes, Sum>(lanes, here ? sliced : 0, tokens);
    const bool masked = here && segment.masked;
    std::int32_t fragments = count;
    std::int32_t fragments_before = place;
    std::int32_t masked_fragments = 0;
    std::int32_t masked_before = 0;
    if (piece == 0) {
      masked_before = rank_of(lanes, masked, masked_fragments);
    } else {
      const std::int32_t made = here ? DealOrder::count_fragments<Sum>(first, first + sliced, piece) : 0;
      std::int32_t values[] = {made, masked ? made : 0};
      std::int32_t sums[2];
      sums_before(lanes, values, sums);
      fragments_before = values[0];
      masked_before = values[1];
      fragments = sums[0];
      masked_fragments = sums[1];
    }
    segment.first_token = first;
    segment.fragments_before = list.fragments + fragments_before;
    segment.masked_before = list.masked + masked_before;
    list.empty_end = lanes.any(here && place + 1 == count && segment.begin == segment.end);
    const std::int32_t index = list.count + place;
    list.tokens += tokens;
    list.count += count;
    list.fragments += fragments;
    list.masked += masked_fragments;
    return index;
  }

  /// Tokens that are dealt at a time; 0: a segment.
  TRUNKLINE_HOST_DEVICE static std::int32_t piece_of(std::int32_t list, bool cuts_own) {
    return list == kCommonList ? kCommonPiece : cuts_own ? kOwnPiece : 0;
  }

  TRUNKLINE_HOST_DEVICE TileSegment* segments(std::int32_t list) const {
    const PlanMemory& memory = task_.memory;
    return memory.segments + (list == kCommonList ? memory.segment_room : 0) + (tile_.raw_begin - memory.first_raw);
  }

  /// The segment at an index of PlanMemory::raw; of no list behind the tile's.
  TRUNKLINE_HOST_DEVICE Found find_at(std::int32_t index) const {
    if (index < tile_.raw_end) return find(task_.memory.raw[index - task_.memory.first_raw]);
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
  TileSums& sums_;
};

/// The packs of which a block knows what they stream: where tiles are shared, those of its share, which are their
/// packs.
template <class Team>
TRUNKLINE_HOST_DEVICE Range known_packs(const Team& team, const PlanTask& task, std::int32_t spared) {
  const std::int32_t packs = task.memory.shape[PlanMemory::kPacks];
  return task.memory.shape[PlanMemory::kOwnTiles] == kSharedTiles ? team.share(packs, spared).own : Range{0, packs};
}

/// Lists of all tiles, and where the queries of all requests are. Where tiles are shared, each block has those of its
/// share, and tells others what all need to know. \param spared blocks that have no part in it where lists are each
/// block's own \param has_beside some other warp of each block runs beside(lanes), where lists are its own
template <class Team, class Beside>
TRUNKLINE_HOST_DEVICE void deal_lists(Team& team, const PlanTask& task, std::int32_t spared, bool has_beside,
                                      Beside beside) {
  constexpr std::int32_t kRequests = 128;  // whose queries a warp places
  const std::int32_t tiles = task.memory.shape[PlanMemory::kTiles];
  const std::int32_t own = task.memory.shape[PlanMemory::kOwnTiles];
  const bool shared = own == kSharedTiles;
  const Range listed = shared ? team.share(tiles, spared).own : Range{0, tiles};
  const std::int32_t count = size_of(listed);
  // Where a block has all tiles, a tile's warp places queries of its own, which are all.
  const std::int32_t placing = own == kAllTiles ? 0 : ceil_div(task.forest.rows, kRequests);
  // First, as it may take longest; but where tiles are told, warps have those of their own numbers.
  const std::int32_t number_beside = !has_beside ? -1 : shared ? count + placing : 0;
  const std::int32_t before = number_beside == 0 ? 1 : 0;
  const Telling told{spared > 0 ? Telling::kSketchTiles : Telling::kTiles, count, shared ? tiles : 0};
  team.each_warp_telling(
      own != kNoTiles, count + placing + (has_beside ? 1 : 0), told, spared,
      [&task, listed, count, own, number_beside, before, beside](std::int32_t number, auto&& lanes) {
        if (number == number_beside) return beside(lanes);
        const std::int32_t i = number - before;
        const std::int32_t first = (i - count) * kRequests;
        Range requests = {first, least(first + kRequests, task.forest.rows)};
        if (i < count) {
          SegmentLister(task, listed.begin + i).list(lanes);
          requests = own == kAllTiles ? task.memory.frames[i].members : Range{};
        }
        TRUNKLINE_ROLLED
        for (std::int32_t k = requests.begin + lanes.index(); k < requests.end; k += lanes.count()) {
          place_queries_of(task, k);
        }
      },
      [&task, listed](std::int32_t i) { return &task.memory.sums[listed.begin + i]; });
}

}  // namespace trunkline
