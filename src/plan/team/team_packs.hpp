// Packs of the chosen tiles by a team, and what each tile streams, as pack_trunk makes them.
#pragma once

#include <cstdint>

#include "plan/team/plan_lists.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_tiles.hpp"

namespace trunkline {

template <class Block>
class FewTileLister;

/// Tiles and packs by one block.
template <class Block>
class PackLister {
 public:
  TRUNKLINE_HOST_DEVICE PackLister(Block& block, const PlanTask& task) : block_(block), task_(task) {}

  /// Whether packs are few: no request is spread, so that each tile is one, and each request without tokens.
  TRUNKLINE_HOST_DEVICE static bool are_few(const PlanTask& task, const TrunkChoice& choice) {
    const BlockMemory::State& state = *task.block.state;
    return state.widest <= task.machine.max_queries() &&
           choice.tiles + task.forest.rows - state.full <= FewPacks::kMost;
  }

  /// The tiles of a try, how long their lists are, and their packs; then those of empty requests.
  TRUNKLINE_HOST_DEVICE void list_tiles(const TrunkChoice& choice, std::int32_t number) {
    const PlanTask& task = task_;
    const std::int32_t count = choice.tiles;
    const std::int32_t* const begins = task_.begins_of(number, count);
    const std::int32_t width = choice.fill.width;
    std::int64_t* const sums = task_.block.listed;
    const std::int64_t all = block_.template scan<std::int64_t>(
        count,
        [&task, sums, begins, width, number](std::int32_t i) {
          const PlanMemory& to = task.memory;
          const TileFrame tile = frame_of(task, width, {begins[i], begins[i + 1]});
          if (i == 0) keep_cuts(task, number);
          to.frames[i] = tile;
          sums[i] = segments_of(to, tile) + (std::int64_t{packs_of(task, tile)} << 32);
          return sums[i];
        },
        [&task, sums, count](std::int32_t i, std::int64_t before) {
          const PlanMemory& to = task.memory;
          if (i == count) {
            to.shape[PlanMemory::kRaw] = static_cast<std::int32_t>(before);
            to.shape[PlanMemory::kTiles] = count;
            to.shape[PlanMemory::kPacks] = static_cast<std::int32_t>(before >> 32);
            to.shape[PlanMemory::kOpenEnds] = 1;
            to.shape[PlanMemory::kOwnTiles] = kNoTiles;
            to.shape[PlanMemory::kFewTiles] = 0;
            return;
          }
          TileFrame& tile = to.frames[i];
          tile.raw_begin = static_cast<std::int32_t>(before);
          tile.raw_end = static_cast<std::int32_t>(before + sums[i]);
          const Undivided pack{i, 0, tile.positions, tile.width};
          spread(task, pack, task.machine.widths[tile.width].max_queries, static_cast<std::int32_t>(before >> 32));
        });
    const std::int32_t full = task_.block.state->full;
    if (full < task_.forest.rows) list_alone(full, static_cast<std::int32_t>(all >> 32));
  }

  /// Packs of requests alone, from an index of Forest::order on. \param packs before them
  TRUNKLINE_HOST_DEVICE void list_alone(std::int32_t first, std::int32_t packs) {
    const PlanTask& task = task_;
    const PlanMemory& memory = task_.memory;
    std::int32_t* const begins = memory.pack_begin;
    const std::int32_t count = task_.forest.rows - first;
    block_.each(count, [&task, begins, first](std::int32_t i) {
      begins[i] = ceil_div(task.memory.queries[first + i], task.machine.max_queries());
    });
    const std::int32_t added = block_.scan_exclusive(begins, count);
    block_.each(count, [&task, begins, first, packs](std::int32_t i) {
      const std::int32_t position = task.memory.position[first + i];
      const Range positions = {position, position + task.memory.queries[first + i]};
      const Undivided pack{-1, first + i, positions, -1};
      spread(task, pack, task.machine.max_queries(), packs + begins[i]);
    });
    block_.once([&memory, packs, added] {
      memory.shape[PlanMemory::kPacks] = packs + added;
      memory.shape[PlanMemory::kOpenEnds] = 1;
      memory.shape[PlanMemory::kOwnTiles] = kNoTiles;
    });
  }

 private:
  friend class FewTileLister<Block>;

