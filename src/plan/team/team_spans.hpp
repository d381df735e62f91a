// Spans of the plan by a team: fragments of what tiles stream, in the order in which they are dealt, cut where items
// are.
#pragma once

#include <cstdint>

#include "plan/cut_choice.hpp"
#include "plan/team/deal_order.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_segments.hpp"

namespace trunkline {

/// A fragment, and where it comes in its pack.
struct DealtFragment {
  std::int32_t row;
  std::int32_t begin;  ///< token positions
  std::int32_t end;
  Range readers;
  bool open_ended;
  bool masked;
  std::int64_t first_token;  ///< tokens of the pack before it
  std::int32_t rank;         ///< fragments of the pack before it
  std::int32_t masked_before;
};

TRUNKLINE_HOST_DEVICE inline DealtFragment fragment_of_tile(const PlannedTile& tile, std::int32_t index) {
  std::int32_t list = 0;
  while (index >= tile.lists[list].fragments) index -= tile.lists[list++].fragments;
  const DealtList& from = tile.lists[list];
  std::int32_t low = 0;  // the last segment that has no more fragments before it
  for (std::int32_t high = from.count - 1; low < high;) {
    const std::int32_t middle = low + (high - low + 1) / 2;
    if (from.segments[middle].fragments_before <= index) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const TileSegment& segment = from.segments[low];
  const std::int64_t end = segment.first_token + segment.end - segment.begin;
  const std::int32_t within = index - segment.fragments_before;
  std::int64_t piece_begin = segment.first_token;  // of the list's tokens
  std::int64_t piece_end = end;
  if (from.piece > 0) {
    const std::int64_t piece = segment.first_token / from.piece + within;
    piece_begin = piece * from.piece;
    piece_end = piece_begin + from.piece;
  }
  const std::int64_t first = most(segment.first_token, piece_begin);
  const std::int64_t last = least(end, piece_end);
  const DealtCount before = DealOrder(tile.lists).before(list, piece_begin);
  return {segment.row,
          segment.begin + static_cast<std::int32_t>(first - segment.first_token),
          segment.begin + static_cast<std::int32_t>(last - segment.first_token),
          segment.readers,
          segment.open_ended && last == end,
          segment.masked,
          first + before.tokens,
          index + before.fragments,
          segment.masked_before + (segment.masked ? within : 0) + before.masked};
}

/// All tokens of a request.
TRUNKLINE_HOST_DEVICE inline DealtFragment fragment_alone(const PlanTask& task, const PlannedPack& pack) {
  const std::int32_t tokens = static_cast<std::int32_t>(pack.tokens);
  return {task.forest.order[pack.order_index], 0, tokens, pack.positions, true, false, 0, 0, 0};
}

/// Which fragment of which pack.
struct FoundFragment {
  std::int32_t pack;
  DealtFragment fragment;
};

TRUNKLINE_HOST_DEVICE inline FoundFragment find_fragment(const PlanTask& task, std::int32_t index) {
  const PlannedPack* const packs = task.memory.packs;
  std::int32_t low = 0;
  for (std::int32_t high = task.memory.shape[PlanMemory::kPacks] - 1; low < high;) {
    const std::int32_t middle = low + (high - low + 1) / 2;
    if (packs[middle].first_fragment <= index) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const PlannedPack& pack = packs[low];
  if (pack.tile < 0) return {low, fragment_alone(task, pack)};
  return {low, fragment_of_tile(task.memory.tiles[pack.tile], index - pack.first_fragment)};
}

/// The part of a pack that holds a token.
TRUNKLINE_HOST_DEVICE inline std::int32_t part_of(const PlannedPack& pack, std::int64_t token) {
  if (pack.parts == 1) return 0;
  const std::int64_t granules = pack.tokens / CutChoice::kGranule;
  const std::int64_t part = ((token / CutChoice::kGranule + 1) * pack.parts - 1) / granules;
  return static_cast<std::int32_t>(least<std::int64_t>(part, pack.parts - 1));
}

TRUNKLINE_HOST_DEVICE inline std::int64_t part_begin(const PlannedPack& pack, std::int32_t part) {
  return part_begin(pack.tokens, CutChoice::kGranule, pack.parts, part);
}

/// The parts that a fragment is in. One without tokens is in the part of the token before it.
TRUNKLINE_HOST_DEVICE inline Range parts_of(const PlannedPack& pack, const DealtFragment& fragment) {
  const std::int64_t first = fragment.first_token;
  const std::int64_t end = first + fragment.end - fragment.begin;
  const std::int32_t last_part = part_of(pack, most<std::int64_t>(end - 1, 0));
  return {first < end ? part_of(pack, first) : last_part, last_part + 1};
}

/// Finds which items begin inside of a fragment, and how many fragments begin before each.
template <class Team>
TRUNKLINE_HOST_DEVICE void mark_cuts(Team& team, const PlanTask& task) {
  team.each(task.memory.shape[PlanMemory::kFragments], [&task](std::int32_t i) {
    const PlanMemory& memory = task.memory;
    const FoundFragment found = find_fragment(task, i);
    const PlannedPack& pack = memory.packs[found.pack];
    if (pack.parts == 1) return;
    const DealtFragment& fragment = found.fragment;
    const Range parts = parts_of(pack, fragment);
    for (std::int32_t part = parts.begin + 1; part < parts.end; ++part) {
      memory.item_splits[pack.first_item + part] = 1 + (fragment.masked ? std::int64_t{1} << 32 : 0);
      memory.item_rank[pack.first_item + part] = fragment.rank;
    }
    const std::int64_t end = fragment.first_token + fragment.end - fragment.begin;
    if (parts.end < pack.parts && part_begin(pack, parts.end) == end) {
      Team::fetch_greatest(memory.item_rank[pack.first_item + parts.end], fragment.rank + 1);
    }
  });
}

/// A word whose bits from `begin` to `end` are set.
TRUNKLINE_HOST_DEVICE inline std::uint64_t bits_between(std::int32_t begin, std::int32_t end) {
  const std::int32_t low = most(begin, 0);
  const std::int32_t high = least(end, 64);
  return low < high ? ~std::uint64_t{0} >> (64 - (high - low)) << low : 0;
}

/// \return first span of an item
TRUNKLINE_HOST_DEVICE inline std::int32_t first_span(const PlanMemory& memory, std::int32_t item) {
  const PlannedPack& pack = memory.packs[memory.item_pack[item]];
  return pack.first_fragment + memory.item_rank[item] + static_cast<std::int32_t>(memory.item_splits[item + 1]);
}

/// Writes spans and masks of a fragment.
TRUNKLINE_HOST_DEVICE inline void write_fragment(const PlanTask& task, const PlanLists& lists, std::int32_t index) {
  const PlanMemory& memory = task.memory;
  const FoundFragment found = find_fragment(task, index);
  const PlannedPack& pack = memory.packs[found.pack];
  const DealtFragment& fragment = found.fragment;
  const Range held = pack.positions;
  const bool both =
      pack.first_half > 0 && SegmentLister::halves_of(fragment.readers, held, held.begin + pack.first_half) == 2;
  const Range parts = parts_of(pack, fragment);
  for (std::int32_t part = parts.begin; part < parts.end; ++part) {
    const std::int64_t splits = memory.item_splits[pack.first_item + part + 1];
    std::int32_t begin = fragment.begin;
    std::int32_t end = fragment.end;
    if (part > parts.begin) {
      begin += static_cast<std::int32_t>(part_begin(pack, part) - fragment.first_token);
    }
    const bool open = fragment.open_ended && part + 1 == parts.end;
    if (part + 1 < parts.end) {
      end = fragment.begin + static_cast<std::int32_t>(part_begin(pack, part + 1) - fragment.first_token);
    }
    std::int32_t mask = -1;
    if (fragment.masked) {
      mask = pack.first_mask + fragment.masked_before + static_cast<std::int32_t>(splits >> 32);
      const Range seeing = {fragment.readers.begin - held.begin, least(fragment.readers.end, held.end) - held.begin};
      lists.masks[2 * mask] = bits_between(seeing.begin, seeing.end);
      lists.masks[2 * mask + 1] = bits_between(seeing.begin - 64, seeing.end - 64);
    }
    const std::uint32_t flags = (open ? std::uint32_t{kSpanEndFromEnd} : std::uint32_t{kSpanAbsolute}) |
                                (both ? std::uint32_t{kSpanBothHalves} : 0u);
    lists.spans[pack.first_fragment + fragment.rank + static_cast<std::int32_t>(splits)] = {
        fragment.row, begin, open ? 0 : end, mask, flags};
  }
}

}  // namespace trunkline
