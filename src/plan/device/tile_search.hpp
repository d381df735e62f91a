// Searches which neighbouring requests share a tile: the tries of TrunkCore, one thread group for each.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/cut_search.hpp"
#include "plan/device/planner_machine.hpp"
#include "plan/device/requests.hpp"
#include "plan/device/thread_group.hpp"
#include "plan/policies/trunk_core.hpp"

namespace trunkline {

/// The tiles that a batch's requests may have, and what tasks cost.
struct BatchTiles {
  TrunkWidth widths[PlannerMachine::kMaxHeights];  ///< tiles that hold the queries of any one request
  std::int32_t count = 0;
  std::int32_t first = 0;   ///< index of the first in PlannerMachine::widths
  std::int32_t widest = 1;  ///< BatchTotals::widest
  TaskCosts costs;          ///< computed as if all tokens came from memory

  TRUNKLINE_HOST_DEVICE static BatchTiles of(const PlannerMachine& machine, const BatchTotals& totals) {
    BatchTiles tiles;
    tiles.widest = totals.widest;
    while (machine.widths[tiles.first].max_queries < totals.widest) ++tiles.first;
    if (machine.invariant_chunk > 0) return tiles;  // `invariant` chooses no tiles
    for (std::int32_t i = tiles.first; i < machine.width_count; ++i) {
      tiles.widths[tiles.count++] = narrowed_for(totals.widest, machine.widths[i]);
    }
    tiles.costs = machine.batch_costs(totals.queries, totals.repeated_tokens);
    return tiles;
  }
};

/// A try: one way to fill tiles.
struct TileTry {
  static constexpr std::int32_t kMax = PlannerMachine::kMaxHeights + TrunkCore::kEarlyTries;

  TrunkChoice choice;
  bool made = false;
};

/// All tries: first full tiles, one try a width, then cost-capped tiles.
struct TileTries {
  TileTry* tries = nullptr;        // [TileTry::kMax]
  std::int32_t* begins = nullptr;  // [TileTry::kMax, rows + 1] first request of each tile, and the end
  std::int32_t rows = 0;           // capacity

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows_room) {
    rows = rows_room;
    arena.take(tries, TileTry::kMax);
    arena.take(begins, TileTry::kMax * (std::int64_t{rows} + 1));
  }
  TRUNKLINE_HOST_DEVICE std::int32_t* begins_of(std::int32_t number) const {
    return begins + std::int64_t{number} * (rows + 1);
  }
  /// Returns the best try of the first `count`, the first of equal ones; -1: none was made.
  TRUNKLINE_HOST_DEVICE std::int32_t best(std::int32_t count) const {
    std::int32_t found = -1;
    for (std::int32_t i = 0; i < count; ++i) {
      if (tries[i].made && (found < 0 || tries[i].choice.better_than(tries[found].choice))) found = i;
    }
    return found;
  }
};

class TileSearch {
 public:
  struct Scratch {
    std::int32_t* next = nullptr;  // [rows] end of the tile that begins at a request
    TaskLoad* loads = nullptr;     // [rows]
    CutSearch::Scratch cuts;

    TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows) {
      arena.take(next, rows);
      arena.take(loads, rows);
      cuts.lay_out(arena);
    }
  };

  TRUNKLINE_HOST_DEVICE TileSearch(const TrunkRequests& requests, const BatchTiles& tiles, const TileTries& tries,
                                   const Scratch& scratch)
      : requests_(requests), tiles_(tiles), to_(tries), s_(scratch) {}

  /// Makes the number-th full try: full tiles of the number-th width. Makes none if there is no such width.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void try_full(Group& group, std::int32_t number) const {
    const bool made = number < tiles_.count && requests_.count > 0;
    if (made) make(group, number, {number});
    group.once([&] { to_.tries[number].made = made; });
  }

  /// Makes the number-th try of cost-capped tiles. \pre all full tries are made
  template <class Group>
  TRUNKLINE_HOST_DEVICE void try_early(Group& group, std::int32_t number) const {
    TrunkFill fill;
    const bool made = find_early(group, number, fill);
    const std::int32_t place = PlannerMachine::kMaxHeights + number;
    if (made) make(group, place, fill);
    group.once([&] { to_.tries[place].made = made; });
  }

 private:
  template <class Group>
  TRUNKLINE_HOST_DEVICE bool find_early(Group& group, std::int32_t number, TrunkFill& fill) const {
    const std::int32_t best = to_.best(tiles_.count);
    if (best < 0) return false;
    const TrunkChoice full = to_.tries[best].choice;
    if (!TrunkCore::may_close_early(full)) return false;
    if (number < TrunkCore::kCaps) {
      const std::int32_t* const begins = to_.begins_of(best);
      const TrunkTiling tiling(tiles_.costs, requests_);
      if (!any(group, full.tiles,
               [&](std::int32_t i) { return tiling.may_close(tiles_.widths[full.fill.width], begins[i]); })) {
        return false;
      }
    }
    return TrunkCore::find_early(number, full, tiles_.costs, requests_.queries(0, requests_.count), tiles_.widest,
                                 tiles_.widths, tiles_.count, fill);
  }

  template <class Group>
  TRUNKLINE_HOST_DEVICE void make(Group& group, std::int32_t place, const TrunkFill& fill) const {
    TaskCosts costs = tiles_.costs;
    costs.count_reads_alike();  // until the tiles are known, all reads cost equally
    const TrunkTiling tiling(costs, requests_);
    const TrunkWidth width = fill.limited(tiles_.widths);
    group.for_each(requests_.count, [&](std::int32_t k) { s_.next[k] = tiling.tile_end(width, k, fill.cap); });
    std::int32_t* const begins = to_.begins_of(place);
    // Each tile begins at the end of the one before it: one thread follows the chain.
    group.once([&] {
      std::int32_t count = 0;
      TRUNKLINE_ROLLED
      for (std::int32_t at = 0; at < requests_.count; at = s_.next[at]) begins[count++] = at;
      begins[count] = requests_.count;
      to_.tries[place].choice.tiles = count;
    });
    const std::int32_t count = to_.tries[place].choice.tiles;
    group.for_each(count, [&](std::int32_t i) { s_.loads[i] = tiling.load(width, begins[i], begins[i + 1]); });
    const std::int64_t read = sum(group, count, [&](std::int32_t i) { return s_.loads[i].tokens; });
    TaskCosts known = costs;
    known.set_rereads(requests_.distinct_tokens, read);
    const ChosenCut cut = CutSearch(known, true, s_.cuts).choose(group, s_.loads, count);
    group.once([&] { to_.tries[place].choice = {fill, count, cut.time, cut.work, cut.ideal}; });
  }

  const TrunkRequests requests_;
  const BatchTiles& tiles_;
  const TileTries& to_;
  const Scratch& s_;
};

}  // namespace trunkline
