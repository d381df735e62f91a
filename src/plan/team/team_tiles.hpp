// The tiles of `trunk` by a team: what TrunkCore::choose finds, each width and each cap tried by a block of its own.
#pragma once

#include <cstdint>

#include "plan/policies/trunk_core.hpp"
#include "plan/team/block_memory.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_cuts.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_machine.hpp"

namespace trunkline {

/// What all steps of planning are given.
struct PlanTask {
  const TeamMachine& machine;
  const TeamForest& forest;
  const PlanMemory& memory;
  const BlockMemory& block;
};

TRUNKLINE_HOST_DEVICE inline std::int32_t size_of(Range range) {
  return range.end - range.begin;
}

/// What tiling needs of each request and node.
template <class Team>
TRUNKLINE_HOST_DEVICE void gather_requests(Team& team, const PlanTask& task) {
  const std::int32_t rows = task.forest.rows;
  team.each(rows + task.forest.node_count, [&task, rows](std::int32_t i) {
    const TeamForest& forest = task.forest;
    const PlanMemory& memory = task.memory;
    if (i < rows) {
      const std::int32_t row = forest.order[i];
      const std::int32_t node = forest.node[row];
      memory.queries[i] = forest.query_begin[row + 1] - forest.query_begin[row];
      memory.path_tokens[i] = node < 0 ? -1 : forest.nodes[node].end;
      memory.tails_before[i] = node >= 0 && size_of(forest.nodes[node].requests) > 1 ? 1 : 0;
      // Where no node begins at a request, it ends with the one before.
      if (node < 0) {
        memory.path_shared[i] = 0;
      } else if (forest.nodes[node].requests.begin < i) {
        memory.path_shared[i] = forest.nodes[node].end;
      }
      return;
    }
    // Of the nodes that begin at a request the topmost is where it leaves the one before.
    const ForestNode& node = forest.nodes[i - rows];
    const bool topmost = node.parent < 0 || forest.nodes[node.parent].requests.begin < node.requests.begin;
    if (topmost) memory.path_shared[node.requests.begin] = node.parent < 0 ? 0 : forest.nodes[node.parent].end;
    memory.hot_tokens[i - rows] = size_of(node.requests) > 1 ? node.end - node.begin : 0;
  });
}

/// Tries at tiles, by one block.
template <class Block>
class TileTry {
 public:
  TRUNKLINE_HOST_DEVICE TileTry(Block& block, const PlanTask& task) : block_(block), task_(task), own_(task.block) {}

  /// The requests that tiles hold, in the block's memory. \param publish for the steps that follow
  TRUNKLINE_HOST_DEVICE void load_requests(bool publish) {
    const PlanMemory& memory = task_.memory;
    const BlockMemory& own = own_;
    const std::int32_t rows = task_.forest.rows;
    const std::int32_t nodes = task_.forest.node_count;
    // Most batches have a query a row: few have to tell that they have more.
    const std::int64_t hot =
        block_.sum(most(rows, nodes), std::int64_t{0}, [&memory, &own, rows, nodes](std::int32_t i) {
          if (i < rows) {
            const std::int32_t queries = memory.queries[i];
            own.listed[i] = (std::int64_t{is_listed(memory, i) ? 1 : 0} << 32) + queries;
            if (queries > Block::peek(own.state->widest)) Block::fetch_greatest(own.state->widest, queries);
          }
          return std::int64_t{i < nodes ? memory.hot_tokens[i] : 0};
        });
    if (publish && rows == 0) block_.once([&memory] { memory.shape[PlanMemory::kFull] = 0; });
    const std::int64_t all = block_.scan_exclusive(own.listed, rows);
    const auto queries = static_cast<std::int32_t>(all);
    const auto count = static_cast<std::int32_t>(all >> 32);
    const PlanTask& task = task_;
    block_.each(rows + 1, [&memory, &own, &task, publish, count, rows, queries, hot](std::int32_t i) {
      if (i == rows) {
        name_batch(task, publish, count, queries, hot);
        return;
      }
      const auto position = static_cast<std::int32_t>(own.listed[i]);
      if (publish) {
        memory.position[i] = position;
        const bool full = memory.path_tokens[i] >= 0;
        if (full && (i + 1 == rows || memory.path_tokens[i + 1] < 0)) memory.shape[PlanMemory::kFull] = i + 1;
        if (!full && i == 0) memory.shape[PlanMemory::kFull] = 0;
      }
      if (!is_listed(memory, i)) return;
      const auto index = static_cast<std::int32_t>(own.listed[i] >> 32);
      std::int32_t shared = index == 0 ? 0 : memory.path_shared[i];
      for (std::int32_t k = i - 1; index > 0 && !is_listed(memory, k); --k) {
        shared = least(shared, memory.path_shared[k]);
      }
      own.tokens[index] = memory.path_tokens[i];
      own.shared[index] = shared;
      own.query_begin[index] = position;
      if (index + 1 == count) own.query_begin[count] = position + memory.queries[i];
      if (publish) memory.try_orders[index] = i;
    });
    block_.template scan<std::int64_t>(
        count, [&own](std::int32_t i) { return std::int64_t{own.tokens[i]} - own.shared[i]; },
        [&own, count](std::int32_t i, std::int64_t before) {
          own.fresh_before[i] = before;
          if (i == count) own.state->requests.distinct_tokens = before;
        });
    widest_ = least(own.state->widest, task_.machine.max_queries());
  }

