// The tiles of `trunk` by a team: what TrunkCore::choose finds, each way to fill them tried by a block of its own.
#pragma once

#include <cstdint>

#include "plan/policies/trunk_core.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/team_cuts.hpp"
#include "plan/team/team_requests.hpp"

namespace trunkline {

/// Tries at tiles, by one block.
template <class Block>
class TileTry {
 public:
  TRUNKLINE_HOST_DEVICE TileTry(Block& block, const PlanTask& task) : block_(block), task_(task), own_(task.block) {}

  /// Full tiles of one width, or early ones, and what they cost. Both by the same code: devices wait for what they run
  /// the first time. \param i width, or of TrunkCore::kEarlyTries \param full TrunkCore::find_early's
  /// \param number of the try
  TRUNKLINE_HOST_DEVICE void attempt(std::int32_t i, bool early, const TrunkChoice& full, std::int32_t number) {
    TrunkFill fill{i};
    if (early && !is_other(i, full)) return give_up(number);
    if (early && !find_early(task_, i, full, fill)) return give_up(number);
    const std::int32_t widest = widest_of(task_);
    if (task_.machine.widths[fill.width].max_queries < widest) return give_up(number);
    const TrunkWidth width = narrowed_for(widest, fill.limited(task_.machine.widths));
    const std::int32_t tiles = this->fill(width, fill.cap, own_.state->tried[number]);
    std::int32_t* const begins = task_.begins_of(number, tiles);
    const CutOutcome outcome =
        tiles <= FewCuts::kMostLoads ? cut_few(width, tiles, begins, number) : cut(width, tiles, begins, number);
    TriedTiles& tried = own_.state->tried[number];
    const std::int32_t end = own_.begins[tiles];
    block_.once([&tried, &outcome, &fill, tiles, begins, end] {
      begins[tiles] = end;
      tried.choice = {fill, tiles, outcome.time, outcome.work, outcome.ideal};
      tried.pieces = outcome.pieces;
      tried.reads = outcome.reads;
      tried.possible = 1;
    });
  }

 private:
  static constexpr std::int32_t kMostFollowed = 96;  // tiles, from the first on

  /// A request that alone is wider than all tiles is spread over the widest.
  TRUNKLINE_HOST_DEVICE static std::int32_t widest_of(const PlanTask& task) {
    return least(task.block.state->widest, task.machine.max_queries());
  }

  TRUNKLINE_HOST_DEVICE static bool find_early(const PlanTask& task, std::int32_t early, const TrunkChoice& full,
                                               TrunkFill& fill) {
    const BlockMemory::State& state = *task.block.state;
    return TrunkCore::find_early(early, full, state.costs, state.requests.queries(0, state.requests.count),
                                 widest_of(task), task.machine.widths, task.machine.width_count, fill);
  }

  /// Whether that early try may come to other tiles than the full ones.
  TRUNKLINE_HOST_DEVICE bool is_other(std::int32_t early, const TrunkChoice& full) const {
    const TriedTiles& tried = own_.state->tried[full.fill.width];
    return early < TrunkCore::kCaps ? tried.may_close != 0 : tried.may_share != 0;
  }

  TRUNKLINE_HOST_DEVICE void give_up(std::int32_t number) {
    TriedTiles& tried = own_.state->tried[number];
    block_.once([&tried] { tried.possible = 0; });
  }

  /// Finds where tiles end. \param[out] tried what is said of them, but not of any yet \return how many there are
  TRUNKLINE_HOST_DEVICE std::int32_t fill(const TrunkWidth& width, Nanoseconds cap, TriedTiles& tried) {
    const BlockMemory& own = own_;
    // Only where tiles are closed early do costs decide where they end.
    if (cap > 0) block_.once([&own] { own.state->costs.count_reads_alike(); });
    const TrunkRequests& requests = own.state->requests;
    const TrunkTiling tiling(own.state->costs, requests);
    block_.each(requests.count, [&own, &tiling, &width, &tried, cap](std::int32_t i) {
      if (i == 0) tried.other_begins = tried.may_close = tried.may_share = 0;
      own.ends[i] = tiling.tile_end(width, i, cap);
      own.jumps[i] = own.ends[i];
      own.reached[i] = i == 0 ? 1 : 0;
      own.reached[own.rows + i] = 0;
    });
    return number_tiles(requests.count, requests.count > kMostFollowed * width.max_queries);
  }

