// Planning on a device, phase by phase. Each phase is a kernel, which reads the results of the phases before it.
//
//   phase           result                                              thread groups          file
//   compare_rows    each row compared with the last plan                one a row              row_diff.hpp
//   find_forest     the decision to reuse the plan, or else the forest  one                    forest_phase.hpp
//   try_full        full tiles of each width, and their cuts            one a width            tile_search.hpp
//   try_early       cost-capped tiles                                   one a try              tile_search.hpp
//   list_tiles      the KV segments that each tile of the best try      one a tile             tile_segments.hpp
//                   streams
//   lay_out         cuts, and the ranges of packs in all lists          one                    plan_layout.hpp
//   write           queries, items, spans, masks                        one a pack             plan_writer.hpp
//
// The plan equals that of Planner with policy `trunk` or `invariant`, bit for bit. `invariant` tries no tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/forest_phase.hpp"
#include "plan/device/plan_layout.hpp"
#include "plan/device/plan_writer.hpp"
#include "plan/device/planner_machine.hpp"
#include "plan/device/requests.hpp"
#include "plan/device/row_diff.hpp"
#include "plan/device/tile_search.hpp"
#include "plan/device/tile_segments.hpp"
#include "plan/plan_lists.hpp"

namespace trunkline {

/// The state of a planning step.
struct StepState {
  DeviceForest forest;  ///< with its counts
  BatchFaults faults;
  BatchTiles tiles;
  std::int32_t reused = 0;  ///< 1: the last plan is reused, and the later phases return at once
};

/// Memory that the phases share.
struct PlannerMemory {
  RowDiff* diffs = nullptr;  // [rows]
  PlannedRows planned;       // persists between steps
  StepState* step = nullptr;
  ForestScratch search;
  DeviceForest forest;
  DeviceRequests requests;
  TileTries tries;
  SegmentPool pool;
  LayoutMemory layout;

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows, const PlanCapacity& capacity) {
    arena.take(diffs, rows);
    arena.take(planned.step, 1);
    arena.take(planned.rows, rows);
    arena.take(planned.query_begin, std::int64_t{rows} + 1);
    arena.take(planned.query_parents, capacity.queries);
    arena.take(step, 1);
    search.lay_out(arena, rows);
    forest.lay_out(arena, rows);
    requests.lay_out(arena, rows, capacity.queries);
    tries.lay_out(arena, rows);
    pool.lay_out(arena, rows, capacity.spans);
    layout.lay_out(arena, rows, capacity);
  }
};

/// The arguments of all phases.
struct PlannerTask {
  DeviceBatch batch;
  const PlannerMachine* machine = nullptr;
  PlannerMemory memory;
  PlanLists lists;
  std::int32_t max_growth = 0;  ///< CudaPlannerOptions::growth
};

class PlannerPhases {
 public:
  TRUNKLINE_HOST_DEVICE explicit PlannerPhases(const PlannerTask& task)
      : batch_(task.batch), machine_(*task.machine), m_(task.memory), lists_(task.lists), growth_(task.max_growth) {}

  template <class Group>
  TRUNKLINE_HOST_DEVICE void compare_row(Group& group, std::int32_t row) const {
    const RowDiff diff = trunkline::compare_row(group, batch_, m_.planned, row);
    group.once([&] { m_.diffs[row] = diff; });
  }

