// Items of a plan of which some are parts of packs: whose each is, what it costs and where it begins.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/cost_classes.hpp"
#include "plan/cut_choice.hpp"
#include "plan/team/item_lists.hpp"
#include "plan/team/part_begins.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/planned_pack.hpp"
#include "plan/team/team_memory.hpp"
#include "plan/team/team_spans.hpp"

namespace trunkline {

/// The pack of an item.
TRUNKLINE_HOST_DEVICE inline std::int32_t pack_of(const PlanMemory& memory, std::int32_t item) {
  const PlannedPack* const packs = memory.packs;
  return last_begun(memory.shape[PlanMemory::kPacks], item, [packs](std::int32_t i) { return packs[i].first_item; });
}

/// What an item of a plan with cuts costs, and whose it is.
TRUNKLINE_HOST_DEVICE inline void place_item(const PlanTask& task, std::int32_t item) {
  const PlanMemory& memory = task.memory;
  const std::int32_t number = pack_of(memory, item);
  const PlannedPack pack = memory.packs[number];  // read once, whatever is written
  const std::int32_t part = item - pack.first_item;
  const std::int64_t tokens = part_begin(pack, part + 1) - part_begin(pack, part);
  const TaskLoad& load = memory.loads[number];
  const Nanoseconds cost = pack.parts == 1 ? load.whole : cut_cost(load, *memory.costs, pack.parts, tokens);
  memory.item_pack[item] = number;
  memory.item_class[item] = static_cast<std::uint16_t>(CostClasses::class_of(cost));
  memory.item_place[item] = 0;
}

/// The same of some items.
template <class Lanes>
TRUNKLINE_HOST_DEVICE void place_by(const Lanes& lanes, const PlanTask& task, Range items) {
  TRUNKLINE_ROLLED
  for (std::int32_t item = items.begin + lanes.index(); item < items.end; item += lanes.count()) {
    place_item(task, item);
  }
}

/// How many partials the queries of a pack have.
template <class Lanes>
TRUNKLINE_HOST_DEVICE void count_partials(const Lanes& lanes, const PlanMemory& memory, const PlannedPack& pack) {
  const std::int32_t* const query_at = memory.query_at;  // read once, whatever is written, as what follows
  std::int64_t* const slots_of = memory.slots_of;
  const Range positions = pack.positions;
  const std::int64_t partials = pack.parts == 1 ? 0 : (std::int64_t{1} << 32) + pack.parts;
  TRUNKLINE_ROLLED
  for (std::int32_t k = positions.begin + lanes.index(); k < positions.end; k += lanes.count()) {
    slots_of[query_at[k]] = partials;
  }
}

TRUNKLINE_HOST_DEVICE inline ItemMark mark_of(const PartBegin& begin) {
  return {begin.splits + (std::int64_t{begin.masked} << 32), begin.fragments};
}

/// Where a part of a tile begins that is not its first. \param token in slices
template <class Lanes>
TRUNKLINE_HOST_DEVICE PartBegin part_in(const Lanes& lanes, const PlanTask& task, std::int32_t tile,
                                        std::int64_t token) {
  return PartSearch(task.machine.slices, task.memory.tile(tile)).find(lanes, token);
}

}  // namespace trunkline
