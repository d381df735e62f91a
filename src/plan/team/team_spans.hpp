// Spans of the plan by a team: fragments of what tiles stream, in the order in which they are dealt, cut where items
// are.
#pragma once

#include <cstdint>

#include "base/quotient.hpp"
#include "plan/cut_choice.hpp"
#include "plan/slices.hpp"
#include "plan/team/deal_order.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_more.hpp"
#include "plan/team/team_tiles.hpp"

namespace trunkline {

/// A fragment of a list of a pack's tile.
struct FragmentPlace {
  std::int32_t list;
  std::int32_t segment;
  std::int32_t index;  ///< in the list
};

/// The last of `count` things of which no more than `index` begin before it. \param begin_of of each, rising from 0
template <class BeginOf>
TRUNKLINE_HOST_DEVICE std::int32_t last_begun(std::int32_t count, std::int32_t index, BeginOf begin_of) {
  return count_before(count - 1, [=](std::int32_t i) { return begin_of(i + 1) <= index; });
}

/// \param index of the list's fragments
TRUNKLINE_HOST_DEVICE inline FragmentPlace place_in_list(const DealtList& from, std::int32_t list, std::int32_t index) {
  if (from.piece == 0) return {list, index, index};  // a segment is a fragment
  const std::int32_t segment =
      last_begun(from.count, index, [&from](std::int32_t i) { return from.segments[i].fragments_before; });
  return {list, segment, index};
}

TRUNKLINE_HOST_DEVICE inline DealtFragment fragment_of_tile(const Slices& slices, const PlannedTile& tile,
                                                            const FragmentPlace& place) {
  const DealtList& from = tile.lists[place.list];
  const TileSegment& segment = from.segments[place.segment];
  const std::int64_t end = segment.first_token + slices.room(segment.begin, segment.end);
  const std::int32_t within = place.index - segment.fragments_before;
  std::int64_t piece_begin = segment.first_token;  // of the list's tokens
  std::int64_t piece_end = end;
  if (from.piece > 0) {
    const std::int64_t piece = from.pieces_in(segment.first_token) + within;
    piece_begin = piece * from.piece;
    piece_end = piece_begin + from.piece;
  }
  const std::int64_t first = most(segment.first_token, piece_begin);
  const std::int64_t last = least(end, piece_end);
  const DealtCount before = DealOrder(tile.lists).before(place.list, piece_begin);
  return {segment.row,
          slices.place(segment.begin, first - segment.first_token),
          last == end ? segment.end : slices.place(segment.begin, last - segment.first_token),
          segment.readers,
          segment.open_ended && last == end,
          segment.masked,
          first + before.tokens,
          place.index + before.fragments,
          segment.masked_before + (segment.masked ? within : 0) + before.masked};
}

/// All of a request's tokens, where it is a pack alone.
TRUNKLINE_HOST_DEVICE inline DealtFragment fragment_alone(const PlanTask& task, const PlannedPack& pack) {
  const auto tokens = static_cast<std::int32_t>(pack.tokens);
  return {task.forest.order[pack.order_index], 0, tokens, pack.positions, true, false, 0, 0, 0};
}

/// The threads that share the fragments of each of some packs: as many as these have on average, so that most have one.
struct PackLanes {
  static constexpr std::int32_t kWarp = 32;

  std::int32_t first;    ///< of neighbours
  std::int32_t packs;    ///< how many there are
  std::int32_t of_pack;  ///< a power of two or whole warps

  TRUNKLINE_HOST_DEVICE PackLanes(const PlanMemory& memory, Range its_packs)
      : first(its_packs.begin), packs(size_of(its_packs)), of_pack(1) {
    const std::int32_t fragments = fragments_before(memory, its_packs.end) - fragments_before(memory, first);
    while (of_pack * packs < fragments && of_pack < kWarp / 2) of_pack *= 2;
    if (of_pack * packs >= fragments) return;  // as the mean is: divisions are slow
    // Each list begins with a warp of its own, which is half empty on average.
    of_pack = least(ceil_div(ceil_div(fragments, packs) + kWarp / 2, kWarp), kMostWarps) * kWarp;
  }
  TRUNKLINE_HOST_DEVICE std::int32_t count() const { return packs * of_pack; }
  /// Of those packs.
  TRUNKLINE_HOST_DEVICE std::int32_t pack_of(std::int32_t lane) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(lane) / static_cast<std::uint32_t>(of_pack));
  }
  /// Lanes that a list takes: no warp goes the ways of two lists.
  TRUNKLINE_HOST_DEVICE std::int32_t whole(std::int32_t list_fragments) const {
    const std::int32_t unit = least(of_pack, kWarp);
    return (list_fragments + unit - 1) & -unit;
  }

 private:
  static constexpr std::int32_t kMostWarps = 128;

  TRUNKLINE_HOST_DEVICE static std::int32_t fragments_before(const PlanMemory& memory, std::int32_t pack) {
    const bool behind = pack >= memory.shape[PlanMemory::kPacks];
    return behind ? memory.shape[PlanMemory::kFragments] : memory.packs[pack].first_fragment;
  }
};