  /// \param[out] begins of the tiles, which are compared with those that are guessed
  TRUNKLINE_HOST_DEVICE CutOutcome cut_few(const TrunkWidth& width, std::int32_t tiles, std::int32_t* begins,
                                           std::int32_t number) {
    const BlockMemory& own = own_;
    const TileGuess& guess = task_.guess;
    TriedTiles& tried = own_.state->tried[number];
    return choose_few_cuts(
        block_, own, own.loads, tiles, own.state->requests.distinct_tokens,
        [&own, &width](std::int32_t i) {
          return TrunkTiling(own.state->costs, own.state->requests).load(width, own.begins[i], own.begins[i + 1]);
        },
        [&own, &guess, &tried, begins](std::int32_t i) {
          begins[i] = own.begins[i];
          if (i < guess.tiles.count && guess.begins[i] != begins[i]) Block::fetch_greatest(tried.other_begins, 1);
        },
        [this, &width, &tried, tiles](const auto& lanes) {
          look_ahead(task_, width, tiles, lanes.index(), lanes.count(), tried);
        });
  }
  /// Whether tiles that are closed early may be others than these. A function of its own, which leaves the tries beside
  /// it their registers. \param first of the tiles that are looked at, and then every `step`-th
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static void look_ahead(const PlanTask& task, const TrunkWidth& width,
                                                                     std::int32_t tiles, std::int32_t first,
                                                                     std::int32_t step, TriedTiles& tried) {
    const BlockMemory& own = task.block;
    const TrunkTiling tiling(own.state->costs, own.state->requests);
    TrunkFill fill;
    if (first == 0 && find_early(task, TrunkCore::kCaps, {}, fill)) tried.may_share = 1;
    bool may_close = false;
    TRUNKLINE_ROLLED
    for (std::int32_t i = first; i < tiles && !may_close; i += step) may_close = tiling.may_close(width, own.begins[i]);
    if (may_close) Block::fetch_greatest(tried.may_close, 1);
  }
  TRUNKLINE_HOST_DEVICE CutOutcome cut(const TrunkWidth& width, std::int32_t tiles, std::int32_t* begins,
                                       std::int32_t number) {
    const BlockMemory& own = own_;
    const TrunkTiling tiling(own.state->costs, own.state->requests);
    TriedTiles& tried = own_.state->tried[number];
    const std::int64_t read =
        block_.sum(tiles, std::int64_t{0}, [&own, &tiling, &width, &tried, begins](std::int32_t i) {
          if (i == 0) tried.may_close = tried.may_share = 1;  // not looked at
          begins[i] = own.begins[i];
          own.loads[i] = tiling.load(width, own.begins[i], own.begins[i + 1]);
          return own.loads[i].tokens;
        });
    block_.once([&own, read] { own.state->costs.set_rereads(own.state->requests.distinct_tokens, read); });
    return choose_cuts(block_, own, own.loads, tiles, read);
  }

  /// Tiles follow each other from the first request on. Few are followed by one thread, which takes 20 ns a tile; of
  /// many, after k rounds of jumps four times as long, the first 4^k are known. \param many there are surely more
  /// than kMostFollowed
  TRUNKLINE_HOST_DEVICE std::int32_t number_tiles(std::int32_t count, bool many) {
    if (many) return number_many(count);
    BlockMemory::State* const state = own_.state;
    std::int32_t* const begins = own_.begins;
    const std::int32_t* const ends = own_.ends;
    block_.once([state, begins, ends, count] {
      std::int32_t tiles = 0;
      std::int32_t at = 0;
      TRUNKLINE_ROLLED
      for (; at < count && tiles < kMostFollowed; ++tiles) {
        begins[tiles] = at;
        at = ends[at];
      }
      begins[tiles] = at;
      state->tiles = at < count ? -1 : tiles;
    });
    const std::int32_t tiles = state->tiles;
    return tiles < 0 ? number_many(count) : tiles;
  }

