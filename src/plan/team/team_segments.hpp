// What each tile streams, parted into the lists that are dealt out, as TileSegments makes them.
#pragma once

#include <cstdint>

#include "plan/team/deal_order.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_more.hpp"
#include "plan/team/team_tiles.hpp"

namespace trunkline {

/// Parts the segments of each tile into the lists that are dealt out. A warp a tile.
class SegmentLister {
 public:
  TRUNKLINE_HOST_DEVICE SegmentLister(const PlanTask& task, PlannedTile& tile) : task_(task), tile_(tile) {}

  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void list(const Lanes& lanes) {
    // Where the tile works as one, nothing is to be gained by cutting what is its own.
    const bool cuts_own = tile_.middle > 0;
    std::int64_t tokens[kTileLists] = {};
    std::int64_t fragments[kTileLists] = {};  // above 32 bits: masked ones
    std::int32_t counts[kTileLists] = {};
    std::int64_t matrix_tokens = 0;
    std::uint32_t ends_without_tokens = 0;  // bit by list: whether its last segment has none
    Found found = find_at(tile_.raw_begin + lanes.index());
    for (std::int32_t base = tile_.raw_begin; base < tile_.raw_end; base += lanes.count()) {
      const Found next = find_at(base + lanes.count() + lanes.index());  // its reads take as long as what follows here
      const std::int64_t length = found.segment.end - found.segment.begin;
      matrix_tokens += length * found.halves;
      for (std::int32_t list = 0; list < kTileLists; ++list) {
        const bool here = found.list == list;
        if (!lanes.any(here)) continue;
        std::int64_t total = 0;
        const std::int64_t sums = sum_before(lanes, here ? length + kOneSegment : 0, total);
        const std::int64_t first = tokens[list] + sums % kOneSegment;
        const auto count = static_cast<std::int32_t>(total / kOneSegment);
        const auto place = static_cast<std::int32_t>(sums / kOneSegment);
        const std::int64_t made = !here ? 0 : count_fragments(list, cuts_own, first, first + length);
        std::int64_t total_made = 0;
        const std::int64_t before =
            fragments[list] + sum_before(lanes, made + (found.segment.masked ? made << 32 : 0), total_made);
        if (here) {
          found.segment.first_token = first;
          found.segment.fragments_before = static_cast<std::int32_t>(before);
          found.segment.masked_before = static_cast<std::int32_t>(before >> 32);
          store_whole(segments(list)[counts[list] + place], found.segment);
        }
        const bool empty_end = lanes.any(here && place + 1 == count && length == 0);
        ends_without_tokens = (ends_without_tokens & ~(1u << list)) | (empty_end ? 1u << list : 0u);
        tokens[list] += total % kOneSegment;
        counts[list] += count;
        fragments[list] += total_made;
      }
      found = next;
    }
    matrix_tokens = lanes.sum(matrix_tokens);
    if (lanes.index() != 0) return;
    for (std::int32_t list = 0; list < kTileLists; ++list) {
      const bool empty_end = (ends_without_tokens >> list & 1) != 0;
      const std::int64_t piece = list == kCommonList ? kCommonPiece : cuts_own ? kOwnPiece : 0;
      tile_.lists[list] = {segments(list),
                           tokens[list],
                           piece,
                           count_pieces(list, cuts_own, tokens[list], counts[list], empty_end),
                           counts[list],
                           static_cast<std::int32_t>(fragments[list]),
                           static_cast<std::int32_t>(fragments[list] >> 32)};
    }
    tile_.tokens = tokens[kOwnList] + tokens[kOwnOfSecondList] + tokens[kCommonList];
    tile_.matrix_tokens = matrix_tokens;
  }

 private:
  // As in trunk_segments.cpp.
  static constexpr std::int64_t kCommonPiece = 64;
  static constexpr std::int64_t kOwnPiece = HalfChanges::kPieceTokens;
  // Segments are counted above their tokens, which are fewer than 2^36 in 32 of them.
  static constexpr std::int64_t kOneSegment = std::int64_t{1} << 48;

  struct Found {
    TileSegment segment;
    std::int32_t list;
    std::int32_t halves;  ///< of the tile that see it; 1 where it works as one
  };

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
    return task_.memory.segments + std::int64_t{list} * task_.machine.capacity.spans + tile_.raw_begin;
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
  PlannedTile& tile_;
};

template <class Team>
TRUNKLINE_HOST_DEVICE void deal_lists(Team& team, const PlanTask& task) {
  team.each_warp(task.memory.shape[PlanMemory::kTiles],
                 [&task](std::int32_t i, auto&& lanes) { SegmentLister(task, task.memory.tiles[i]).list(lanes); });
}

}  // namespace trunkline