  /// Tiles of one width, and what they cost. \param number of the try
  TRUNKLINE_HOST_DEVICE void attempt(std::int32_t width, Nanoseconds cap, std::int32_t number) {
    if (task_.machine.widths[width].max_queries < widest_) {
      const PlanMemory& memory = task_.memory;
      block_.once([&memory, number] { memory.tries[number] = {{}, false}; });
      return;
    }
    std::int64_t read = 0;
    const std::int32_t tiles = fill(task_.machine.widths[width], cap, number, read);
    const CutOutcome outcome = choose_cuts(block_, own_, own_.loads, tiles, read);
    const PlanMemory& memory = task_.memory;
    block_.once([&memory, &outcome, width, tiles, cap, number] {
      memory.tries[number] = {{width, tiles, outcome.time, outcome.work, outcome.ideal, cap}, true};
    });
  }

 private:
  /// What is known of all requests but their tokens. By one thread.
  TRUNKLINE_HOST_DEVICE static void name_batch(const PlanTask& task, bool publish, std::int32_t count,
                                               std::int32_t queries, std::int64_t hot) {
    const PlanMemory& memory = task.memory;
    const BlockMemory& own = task.block;
    if (count == 0) own.query_begin[0] = 0;
    own.state->requests = {own.tokens, own.shared, own.fresh_before, own.query_begin, count, 0, false};
    own.state->costs = task.machine.batch_costs(queries, hot);
    if (!publish) return;
    memory.position[task.forest.rows] = queries;
    const std::int32_t held = least(own.state->widest, task.machine.max_queries());
    memory.shape[PlanMemory::kFirstWidth] = task.machine.width_for(held);
    memory.shape[PlanMemory::kListed] = count;
  }

  TRUNKLINE_HOST_DEVICE static bool is_listed(const PlanMemory& memory, std::int32_t i) {
    return memory.path_tokens[i] >= 0 && memory.queries[i] > 0;
  }

  /// TrunkCore::fill. \param[out] read tokens of all tiles \return how many tiles
  TRUNKLINE_HOST_DEVICE std::int32_t fill(const TrunkWidth& width, Nanoseconds cap, std::int32_t number,
                                          std::int64_t& read) {
    const BlockMemory& own = own_;
    std::int32_t* const begins = task_.memory.try_begins + number * (task_.memory.rows + 1);
    // Only where tiles are closed early do costs decide where they end.
    if (cap > 0) block_.once([&own] { own.state->costs.set_rereads(1, 1); });
    const TrunkRequests& requests = own.state->requests;
    const TrunkTiling tiling(own.state->costs, requests);
    block_.each(requests.count, [&own, &tiling, &width, cap](std::int32_t i) {
      own.ends[i] = tiling.tile_end(width, i, cap);
      own.jumps[i] = own.ends[i];
      own.reached[i] = i == 0 ? 1 : 0;
      own.reached[own.rows + i] = 0;
    });
    const std::int32_t tiles = number_tiles(requests.count);
    read = block_.sum(tiles, std::int64_t{0}, [&own, &tiling, &width, begins](std::int32_t i) {
      begins[i] = own.begins[i];
      own.loads[i] = tiling.load(width, own.begins[i], own.begins[i + 1]);
      return own.loads[i].tokens;
    });
    const std::int64_t sum = read;
    block_.once([&own, begins, tiles, sum] {
      begins[tiles] = own.begins[tiles];
      own.state->costs.set_rereads(own.state->requests.distinct_tokens, sum);
    });
    return tiles;
  }

  /// Tiles follow each other from the first request on: after k rounds of jumps four times as long, the first 4^k are
  /// known.
  TRUNKLINE_HOST_DEVICE std::int32_t number_tiles(std::int32_t count) {
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
  std::int32_t widest_ = 1;
};

template <class Block>
TRUNKLINE_HOST_DEVICE void count_tails(Block& block, const PlanTask& task) {
  const PlanMemory& memory = task.memory;
  const std::int32_t rows = task.forest.rows;
  const std::int32_t tails = block.scan_exclusive(memory.tails_before, rows);
  block.once([&memory, rows, tails] { memory.tails_before[rows] = tails; });
}

/// TrunkCore::choose. Blocks keep what they have loaded: each_block gives a block the same numbers each time.
/// \param[out] number of the try whose tiles PlanMemory::try_begins has
template <class Team>
TRUNKLINE_HOST_DEVICE TrunkChoice choose_tiles(Team& team, const PlanTask& task, std::int32_t& number) {
  const std::int32_t widths = task.machine.width_count;
  const std::int32_t blocks = most(widths, TrunkCore::kCaps);
  const TriedTiles* const tries = task.memory.tries;
  number = -1;
  TrunkChoice best;
  TrunkChoice full;
  // First full tiles of each width, then those of the best one that are closed early.
  for (bool early = false;; early = true) {
    team.each_block(blocks + 1, [&task, &full, early, widths, blocks](std::int32_t i, auto&& block) {
      if (i == blocks) {
        if (!early) count_tails(block, task);
        return;
      }
      TileTry attempt(block, task);
      if (!early) attempt.load_requests(i == 0);
      if (i >= (early ? TrunkCore::kCaps : widths)) return;
      attempt.attempt(early ? full.width : i, early ? TrunkCore::cap(full, i) : 0, early ? widths + i : i);
    });
    const std::int32_t end = early ? widths + TrunkCore::kCaps : widths;
    for (std::int32_t i = early ? widths : 0; i < end; ++i) {
      const TriedTiles tried = tries[i];
      if (!tried.possible || (number >= 0 && !tried.choice.better_than(best))) continue;
      best = tried.choice;
      number = i;
    }
    if (early || !TrunkCore::may_close_early(best)) return best;
    full = best;
  }
}

}  // namespace trunkline
