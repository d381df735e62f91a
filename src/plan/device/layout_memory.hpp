// Memory of the layout phase, which the phase that writes the lists reads as well.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/cut_search.hpp"
#include "plan/device/draft_windows.hpp"
#include "plan/device/packs.hpp"
#include "plan/device/planner_machine.hpp"
#include "plan/task_costs.hpp"

namespace trunkline {

/// Totals of a plan.
struct PlanSummary {
  std::int64_t total_tokens = 0;
  std::int64_t distinct_tokens = 0;
  std::int64_t read_tokens = 0;
  std::int32_t packs = 0;
  std::int32_t items = 0;
  std::int32_t entries = 0;  ///< of item_queries
  std::int32_t spans = 0;
  std::int32_t masks = 0;
  std::int32_t merges = 0;
  std::int32_t partials = 0;
  std::int32_t windows = 0;    ///< of draft trees
  std::int32_t fallbacks = 0;  ///< 1: a capacity was exceeded and the plan is `flat`
  std::int32_t unplanned = 0;  ///< 1: `flat` exceeds a capacity too; the plan has no items
  std::int32_t growth = 0;     ///< tokens that rows may grow by
};

struct LayoutMemory {
  /// Entries that a pack adds to the plan's lists.
  struct Counts {
    std::int64_t items = 0;
    std::int64_t entries = 0;
    std::int64_t spans = 0;
    std::int64_t masks = 0;    ///< without the masks of draft trees until windows have leaders
    std::int64_t windows = 0;  ///< of draft trees

    TRUNKLINE_HOST_DEVICE friend Counts operator+(const Counts& a, const Counts& b) {
      return {a.items + b.items, a.entries + b.entries, a.spans + b.spans, a.masks + b.masks, a.windows + b.windows};
    }
  };

  PackGroup* groups = nullptr;         // [group_room]
  PlannedPack* packs = nullptr;        // [pack_room]
  TaskLoad* loads = nullptr;           // [pack_room]
  Counts* counts = nullptr;            // [pack_room]
  std::int32_t* items_of = nullptr;    // [queries] items that hold a query
  std::int32_t* first_slot = nullptr;  // [queries] partial slot of a query's first item; kDirect: it has one item
  std::uint32_t* keys = nullptr;       // [items] sort keys of the schedule
  DraftWindow* windows = nullptr;      // [spans + 1]
  PlanSummary* summary = nullptr;      // [1]
  CutSearch::Scratch cuts;             // used if shared memory is too small
  std::int32_t group_room = 0;
  std::int32_t pack_room = 0;

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows, const PlanCapacity& capacity) {
    group_room = max(rows, capacity.items);
    pack_room = max(capacity.queries, capacity.items);
    arena.take(groups, group_room);
    arena.take(packs, pack_room);
    arena.take(loads, pack_room);
    arena.take(counts, pack_room);
    arena.take(items_of, capacity.queries);
    arena.take(first_slot, capacity.queries);
    arena.take(keys, capacity.items);
    arena.take(windows, std::int64_t{capacity.spans} + 1);
    arena.take(summary, 1);
    cuts.lay_out(arena);
  }
};

}  // namespace trunkline