  TRUNKLINE_HOST_DEVICE std::int32_t number_many(std::int32_t count) {
    const BlockMemory& own = own_;
    std::int32_t from = 0;
    while (count > 0 && own.jumps[from * own.rows] < count) {
      block_.each(count, [&own, count, from](std::int32_t i) {
        const std::int32_t* const jumps = own.jumps + from * own.rows;
        std::int32_t* const reached = own.reached + (1 - from) * own.rows;
        const bool known = own.reached[from * own.rows + i] != 0;
        std::int32_t to = i;
        for (std::int32_t jump = 0; jump < 4; ++jump) {
          if (known && to < count) reached[to] = 1;
          to = to < count ? jumps[to] : count;
        }
        own.jumps[(1 - from) * own.rows + i] = to;
      });
      from = 1 - from;
    }
    const std::int32_t* const numbers = own.reached + from * own.rows;  // 1 where a tile begins
    return block_.template scan<std::int32_t>(
        count, [numbers](std::int32_t i) { return numbers[i]; },
        [&own, numbers, count](std::int32_t i, std::int32_t before) {
          if (i == count || numbers[i] != 0) own.begins[before] = i;
        });
  }

  Block& block_;
  const PlanTask& task_;
  const BlockMemory& own_;
};

/// Full tiles of each width, or those that are closed earlier, each try by a block. \param full TrunkCore::find_early's
template <class Team>
TRUNKLINE_HOST_DEVICE void try_tiles(Team& team, const PlanTask& task, bool early, const TrunkChoice& full) {
  const std::int32_t widths = task.machine.width_count;
  const std::int32_t begin = early ? widths : 0;
  TriedTiles* const tries = task.block.state->tried;
  team.each_block(
      early ? TrunkCore::kEarlyTries : widths,
      [&task, &full, early, begin](std::int32_t i, auto&& block) {
        TileTry(block, task).attempt(i, early, full, begin + i);
      },
      [tries, begin](std::int32_t i) { return &tries[begin + i]; });
}

/// The best of some tries, of equal ones the first: each lane looks at some. \return TriedTiles::kMost if none is
/// possible
template <class Lanes>
TRUNKLINE_HOST_DEVICE std::int32_t best_of(const Lanes& lanes, const PlanTask& task, Range tries) {
  TrunkChoice best;
  best.predicted = best.work = CutChoice::kNever;
  std::int32_t number = TriedTiles::kMost;
  TRUNKLINE_ROLLED
  for (std::int32_t i = tries.begin + lanes.index(); i < tries.end; i += lanes.count()) {
    const TriedTiles& tried = task.block.state->tried[i];
    const TrunkChoice its = tried.choice;  // read beside `possible`
    if (tried.possible == 0 || !its.better_than(best)) continue;
    best = its;
    number = i;
  }
  // As TrunkChoice::better_than has it, among lanes.
  const bool is_fast = best.predicted == lanes.least(best.predicted);
  const bool is_best = best.work == lanes.least(is_fast ? best.work : CutChoice::kNever) && is_fast;
  return lanes.least(is_best ? number : std::int32_t{TriedTiles::kMost});
}

/// Whether tiles that are closed early are tried, after full ones of which these are the best.
TRUNKLINE_HOST_DEVICE inline bool may_close_early(const TriedTiles& full) {
  return TrunkCore::may_close_early(full.choice) && (full.may_close != 0 || full.may_share != 0);
}
/// The same, once full ones are tried.
template <class Lanes>
TRUNKLINE_HOST_DEVICE bool may_close_early(const Lanes& lanes, const PlanTask& task) {
  const std::int32_t number = best_of(lanes, task, {0, task.machine.width_count});
  return number < TriedTiles::kMost && may_close_early(task.block.state->tried[number]);
}

/// TrunkCore::choose. By all lanes alike.
/// \param[out] number of the try \param[out] early tiles that are closed early were tried
/// \param attempt(early, full) until tries are known
template <class Lanes, class Attempt>
TRUNKLINE_HOST_DEVICE TrunkChoice choose_tiles(const Lanes& lanes, const PlanTask& task, std::int32_t& number,
                                               bool& early, Attempt attempt) {
  const std::int32_t widths = task.machine.width_count;
  number = -1;
  TrunkChoice best;
  TrunkChoice full;
  // First full tiles of each width, then those that are closed earlier.
  for (early = false;; early = true) {
    attempt(early, full);
    const Range tries = early ? Range{widths, widths + TrunkCore::kEarlyTries} : Range{0, widths};
    const std::int32_t tried = best_of(lanes, task, tries);
    if (tried < TriedTiles::kMost) {
      const TrunkChoice its = task.block.state->tried[tried].choice;
      if (number < 0 || its.better_than(best)) {
        best = its;
        number = tried;
      }
    }
    if (early || number < 0 || !may_close_early(task.block.state->tried[number])) return best;
    full = best;
  }
}

}  // namespace trunkline