  /// \param reusable the lists hold the last plan \param scratch of the batch's rows
  template <class Group>
  TRUNKLINE_HOST_DEVICE void find_forest(Group& group, bool reusable, const ForestScratch& scratch) const {
    const bool reused = reusable && may_reuse(group, batch_, m_.diffs, m_.planned);
    group.once([&] { m_.step->reused = reused ? 1 : 0; });
    if (reused) return;
    DeviceForest forest = m_.forest;
    forest.rows = batch_.rows;
    const BatchFaults faults = trunkline::find_forest(group, batch_, m_.diffs, scratch, forest);
    keep_planned_rows(group, forest, scratch.prefixes, growth_, machine_.invariant_chunk, m_.planned);
    prepare(group, forest, faults);
  }
  /// Completes find_forest once the forest is built: lists requests and resets the later phases.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void prepare(Group& group, const DeviceForest& forest, const BatchFaults& faults) const {
    const bool fits = forest.query_begin[forest.rows] <= machine_.capacity.queries;
    if (fits) list_requests(group, forest, machine_.max_queries(), m_.requests);
    group.for_each(TileTry::kMax, [&](std::int32_t i) { m_.tries.tries[i].made = false; });
    group.once([&] {
      StepState& step = *m_.step;
      if (!fits) *m_.requests.totals = BatchTotals{};
      step.forest = forest;
      step.faults = faults;
      step.tiles = BatchTiles::of(machine_, *m_.requests.totals);
      *m_.pool.used_segments = *m_.pool.used_kv_segments = 0;
      // No plan may be reused until this one is written.
      m_.planned.step->rows = -1;
    });
  }

  template <class Group>
  TRUNKLINE_HOST_DEVICE void try_full(Group& group, std::int32_t number, const TileSearch::Scratch& scratch) const {
    scratch.cuts.clear(group);
    TileSearch(m_.requests.trunk(), m_.step->tiles, m_.tries, scratch).try_full(group, number);
  }
  template <class Group>
  TRUNKLINE_HOST_DEVICE void try_early(Group& group, std::int32_t number, const TileSearch::Scratch& scratch) const {
    scratch.cuts.clear(group);
    TileSearch(m_.requests.trunk(), m_.step->tiles, m_.tries, scratch).try_early(group, number);
  }

  /// Returns the number of tiles of the best try.
  TRUNKLINE_HOST_DEVICE std::int32_t tile_count() const {
    const std::int32_t best = m_.tries.best(TileTry::kMax);
    return best < 0 ? 0 : m_.tries.tries[best].choice.tiles;
  }
  template <class Group>
  TRUNKLINE_HOST_DEVICE void list_tile(Group& group, std::int32_t tile, const TileScratch& scratch) const {
    const std::int32_t best = m_.tries.best(TileTry::kMax);
    TileLister(machine_, m_.step->forest, m_.requests, m_.step->tiles, m_.pool, scratch)
        .list(group, m_.tries.tries[best].choice.fill, m_.tries.begins_of(best), tile, m_.layout.groups[tile]);
  }

  template <class Group>
  TRUNKLINE_HOST_DEVICE void lay_out(Group& group, const CutSearch::Scratch& scratch) const {
    PlanLayout(machine_, m_.step->forest, m_.requests, m_.pool, m_.layout, scratch, lists_).run(group, tile_count());
    group.once([&] {
      const PlanSummary& plan = *m_.layout.summary;
      const BatchFaults& faults = m_.step->faults;
      // A batch with faults is planned anew at each step.
      m_.planned.step->rows = faults.lengths + faults.queries == 0 ? batch_.rows : -1;
      m_.planned.step->growth = plan.growth;
    });
  }

  TRUNKLINE_HOST_DEVICE std::int32_t pack_count() const { return m_.layout.summary->packs; }
  template <class Group>
  TRUNKLINE_HOST_DEVICE void write_pack(Group& group, std::int32_t pack) const {
    PlanWriter(machine_, m_.step->forest, m_.requests, m_.pool, m_.layout, lists_).write(group, pack);
  }
  template <class Group>
  TRUNKLINE_HOST_DEVICE void write_queries(Group& group, Range rows) const {
    trunkline::write_queries(group, m_.step->forest, rows, lists_);
  }

 private:
  const DeviceBatch& batch_;
  const PlannerMachine& machine_;
  const PlannerMemory& m_;
  const PlanLists& lists_;
  std::int32_t growth_;
};

}  // namespace trunkline