  /// For PackDivider. By one thread.
  TRUNKLINE_HOST_DEVICE static void keep_cuts(const PlanTask& task, std::int32_t number) {
    BlockMemory::State& state = *task.block.state;
    const TriedTiles& tried = state.tried[number];
    state.chosen = {tried.pieces, tried.reads, number, tried.choice.tiles, tried.choice.fill.width};
    state.costs.set(tried.reads.costs);
  }

  /// Index of Forest::order of a request that tiles hold. Mostly there is no gap, and a read is saved.
  TRUNKLINE_HOST_DEVICE static std::int32_t order_of(const PlanTask& task, std::int32_t listed) {
    return task.block.state->in_order != 0 ? listed : task.memory.try_orders[listed];
  }

  TRUNKLINE_HOST_DEVICE static TileFrame frame_of(const PlanTask& task, std::int32_t width, Range listed) {
    const PlanMemory& memory = task.memory;
    const TeamMachine& machine = task.machine;
    const std::int32_t first = order_of(task, listed.begin);
    const std::int32_t last = order_of(task, listed.end - 1);
    TileFrame tile{};
    tile.members = {first, last + 1};
    tile.positions = {memory.position[first], memory.position[last] + memory.queries[last]};
    tile.first_node = task.forest.node[task.forest.order[first]];
    tile.last_node = task.forest.node[task.forest.order[last]];
    tile.path = task.forest.nodes[tile.first_node].depth + 1;
    const std::int32_t queries = least(size_of(tile.positions), machine.widths[width].max_queries);
    const std::int32_t least_width = task.block.state->first_width;
    const TrunkWidth& narrow =
        narrowed(machine.widths[width], queries, machine.widths + least_width, machine.width_count - least_width);
    tile.width = static_cast<std::int32_t>(&narrow - machine.widths);
    tile.middle = narrow.halves ? tile.positions.begin + machine.first_half(tile.width, queries) : 0;
    return tile;
  }

  TRUNKLINE_HOST_DEVICE static std::int32_t segments_of(const PlanMemory& memory, const TileFrame& tile) {
    const std::int32_t tails = memory.tails_before[tile.members.end] - memory.tails_before[tile.members.begin];
    return tile.path + tile.last_node - tile.first_node + tails;
  }
  TRUNKLINE_HOST_DEVICE static std::int32_t packs_of(const PlanTask& task, const TileFrame& tile) {
    return ceil_div(size_of(tile.positions), task.machine.widths[tile.width].max_queries);
  }

  /// What may be wider than a tile.
  struct Undivided {
    std::int32_t tile;  ///< as in PlannedPack
    std::int32_t order_index;
    Range positions;
    std::int32_t width;  ///< -1: the narrowest that holds what is left
  };

  /// A request that alone is wider than a tile is spread over full ones, and what is left of it. \param first where
  /// packs are written
  TRUNKLINE_HOST_DEVICE static void spread(const PlanTask& task, const Undivided& all, std::int32_t room,
                                           std::int32_t first) {
    TRUNKLINE_ROLLED
    for (std::int32_t begin = all.positions.begin; begin < all.positions.end; begin += room, ++first) {
      PlannedPack& pack = task.memory.packs[first];
      pack.tile = all.tile;
      pack.order_index = all.order_index;
      pack.positions = {begin, least(begin + room, all.positions.end)};
      const std::int32_t queries = size_of(pack.positions);
      pack.width = all.width < 0 ? task.machine.width_for(queries) : all.width;
      pack.first_half = task.machine.first_half(pack.width, queries);
    }
  }

  Block& block_;
  const PlanTask& task_;
};

/// Queries of the request at an index of Forest::order, by position.
TRUNKLINE_HOST_DEVICE inline void place_queries_of(const PlanTask& task, std::int32_t i) {
  const std::int32_t first = task.forest.query_begin[task.forest.order[i]];
  const std::int32_t queries = task.memory.queries[i];
  const std::int32_t position = task.memory.position[i];
  TRUNKLINE_ROLLED
  for (std::int32_t token = 0; token < queries; ++token) task.memory.query_at[position + token] = first + token;
}

template <class Team>
TRUNKLINE_HOST_DEVICE void place_queries(Team& team, const PlanTask& task) {
  team.each(task.forest.rows, [&task](std::int32_t i) { place_queries_of(task, i); });
}

}  // namespace trunkline
