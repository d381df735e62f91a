// Items of the plan by a team, their queries and outputs, merge lists and schedule: what PlanEmitter and Scheduler
// make.
#pragma once

#include <cstdint>

#include "plan/team/item_places.hpp"
#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_packs.hpp"
#include "plan/team/team_spans.hpp"

namespace trunkline {

/// Of what is not negative.
TRUNKLINE_HOST_DEVICE inline std::int32_t bits_of(std::int64_t value) {
#if defined(__CUDA_ARCH__)
  return 64 - __clzll(value);
#else
  std::int32_t bits = 0;
  TRUNKLINE_ROLLED
  for (; value > 0; value >>= 1) ++bits;
  return bits;
#endif
}

TRUNKLINE_HOST_DEVICE inline TileShape tile_shape(const TeamMachine& machine, std::int32_t width, std::int64_t tokens) {
  return {machine.widths[width].rows, machine.n[width][least(bits_of(tokens), TeamMachine::kLengths - 1)]};
}

/// Where an item begins among the fragments of its pack; and by the pack's first, how many partials its queries have.
/// \param known the block knows what the pack's tile streams: else the partials alone
template <class Lanes>
TRUNKLINE_HOST_DEVICE void mark_item(const Lanes& lanes, const PlanTask& task, std::int32_t item, bool known) {
  const PlanMemory& memory = task.memory;
  const PlannedPack pack = memory.packs[pack_of(memory, item)];
  PartBegin begin;
  if (item == pack.first_item) {
    count_partials(lanes, memory, pack);
  } else if (pack.tile < 0) {
    begin = {0, 1, 0};  // a request alone is one fragment
  } else if (known) {
    begin = part_in(lanes, task, pack.tile, part_begin(pack, item - pack.first_item));
  }
  if (!known || lanes.index() != 0) return;
  store_whole(memory.item_marks[item], mark_of(begin));
}

/// Items of some packs. \param packs neighbours
TRUNKLINE_HOST_DEVICE inline Range items_of(const PlanMemory& memory, Range packs) {
  const std::int32_t all = memory.shape[PlanMemory::kPacks];
  const std::int32_t items = memory.shape[PlanMemory::kItems];
  return {packs.begin < all ? memory.packs[packs.begin].first_item : items,
          packs.end < all ? memory.packs[packs.end].first_item : items};
}
/// Classes of items of which some are cut, where they begin, and how many partials each query has. Where none is cut,
/// PackDivider has done that. Where tiles are shared, or items are more than a block's warps, each block finds where
/// some begin, and tells the others. \param few ItemLists are the block's
template <class Team>
TRUNKLINE_HOST_DEVICE void place_items(Team& team, const PlanTask& task, bool few, std::int32_t spared) {
  constexpr std::int32_t kPlaced = 32;  // by a warp
  constexpr std::int32_t kOwn = 16;     // a warp each
  const bool shared = task.memory.shape[PlanMemory::kOwnTiles] == kSharedTiles;
  const std::int32_t items = task.memory.shape[PlanMemory::kItems];
  const bool tells = few && (shared || items > kOwn);
  const Range known = shared  ? items_of(task.memory, known_packs(team, task, spared))
                      : tells ? team.share(items, spared).own
                              : Range{0, items};
  const std::int32_t count = few ? items : size_of(known);
  const std::int32_t placing = ceil_div(count, kPlaced);
  const Telling told{spared > 0 ? Telling::kSketchItems : Telling::kItems, size_of(known), tells ? items : 0};
  team.each_warp_telling(
      few || shared, count + placing, told, spared,
      [&task, known, few, placing](std::int32_t i, auto&& lanes) {
        const std::int32_t marked = size_of(known);  // first, as this takes longest
        const std::int32_t all = task.memory.shape[PlanMemory::kItems];
        if (i < marked || i >= marked + placing) {
          const std::int32_t item = known.begin + (i < marked ? i : i - placing);
          return mark_item(lanes, task, item < all ? item : item - all, i < marked);
        }
        const Range placed = few ? Range{0, all} : known;
        const std::int32_t begin = placed.begin + (i - marked) * kPlaced;
        place_by(lanes, task, {begin, least(begin + kPlaced, placed.end)});
      },
      [&task, known](std::int32_t i) { return &task.memory.item_marks[known.begin + i]; });
  if (shared && !few) team.each(0, [](std::int32_t) {});
}

/// Where the partials of each query begin, and how many spans cuts add, by one block.
template <class Block>
TRUNKLINE_HOST_DEVICE void place_partials(Block& block, const PlanTask& task) {
  const PlanMemory& memory = task.memory;
  const std::int32_t queries = task.forest.query_begin[task.forest.rows];
  const std::int32_t bounds = memory.shape[PlanMemory::kItems] + 1;
  block.template scan<TeamWords<2>>(
      most(queries, bounds),
      [&memory, queries, bounds](std::int32_t i) {
        return TeamWords<2>{{i < queries ? memory.slots_of[i] : 0, i + 1 < bounds ? memory.item_marks[i].splits : 0}};
      },
      [&task, &memory, queries, bounds](std::int32_t i, const TeamWords<2>& before) {
        const auto [slots, splits] = before.at;
        if (i <= queries) memory.slots_of[i] = slots;
        if (i < bounds) memory.item_splits[i] = splits;
        if (i < most(queries, bounds)) return;
        const auto cut = static_cast<std::int32_t>(splits);
        const bool fits = std::int64_t{memory.shape[PlanMemory::kFragments]} + cut <= task.machine.capacity.spans;
        *memory.cuts = {cut, static_cast<std::int32_t>(splits >> 32), static_cast<std::int32_t>(slots >> 32),
                        fits ? 1 : 0};
      });
}

/// Items of packs of which some are cut, from how those are. Compiled once for plans and sketches.
/// \param spared deal_lists' \return whether lists have room
template <class Team>
TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE bool lay_out_cuts(Team& team, const PlanTask& task, std::int32_t spared) {
  const bool few = FewItems::are_few(task.memory.shape);
  if (few && spared == 0) {  // of a sketch, SketchCuts has done it
    team.own([&task](auto&& block, bool) { block.once([&task] { task.memory.keep_own_items(task.block); }); });
  }
  place_items(team, task, few, spared);
  team.own_or_lead(few, [&task](auto& block) { place_partials(block, task); });
  return task.memory.cuts->fits != 0;
}

/// An item, its queries and outputs, by one of some lanes. \param cut some are: else each pack is an item
TRUNKLINE_HOST_DEVICE inline void write_item_lists(const PlanTask& task, const PlanLists& lists, std::int32_t item,
                                                   std::int32_t lane, std::int32_t lanes, bool cut) {
  const PlanMemory& memory = task.memory;
  const PlannedPack pack = memory.packs[cut ? memory.item_pack[item] : item];  // read once, whatever is written
  const std::int32_t queries = size_of(pack.positions);
  const std::int32_t part = item - pack.first_item;
  if (lane == 0) {
    const bool last = item + 1 == memory.shape[PlanMemory::kItems];
    const std::int32_t spans = memory.shape[PlanMemory::kFragments] + (cut ? memory.cuts->splits : 0);
    const std::int32_t first = pack.first_entry + part * queries;
    const std::int64_t tokens = part_begin(pack, part + 1) - part_begin(pack, part);
    lists.items[item].queries = {first, first + queries};
    lists.items[item].spans = {first_span(memory, item, cut), last ? spans : first_span(memory, item + 1, cut)};
    lists.items[item].tile = tile_shape(task.machine, pack.width, tokens);
    lists.items[item].first_half = pack.first_half;
  }
  TRUNKLINE_ROLLED
  for (std::int32_t k = lane; k < queries; k += lanes) {
    const std::int32_t query = memory.query_at[pack.positions.begin + k];
    const std::int32_t entry = pack.first_entry + part * queries + k;
    lists.item_queries[entry] = query;
    lists.item_outputs[entry] = pack.parts == 1 ? kDirect : static_cast<std::int32_t>(memory.slots_of[query]) + part;
  }
}

/// The partials of a query, if it has some.
TRUNKLINE_HOST_DEVICE inline void write_merge(const PlanTask& task, const PlanLists& lists, std::int32_t query) {
  const std::int64_t own = task.memory.slots_of[query];
  const std::int64_t next = task.memory.slots_of[query + 1];
  const auto merge = static_cast<std::int32_t>(own >> 32);
  if (static_cast<std::int32_t>(next >> 32) == merge) return;
  lists.merge_queries[merge] = query;
  lists.merge_begin[merge] = static_cast<std::int32_t>(own);
  TRUNKLINE_ROLLED
  for (auto slot = static_cast<std::int32_t>(own); slot < static_cast<std::int32_t>(next); ++slot) {
    lists.merge_slots[slot] = slot;
    if (lists.partial_merges != nullptr) lists.partial_merges[slot] = merge;
  }
}

constexpr std::int32_t kScheduleChunk = FewPacks::kMost;  ///< items that one thread compares with

/// Items of a chunk that come before an item: those that cost more to within a class, and of one class those of lower
/// index. \param first of those looked at, and then every `step`-th
TRUNKLINE_HOST_DEVICE inline std::int32_t count_ahead(const std::uint16_t* classes, std::int32_t item,
                                                      std::int32_t first, std::int32_t end, std::int32_t step) {
  const std::int32_t own = classes[item];
  std::int32_t ahead = 0;
  TRUNKLINE_ROLLED
  for (std::int32_t other = first; other < end; other += step) {
    const std::int32_t its = classes[other];
    ahead += its > own || (its == own && other < item) ? 1 : 0;
  }
  return ahead;
}

/// The lanes that share the items that each of few is compared with: neighbours of a device's warp.
struct ScheduleLanes {
#if defined(__CUDA_ARCH__)
  static constexpr std::int32_t kCount = 8;
  __device__ static std::int32_t sum(std::int32_t value) {
    for (std::int32_t step = kCount / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
  }
#else
  static constexpr std::int32_t kCount = 1;
  static std::int32_t sum(std::int32_t value) {
    return value;
  }
#endif
};

/// The place of an item, of so few. \param lane all lanes of a warp call it, also behind the last item
TRUNKLINE_HOST_DEVICE inline void place_few(const std::uint16_t* classes, std::int32_t items, std::int32_t lane,
                                            std::int32_t* schedule) {
  const std::int32_t item = lane / ScheduleLanes::kCount;
  const std::int32_t part = lane % ScheduleLanes::kCount;
  const std::int32_t ahead =
      ScheduleLanes::sum(item < items ? count_ahead(classes, item, part, items, ScheduleLanes::kCount) : 0);
  if (item < items && part == 0) schedule[ahead] = item;
}

/// The queries of a row.
TRUNKLINE_HOST_DEVICE inline void write_queries(const TeamForest& forest, const PlanLists& lists, std::int32_t row) {
  const std::int32_t end = forest.query_begin[row + 1];
  TRUNKLINE_ROLLED
  for (std::int32_t query = forest.query_begin[row]; query < end; ++query) {
    lists.queries[query] = {row, query, end - 1 - query};
  }
}

/// All that is left to write but the schedule of more than a chunk of items, whose places are counted, and tell() and
/// keep(), by one thread each: steps that do not wait for each other. \param spared blocks that have no part in it, so
/// that the last of the others only tells, and writes the schedule and spans of its own; 0 where items are more than a
/// chunk \param cut some items are
template <class Team, class Tell, class Keep>
TRUNKLINE_HOST_DEVICE void write_lists(Team& team, const PlanTask& task, const PlanLists& lists, std::int32_t spared,
                                       bool cut, Tell tell, Keep keep) {
  constexpr std::int32_t kMostLanes = 1024;  // beyond so many lanes of all items, each has fewer
  constexpr std::int32_t kWarp = 32;
  constexpr std::int32_t kFirst = 2 * kWarp;  // the first warp tells, the next one keeps
  const std::int32_t* const shape = task.memory.shape;
  const std::int32_t items = shape[PlanMemory::kItems];
  const std::int32_t queries = task.forest.query_begin[task.forest.rows];
  const bool few = items <= kScheduleChunk;
  const std::int32_t schedule = items * (few ? ScheduleLanes::kCount : ceil_div(items, kScheduleChunk));
  const std::int32_t schedule_end = kFirst + (schedule + kWarp - 1) / kWarp * kWarp;
  std::int32_t lane_bits = 5;  // 32 lanes share an item's queries
  while (lane_bits > 2 && items << lane_bits > kMostLanes) --lane_bits;
  const std::int32_t items_end = schedule_end + (items << lane_bits);
  const std::int32_t merges_end = items_end + (cut ? queries : 0);
  const std::int32_t all = merges_end + task.forest.rows;
  const std::int32_t head = spared > 0 ? schedule_end : 0;
  const std::int32_t busy = team.each_at_last_of_spared(all, head, spared, [=, &task, &lists](std::int32_t i) {
    if (i < kFirst) {
      if (i == 0) tell();
      if (i == kWarp) keep();
    } else if (i < schedule_end) {
      const std::uint16_t* const classes = cut ? task.memory.item_class : task.memory.classes;
      if (few) return place_few(classes, items, i - kFirst, lists.schedule);
      if (i >= kFirst + schedule) return;  // whole warps
      const std::int32_t chunk = (i - kFirst) / items;
      const std::int32_t item = i - kFirst - chunk * items;
      const std::int32_t begin = chunk * kScheduleChunk;
      const std::int32_t ahead = count_ahead(classes, item, begin, least(begin + kScheduleChunk, items), 1);
      if (ahead > 0) Team::fetch_add(task.memory.item_place[item], ahead);
    } else if (i < items_end) {
      const std::int32_t lanes = 1 << lane_bits;
      write_item_lists(task, lists, (i - schedule_end) >> lane_bits, (i - schedule_end) & (lanes - 1), lanes, cut);
    } else if (i < merges_end) {
      write_merge(task, lists, i - items_end);
    } else {
      write_queries(task.forest, lists, i - merges_end);
    }
  });
  const PlanTask& again = *Team::forgotten(&task);
  const bool shared = again.memory.shape[PlanMemory::kOwnTiles] == kSharedTiles;
  const PackLanes pack_lanes(again.memory, known_packs(team, again, spared));
  write_fragments(again, lists, pack_lanes, team.part(shared, spared, busy), cut);
}

/// And that schedule.
template <class Team>
TRUNKLINE_HOST_DEVICE void write_schedule(Team& team, const PlanTask& task, const PlanLists& lists) {
  const std::int32_t items = task.memory.shape[PlanMemory::kItems];
  if (items <= kScheduleChunk) return;
  team.each(0, [](std::int32_t) {});  // places are counted
  team.each_at_last(items, [&task, &lists](std::int32_t i) { lists.schedule[task.memory.item_place[i]] = i; });
}

}  // namespace trunkline