/// f(pack, fragment) for the fragments of one lane of a pack.
template <class F>
TRUNKLINE_HOST_DEVICE void visit_fragments(const PlanTask& task, std::int32_t lane, const PackLanes& lanes, F f) {
  static_assert(kTileLists == 3);
  const std::int32_t number = lanes.pack_of(lane);
  const std::int32_t first = lane - number * lanes.of_pack;
  const PlannedPack pack = task.memory.packs[lanes.first + number];  // read once, whatever is written
  if (pack.tile < 0) {
    if (first == 0) f(pack, fragment_alone(task, pack));
    return;
  }
  const PlannedTile& tile = task.memory.tile(pack.tile);
  const std::int32_t own = tile.lists[kOwnList].fragments;
  const std::int32_t second = tile.lists[kOwnOfSecondList].fragments;
  const std::int32_t common = tile.lists[kCommonList].fragments;
  const std::int32_t second_begin = lanes.whole(own);
  const std::int32_t common_begin = second_begin + lanes.whole(second);
  TRUNKLINE_ROLLED
  for (std::int32_t i = first; i < common_begin + common; i += lanes.of_pack) {
    const std::int32_t list = i < second_begin ? kOwnList : i < common_begin ? kOwnOfSecondList : kCommonList;
    const std::int32_t index = i - (list == kOwnList ? 0 : list == kOwnOfSecondList ? second_begin : common_begin);
    if (index >= (list == kOwnList ? own : list == kOwnOfSecondList ? second : common)) continue;
    f(pack, fragment_of_tile(task.machine.slices, tile, place_in_list(tile.lists[list], list, index)));
  }
}

/// The part of a pack that holds a token.
TRUNKLINE_HOST_DEVICE inline std::int32_t part_of(const PlannedPack& pack, std::int64_t token) {
  if (pack.parts == 1) return 0;
  const std::int64_t granules = pack.cut_tokens / CutChoice::kGranule;
  const std::int64_t part = quotient((token / CutChoice::kGranule + 1) * pack.parts - 1, granules);
  return static_cast<std::int32_t>(least<std::int64_t>(part, pack.parts - 1));
}

TRUNKLINE_HOST_DEVICE inline std::int64_t part_begin(const PlannedPack& pack, std::int32_t part) {
  return part_begin(pack.cut_tokens, CutChoice::kGranule, pack.parts, part);
}

/// The parts that a fragment is in. One without tokens is in the part of the token before it.
TRUNKLINE_HOST_DEVICE inline Range parts_of(const Slices& slices, const PlannedPack& pack,
                                            const DealtFragment& fragment) {
  const std::int64_t first = fragment.first_token;
  const std::int64_t end = first + slices.room(fragment.begin, fragment.end);
  const std::int32_t last_part = part_of(pack, most<std::int64_t>(end - 1, 0));
  return {first < end ? part_of(pack, first) : last_part, last_part + 1};
}

/// A word whose bits from `begin` to `end` are set.
TRUNKLINE_HOST_DEVICE inline std::uint64_t bits_between(std::int32_t begin, std::int32_t end) {
  const std::int32_t low = most(begin, 0);
  const std::int32_t high = least(end, 64);
  return low < high ? ~std::uint64_t{0} >> (64 - (high - low)) << low : 0;
}

/// \param cut some items are: else each pack is one \return first span of an item
TRUNKLINE_HOST_DEVICE inline std::int32_t first_span(const PlanMemory& memory, std::int32_t item, bool cut) {
  if (!cut) return memory.packs[item].first_fragment;
  const PlannedPack& pack = memory.packs[memory.item_pack[item]];
  return pack.first_fragment + memory.item_marks[item].rank + static_cast<std::int32_t>(memory.item_splits[item + 1]);
}

/// Writes spans and masks of a fragment. \param cut some items are
TRUNKLINE_HOST_DEVICE inline void write_fragment(const PlanTask& task, const PlanLists& lists, const PlannedPack& pack,
                                                 const DealtFragment& fragment, bool cut) {
  const PlanMemory& memory = task.memory;
  const Slices slices = task.machine.slices;
  const Range held = pack.positions;
  const bool both = pack.first_half > 0 && halves_of(fragment.readers, held, held.begin + pack.first_half) == 2;
  const Range parts = cut ? parts_of(slices, pack, fragment) : Range{0, 1};
  TRUNKLINE_ROLLED
  for (std::int32_t part = parts.begin; part < parts.end; ++part) {
    const std::int64_t splits = cut ? memory.item_splits[pack.first_item + part + 1] : 0;
    std::int32_t begin = fragment.begin;
    std::int32_t end = fragment.end;
    if (part > parts.begin) {
      begin = slices.place(fragment.begin, part_begin(pack, part) - fragment.first_token);
    }
    const bool open = fragment.open_ended && part + 1 == parts.end;
    if (part + 1 < parts.end) {
      end = slices.place(fragment.begin, part_begin(pack, part + 1) - fragment.first_token);
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

/// The same of all fragments of some lanes. A function of its own, as it calls others, and what is kept across calls is
/// more than there is room for where there is anything else.
TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE inline void write_fragments(const PlanTask& task, const PlanLists& lists,
                                                                        const PackLanes lanes, StridedPart part,
                                                                        bool cut) {
  const std::int32_t end = lanes.count();
  TRUNKLINE_ROLLED
  for (std::int32_t lane = part.begin; lane < end; lane += part.step) {
    visit_fragments(task, lane, lanes, [&](const PlannedPack& pack, const DealtFragment& fragment) {
      write_fragment(task, lists, pack, fragment, cut);
    });
  }
}

}  // namespace trunkline
